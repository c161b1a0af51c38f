#include "emulator/instructions/exit_lanes.hpp"

#include "emulator/instructions/block_barriers.hpp"
#include "emulator/state/announcements.hpp"
#include "emulator/state/waiting.hpp"

namespace stagecraft::emulator::machine {

void exit_lanes(Fragment& fragment, LaneMask lanes) {
  Warp& warp = *fragment.warp;
  warp.live &= ~lanes;
  fragment.mask &= ~lanes;
  if (fragment.mask == 0) fragment.state = FragmentState::exited;
  // Whoever waits for these lanes need not any more.
  for (const auto& other : warp.fragments) {
    if (other->state == FragmentState::blocked && other->wait.kind == WaitKind::warp_sync) wake(*other);
  }
  if (!fragment.grid().memory_observers.empty()) {
    announce_rendezvous({RendezvousKind::exit, warp.block->cluster, warp.block, 0, &fragment, lanes});
  }
  lanes_have_exited(warp, lanes);
  if (warp.live == 0) --warp.block->live_warps;
  if (fragment.mask != 0) return;
  for (Observer* observer : fragment.grid().observers) observer->fragment_exited(fragment);
}

}  // namespace stagecraft::emulator::machine
