#include "emulator/checks/deadlock/sleepers.hpp"

#include <algorithm>
#include <bit>

#include "emulator/checks/deadlock/wait_chains.hpp"

namespace stagecraft::emulator::checks {

using machine::Block;
using machine::Fragment;
using machine::WaitKind;
using machine::Warp;

Sleepers::Sleepers(const machine::Cluster& cluster, const BarrierHistories& histories)
    : cluster_(cluster), histories_(histories) {
  collect();
  for (Group& group : groups_) group.needs = needs_of(*this, group);
  find_roots(groups_);
}

void Sleepers::collect() {
  for (const auto& block : cluster_.blocks) {
    for (const Warp& warp : block->warps) {
      for (const auto& fragment : warp.fragments) {
        if (fragment->state != machine::FragmentState::blocked) continue;
        const auto same = std::find_if(groups_.begin(), groups_.end(), [&](const Group& group) {
          const Fragment& first = *group.first;
          return first.warp->block == block.get() && first.pc == fragment->pc &&
                 first.wait.kind == fragment->wait.kind && first.wait.address == fragment->wait.address &&
                 first.wait.value == fragment->wait.value &&
                 (first.wait.kind != WaitKind::warp_sync || &first == fragment.get());
        });
        const bool whole = fragment->mask == machine::kAllLanes;
        if (same == groups_.end()) {
          groups_.push_back({fragment.get(), {fragment.get()}, {warp.index}, whole});
        } else {
          same->all.push_back(fragment.get());
          if (same->warps.back() != warp.index) same->warps.push_back(warp.index);
          same->whole_warps = same->whole_warps && whole;
        }
      }
    }
  }
}

const BarrierHistory* Sleepers::history_at(const Block* block, uint32_t offset) const {
  const auto found = histories_.find({block, offset});
  return found == histories_.end() ? nullptr : &found->second;
}

const Block* Sleepers::block_of_barrier(const Fragment& waiter) const { return cluster_.block_of(waiter.wait.address); }

const machine::Mbarrier* Sleepers::barrier_of(const Fragment& waiter) const {
  if (waiter.wait.kind != WaitKind::mbarrier) return nullptr;
  const Block* block = block_of_barrier(waiter);
  if (block == nullptr) return nullptr;
  const auto found = block->mbarriers.live.find(offset_of(waiter));
  return found == block->mbarriers.live.end() ? nullptr : &found->second;
}

const BarrierHistory& Sleepers::history_of(const Fragment& waiter) const {
  static const BarrierHistory kNone;
  const BarrierHistory* found = history_at(block_of_barrier(waiter), offset_of(waiter));
  return found == nullptr ? kNone : *found;
}

bool Sleepers::never_arrived(const Group& group) const {
  const machine::Mbarrier* barrier = barrier_of(*group.first);
  return barrier != nullptr && barrier->phase == 0 && barrier->pending == barrier->expected &&
         barrier->transaction == 0 && history_of(*group.first).arrivers.empty();
}

bool Sleepers::has_arrived(const Group& group) const {
  return std::any_of(histories_.begin(), histories_.end(), [&](const auto& known) {
    return std::any_of(known.second.arrivers.begin(), known.second.arrivers.end(),
                       [&](const BarrierHistory::Arriver& arriver) { return is_one_of(arriver, group); });
  });
}

bool Sleepers::has_not_begun(const Group& group) const {
  return never_arrived(group) && !has_arrived(group) && !history_of(*group.first).passed_before_first;
}

bool Sleepers::is_waited_for(const Group& group) const {
  return std::any_of(groups_.begin(), groups_.end(), [&](const Group& other) {
    const Fragment& first = *other.first;
    if (&other == &group || first.wait.kind != WaitKind::mbarrier) return false;
    const BarrierHistory& history = history_of(first);
    return !history.passed_before_first &&
           std::any_of(history.arrivers.begin(), history.arrivers.end(),
                       [&](const BarrierHistory::Arriver& arriver) { return is_one_of(arriver, group); });
  });
}

bool is_one_of(const BarrierHistory::Arriver& arriver, const Group& group) {
  return std::any_of(group.all.begin(), group.all.end(), [&](const Fragment* each) { return arriver.is_in(*each); });
}

size_t threads_of(const Group& group) {
  size_t threads = 0;
  for (const Fragment* each : group.all) threads += static_cast<size_t>(std::popcount(each->mask));
  return threads;
}

}  // namespace stagecraft::emulator::checks
