#include "emulator/checks/deadlock/rules.hpp"

#include <algorithm>
#include <utility>

#include "emulator/checks/deadlock/causes.hpp"

namespace stagecraft::emulator::checks {

using machine::WaitKind;

namespace {

constexpr uint32_t kNeverArrived = kFirstWaitPassed | kOthersEnded | kOthersSleep;

// clang-format off
// In the order in which they are tried. Most situations end in a rule that always applies.
constexpr Rule kRules[] = {
    {kRegisters, registers_asked_for_in_vain, Weight::state},
    {kTensorMemory, tensor_memory_never_freed, Weight::wrong_place},
    {kBlockPair, one_block_of_a_pair, Weight::wrong_place},
    {kWarpgroup, part_of_a_warpgroup, Weight::two_sides},
    {kClusterBarrier, not_all_of_the_cluster, Weight::cluster},

    {kNamedBarrier, two_numbers_for_one_meeting, Weight::rounds},
    {kNamedBarrier, exited_before_the_barrier, Weight::rounds},
    {kNamedBarrier, barrier_waits_for_lanes_held_up, Weight::held_up},
    {kNamedBarrier, barrier_in_a_branch_of_lanes, Weight::wrong_place},
    {kNamedBarrier, barrier_in_a_branch_of_warps, Weight::absence},

    {kWarp, operation_in_a_branch_of_lanes, Weight::wrong_place},
    {kWarp, other_lanes_held_up, Weight::held_up},

    {kInitialisedTwice, two_barriers_at_one_address, Weight::state},

    {kBytesMissing, one_block_announces_for_both, Weight::state},
    {kBytesMissing, copies_signal_another_barrier, Weight::state},
    {kBytesMissing, copy_leaves_a_block_out, Weight::state, Weight::two_sides},
    {kBytesMissing, copy_never_comes, Weight::wrong_place, Weight::two_sides},
    {kBytesMissing, copies_bring_too_few, Weight::state, Weight::two_sides},
    {kBytesSurplus, bytes_announced_at_another_barrier, Weight::state},
    {kBytesSurplus, copies_bring_too_many, Weight::state},

    {kPhasesOverrun, lanes_end_phases_alone, Weight::state},

    {kArrivalsMissing, exited_while_counted, Weight::state},
    {kArrivalsMissing, arrivals_at_another_block, Weight::state},
    {kArrivalsMissing, each_block_arrives_at_its_own, Weight::count},
    {kArrivalsMissing, companion_never_arrived, Weight::state},
    {kArrivalsMissing, arrival_in_a_branch_of_lanes, Weight::state},
    {kArrivalsMissing, arrives_twice_in_a_round, Weight::count},
    {kArrivalsMissing, miscounted, Weight::count},

    {kLaterPhase, waiter_was_lapped, Weight::rounds},
    {kLaterPhase | kNeverArrived, arrival_where_its_side_waits, Weight::state},
    {kLaterPhase, first_wait_skips_a_phase, Weight::rounds},
    {kLaterPhase, other_side_takes_fewer_rounds, Weight::rounds},
    {kLaterPhase, waits_for_itself, Weight::wrong_place},

    {kNeverArrived, only_another_block_is_signalled, Weight::state},
    {kNeverArrived, two_sides_at_one_barrier, Weight::wrong_place},
    {kFirstWaitPassed, waits_where_the_other_side_does, Weight::wrong_place},
    {kFirstWaitPassed, filled_for_nobody, Weight::rounds},
    {kLaterPhase | kFirstWaitPassed, one_wait_too_many, Weight::rounds},
    {kLaterPhase, one_round_too_few, Weight::slot},
    {kFirstWaitPassed, release_behind_a_meeting, Weight::rounds},
    {kFirstWaitPassed, slot_never_released, Weight::rounds},

    {kOthersEnded, another_slot_was_filled, Weight::slot},
    {kOthersEnded, all_wait_and_nobody_arrives, Weight::absence},
    {kOthersEnded, filler_has_ended, Weight::absence},
    {kOthersEnded, all_others_have_ended, Weight::absence},

    {kOthersSleep, copies_filled_another_slot, Weight::slot},
    {kOthersSleep, filler_of_one_side_has_ended, Weight::rounds},
    {kOthersSleep, early_side_waits_at_another_slot, Weight::slot},
    {kOthersSleep, late_side_went_past_its_arrival, Weight::two_sides},
    {kOthersSleep, both_sides_went_past_an_arrival, Weight::two_sides},
    {kOthersSleep, both_sides_wait_first, Weight::two_sides},
    {kOthersSleep, arrival_behind_a_meeting, Weight::two_sides},
    {kOthersSleep, slot_beside_was_filled, Weight::slot},
    {kOthersSleep, no_slot_was_ever_filled, Weight::slot},
    {kOthersSleep, first_wait_may_have_to_pass, Weight::slot},
    {kOthersSleep, no_warp_takes_the_role, Weight::slot},
    {kOthersSleep, producer_went_past_its_arrival, Weight::two_sides},
    {kOthersSleep, nobody_arrives, Weight::two_sides},
};
// clang-format on

/// Whether an mbarrier was initialised at two places for different counts, and not used in between.
bool is_initialised_twice(const BarrierHistory& history) {
  if (history.initialisations.size() < 2) return false;
  const auto &one = history.initialisations.front(), &other = history.initialisations.back();
  return one.pc != other.pc && one.count != other.count;
}

Situation situation_at_mbarrier(const Sleepers& sleepers, const Group& group) {
  const machine::Mbarrier* barrier = sleepers.barrier_of(*group.first);
  if (barrier == nullptr) return kNoSituation;
  const BarrierHistory& history = sleepers.history_of(*group.first);
  if (is_initialised_twice(history)) return kInitialisedTwice;
  if (barrier->pending == 0 && barrier->transaction > 0) return kBytesMissing;
  if (barrier->transaction < 0) return kBytesSurplus;
  if (history.overrun_lanes != 0) return kPhasesOverrun;
  if (barrier->pending > 0 && barrier->pending < barrier->expected) return kArrivalsMissing;
  if (barrier->phase > 0) return kLaterPhase;
  if (history.passed_before_first) return kFirstWaitPassed;
  const std::vector<Group>& groups = sleepers.groups();
  const bool others_ended = std::all_of(groups.begin(), groups.end(), [&](const Group& other) {
    return waits_for_the_same(other, group) || other.first->wait.kind == WaitKind::warp_sync;
  });
  return others_ended ? kOthersEnded : kOthersSleep;
}

Situation situation_of(const Sleepers& sleepers, const Group& group) {
  switch (group.first->wait.kind) {
    case WaitKind::mbarrier: return situation_at_mbarrier(sleepers, group);
    case WaitKind::registers: return kRegisters;
    case WaitKind::tensor_memory: return kTensorMemory;
    case WaitKind::block_pair: return kBlockPair;
    case WaitKind::named_barrier: return kNamedBarrier;
    case WaitKind::warpgroup_mma: return kWarpgroup;
    case WaitKind::cluster_barrier: return kClusterBarrier;
    case WaitKind::warp_sync: return kWarp;
    default: return kNoSituation;
  }
}

Explanation explain(const Sleepers& sleepers, const Group& group) {
  const Situation situation = situation_of(sleepers, group);
  const machine::Mbarrier* barrier = sleepers.barrier_of(*group.first);
  const bool is_later = barrier != nullptr && barrier->phase > 0;
  for (const Rule& rule : kRules) {
    if ((rule.situations & situation) == 0) continue;
    std::string text = rule.explain(sleepers, group);
    if (!text.empty()) return {&group, &rule, is_later ? rule.later_weight : rule.weight, std::move(text)};
  }
  return {&group};
}

}  // namespace

std::span<const Rule> rules() { return kRules; }

std::vector<Explanation> explain(const Sleepers& sleepers) {
  std::vector<Explanation> explanations;
  for (const Group& group : sleepers.groups()) explanations.push_back(explain(sleepers, group));
  std::stable_sort(explanations.begin(), explanations.end(), [](const Explanation& a, const Explanation& b) {
    return a.group->is_root != b.group->is_root ? a.group->is_root : a.weight > b.weight;
  });
  return explanations;
}

}  // namespace stagecraft::emulator::checks
