#include "emulator/state/waiting.hpp"

#include <algorithm>
#include <utility>

namespace stagecraft::emulator::machine {

void sleep(Fragment& fragment, Wait wait) {
  fragment.state = FragmentState::blocked;
  fragment.wait = wait;
  fragment.limited = false;
  for (Observer* observer : fragment.grid().observers) observer->fragment_blocked(fragment);
}

void sleep_at_most(Fragment& fragment, Wait wait, Cycle limit) {
  sleep(fragment, wait);
  fragment.limited = true;
  Cluster& cluster = fragment.cluster();
  cluster.time_limits.add({time_of(cluster) + limit, cluster.next_sequence++}, fragment);
}

void end_sleep(Fragment& fragment) {
  fragment.warp->block->mbarriers.forget(fragment);  // a warp can wait only for barriers of its own block
  fragment.timed_out = true;
  wake(fragment);
}

void wake(Fragment& fragment) {
  if (fragment.state != FragmentState::blocked) return;
  if (fragment.limited) fragment.cluster().time_limits.remove(fragment);
  fragment.limited = false;
  fragment.state = FragmentState::ready;
  fragment.wait = {};
  fragment.held_back = fragment.stands_aside = false;
  fragment.warp->clock = std::max(fragment.warp->clock, time_of(fragment.cluster()));
  for (Observer* observer : fragment.grid().observers) observer->fragment_woken(fragment);
}

void wake_for_tensor_memory(Sm& sm, Cycle at) {
  for (Fragment* fragment : std::exchange(sm.waiting_for_tensor_memory, {})) {
    Cluster& cluster = fragment->cluster();
    if (cluster.stuck) cluster.now = std::max(cluster.now, at);  // nothing happened in it meanwhile
    cluster.stuck = false;
    fragment->warp->clock = std::max(fragment->warp->clock, at);
    wake(*fragment);
  }
}

void resume_after(Fragment& fragment) {
  wake(fragment);
  ++fragment.pc;
}

}  // namespace stagecraft::emulator::machine
