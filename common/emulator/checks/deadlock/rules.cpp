#include "emulator/checks/deadlock/rules.hpp"

#include <algorithm>
#include <utility>

#include "emulator/checks/deadlock/causes.hpp"

namespace stagecraft::emulator::checks {

using machine::WaitKind;

namespace {

constexpr uint32_t kNeverArrived = kFirstWaitPassed | kOthersEnded | kOthersSleep;

// clang-format off
// In the order in which they are tried. Most situations end in a rule that always applies. The tests are those of
// tests/emulator/checks/deadlock/.
constexpr Rule kRules[] = {
    {kRegisters, registers_asked_for_in_vain, Weight::state,
     "HopperDeadlockTest.SaysThatABlockAsksForMoreRegistersThanItHas"},
    {kTensorMemory, tensor_memory_never_freed, Weight::wrong_place, "DeadlockTest.SaysThatTensorMemoryIsNotFreed"},
    {kBlockPair, one_block_of_a_pair, Weight::wrong_place, "DeadlockTest.SaysThatOneBlockOfAPairAllocates"},
    {kWarpgroup, part_of_a_warpgroup, Weight::two_sides,
     "HopperDeadlockTest.SaysThatAMultiplicationNeedsAllWarpsOfAWarpgroup"},
    {kClusterBarrier, one_block_meets_once_more, Weight::state,
     "DeadlockTest.NamesTheBlockThatMeetsTheOthersOnceMore"},
    {kClusterBarrier, not_all_of_the_cluster, Weight::cluster,
     "LanesApartTest.BlamesTheClusterWhereTheOtherLanesWaitForThoseOfABranch"},

    {kNamedBarrier, two_numbers_for_one_meeting, Weight::rounds, "DeadlockTest.SaysThatTwoSidesMeetAtDifferentNumbers"},
    {kNamedBarrier, exited_before_the_barrier, Weight::rounds,
     "DeadlockTest.NamesTheWarpThatExitsBeforeABarrierThatCountsIt"},
    {kNamedBarrier, barrier_waits_for_lanes_held_up, Weight::held_up,
     "LanesApartTest.BlamesAShuffleInABranchAndNotTheBarrierAfterIt"},
    {kNamedBarrier, barrier_in_a_branch_of_lanes, Weight::wrong_place,
     "LanesApartTest.BlamesABarrierInABranchAndNotTheOperationOfTheWarpAfterIt"},
    {kNamedBarrier, nobody_else_can_come, Weight::state, "DeadlockTest.SaysThatNobodyElseCanComeToABarrier"},
    {kNamedBarrier, barrier_in_a_branch_of_warps, Weight::absence, "DeadlockTest.SaysThatNotAllWarpsComeToABarrier"},

    {kWarp, lanes_wait_for_each_other, Weight::state, "DeadlockTest.BlamesLanesThatWaitForEachOtherBeforeACount"},
    {kWarp, operation_in_a_branch_of_lanes, Weight::wrong_place,
     "LanesApartTest.BlamesAShuffleInABranchAndNotTheBarrierAfterIt"},
    {kWarp, other_lanes_held_up, Weight::held_up,
     "LanesApartTest.BlamesABarrierInABranchAndNotTheOperationOfTheWarpAfterIt"},

    {kInitialisedTwice, two_barriers_at_one_address, Weight::state, "DeadlockTest.SaysThatTwoBarriersShareOneAddress"},

    {kBytesMissing, one_block_announces_for_both, Weight::state,
     "DeadlockTest.FindsTheBytesThatCameToABlockWhichAnnouncesNone"},
    {kBytesMissing, copies_signal_another_barrier, Weight::state, "DeadlockTest.FindsTheBytesThatCameToAnotherBarrier"},
    {kBytesMissing, copy_leaves_a_block_out, Weight::state,
     "DeadlockTest.SaysWhichBlockACopyLeavesOut", Weight::two_sides},
    {kBytesMissing, copy_never_comes, Weight::wrong_place,
     "DeadlockTest.FollowsAChainOfWaitsToItsEnd", Weight::two_sides},
    {kBytesMissing, copies_bring_too_few, Weight::state,
     "DeadlockTest.SaysThatCopiesBringFewerBytesThanAnnounced", Weight::two_sides},
    {kBytesSurplus, bytes_announced_at_another_barrier, Weight::state,
     "DeadlockTest.FindsTheAnnouncementThatWentToAnotherBarrier"},
    {kBytesSurplus, copies_bring_too_many, Weight::state, "DeadlockTest.SaysThatCopiesBringMoreBytesThanAnnounced"},

    {kPhasesOverrun, lanes_end_phases_alone, Weight::state, "DeadlockTest.NamesAnInstructionThatEndsManyPhasesAtOnce"},

    {kArrivalsMissing, exited_while_counted, Weight::state, "DeadlockTest.NamesTheLaneThatHasExitedAndIsCounted"},
    {kArrivalsMissing, arrivals_at_another_block, Weight::state, "DeadlockTest.FindsTheArrivalsThatCameToAnotherBlock"},
    {kArrivalsMissing, each_block_arrives_at_its_own, Weight::count,
     "DeadlockTest.SaysThatEachBlockArrivesAtItsOwnBarrierOnly"},
    {kArrivalsMissing, companion_never_arrived, Weight::state,
     "DeadlockTest.NamesTheReaderThatDoesNotArriveAsTheOtherDoes"},
    {kArrivalsMissing, arrives_again_before_others, Weight::count,
     "DeadlockTest.SaysThatTheSameLanesArriveAgainInOnePhase"},
    {kArrivalsMissing, blocks_that_arrive_nowhere, Weight::count, "DeadlockTest.NamesTheBlockThatArrivesNowhere"},
    {kArrivalsMissing, arrivals_leave_a_block_out, Weight::count, "DeadlockTest.NamesTheArrivalThatLeavesABlockOut"},
    {kArrivalsMissing, one_lane_for_all_that_are_counted, Weight::count,
     "DeadlockTest.SaysThatOneLaneArrivesWhereAllAreCounted"},
    {kArrivalsMissing, reader_never_arrived, Weight::count, "DeadlockTest.NamesTheReaderThatHasNeverArrived"},
    {kArrivalsMissing, arrival_in_a_branch_of_lanes, Weight::state, "DeadlockTest.NamesTheLaneThatDoesNotArrive"},
    {kArrivalsMissing, arrives_twice_in_a_round, Weight::count,
     "DeadlockTest.NamesTheSideThatIsAheadBecauseItArrivesTwice"},
    {kArrivalsMissing, exited_without_arriving, Weight::count, "DeadlockTest.NamesTheWarpThatExitsAndNeverArrives"},
    {kArrivalsMissing, too_few_warps_launched, Weight::count, "DeadlockTest.SaysThatTooFewWarpsAreLaunched"},
    {kArrivalsMissing, missing_since_the_phase_before, Weight::count,
     "DeadlockTest.NamesWhoArrivedInThePhaseBeforeOnly"},
    {kArrivalsMissing, waiters_may_count, Weight::count, "DeadlockTest.SaysThatAsManyWaitAsAreMissing"},
    {kArrivalsMissing, miscounted, Weight::count,
     "DeadlockTest.PrefersTheArrivalsThatAreMissingToTheCopyThatWaitsForThem"},

    {kLaterPhase, waiter_was_lapped, Weight::rounds, "DeadlockTest.NamesTwoPhasesThatEndedWithoutAWaitInBetween"},
    {kLaterPhase, steps_over_a_slot, Weight::rounds, "DeadlockTest.NamesTheSlotThatAllStepOver"},
    {kLaterPhase | kFirstWaitPassed, slot_freed_too_often, Weight::rounds,
     "DeadlockTest.NamesTheSlotThatIsFreedTwiceForOneFilling"},
    {kLaterPhase | kFirstWaitPassed, passes_a_slot_without_filling_it, Weight::rounds,
     "DeadlockTest.NamesTheSlotThatIsPassedWithoutBeingFilled"},
    {kLaterPhase | kNeverArrived, arrival_where_its_side_waits, Weight::state,
     "DeadlockTest.FindsTheArrivalAtTheBarrierThatItsOwnSideWaitsFor"},
    {kLaterPhase, first_wait_skips_a_phase, Weight::rounds, "DeadlockTest.SaysThatAPhaseEndedBeforeAnybodyWaitedForIt"},
    {kLaterPhase, other_side_takes_fewer_rounds, Weight::rounds, "DeadlockTest.SaysThatTheOtherSideTakesFewerRounds"},
    {kLaterPhase, waits_for_itself, Weight::wrong_place, "DeadlockTest.SaysThatAWarpWaitsForItself"},

    {kNeverArrived, only_another_block_is_signalled, Weight::state,
     "DeadlockTest.SaysThatTheArrivalsWentToAnotherBlocksBarrier"},
    {kOthersEnded | kOthersSleep, takes_the_next_slot_and_frees_none, Weight::rounds,
     "DeadlockTest.NamesWhoTakesTheNextSlotAndFreesNone"},
    {kNeverArrived, two_sides_at_one_barrier, Weight::wrong_place,
     "DeadlockTest.NamesTheBarrierThatNobodyWaitsForWhereTwoSidesWaitForOne"},
    {kFirstWaitPassed, waits_where_the_other_side_does, Weight::wrong_place,
     "DeadlockTest.SaysThatAReaderWaitsWhereTheProducerDoes"},
    {kFirstWaitPassed, filled_for_nobody, Weight::rounds, "DeadlockTest.NamesThePhaseThatTheOtherSideDidNotStayFor"},
    {kLaterPhase | kFirstWaitPassed, one_wait_too_many, Weight::rounds, "DeadlockTest.SaysThatAWaitIsOneTooMany"},
    {kLaterPhase, reader_keeps_the_slot, Weight::rounds, "DeadlockTest.NamesTheReaderThatKeepsASlot"},
    {kLaterPhase, one_round_too_few, Weight::slot, "DeadlockTest.SaysThatTheOtherSideHasEndedARoundEarly"},
    {kFirstWaitPassed, release_behind_a_meeting, Weight::rounds,
     "DeadlockTest.NamesTheMeetingOfTheRoleThatIsToReleaseASlot"},
    {kFirstWaitPassed, slot_never_released, Weight::rounds,
     "DeadlockTest.KeepsToTheProducerWhereSomebodyHasWaitedForIt"},

    {kOthersEnded | kOthersSleep, all_arrivals_go_elsewhere, Weight::rounds,
     "DeadlockTest.NamesTheArrivalsThatAllGoToOtherBarriers"},
    {kOthersEnded, another_slot_was_filled, Weight::slot, "DeadlockTest.NamesTheSlotThatWasFilledInstead"},
    {kOthersEnded, all_wait_and_nobody_arrives, Weight::absence, "DeadlockTest.SaysThatNoWarpTakesARole"},
    {kOthersEnded, one_wait_more_than_arrivals, Weight::absence, "DeadlockTest.SaysThatAWaitIsOneMoreThanTheArrivals"},
    {kOthersEnded, filler_has_ended, Weight::absence, "DeadlockTest.NamesTheProducerThatEndsWithoutAnArrival"},
    {kOthersEnded, all_others_have_ended, Weight::absence, "DeadlockTest.SaysThatAllOthersHaveEnded"},

    {kOthersSleep, copies_filled_another_slot, Weight::slot, "DeadlockTest.NamesTheSlotThatCopiesFilledInstead"},
    {kOthersSleep, filler_of_one_side_has_ended, Weight::rounds,
     "DeadlockTest.NamesTheProducerThatEndsWithoutAnArrival"},
    {kOthersSleep, filler_waits_for_a_slot_first, Weight::rounds,
     "DeadlockTest.AsksTheFillerForParityOneWhereAsManyWaitAsItWaitsFor"},
    {kOthersSleep, role_ends_before_it_begins, Weight::rounds,
     "DeadlockTest.NamesTheWarpThatEndsBeforeItsRoleBegins"},
    {kOthersSleep, early_side_waits_at_another_slot, Weight::slot,
     "DeadlockTest.NamesTheSlotThatTheSideAheadSignalledInstead"},
    {kOthersSleep, late_side_went_past_its_arrival, Weight::two_sides,
     "DeadlockTest.NamesTheArrivalThatASideHasGonePast"},
    {kOthersSleep, both_sides_went_past_an_arrival, Weight::two_sides,
     "DeadlockTest.SaysThatEachSideWentPastAnArrival"},
    {kOthersSleep, both_sides_wait_first, Weight::two_sides,
     "DeadlockTest.AsksForParityOneWhereBothSidesWaitForTheFirstArrival"},
    {kOthersSleep, arrival_behind_a_meeting, Weight::two_sides,
     "DeadlockTest.SaysWhoWaitsAtSyncthreadsForThoseWhoWaitForItsArrival"},
    {kOthersSleep, slot_beside_was_filled, Weight::slot, "DeadlockTest.NamesTheSlotBesideTheOneThatIsWaitedFor"},
    {kOthersSleep, no_slot_was_ever_filled, Weight::slot, "DeadlockTest.NamesTheProducerThatEndsWithoutAnArrival"},
    {kOthersSleep, first_wait_may_have_to_pass, Weight::slot, "DeadlockTest.AsksWhetherAFirstWaitIsToPass"},
    {kOthersSleep, no_warp_takes_the_role, Weight::slot, "DeadlockTest.SaysThatNoWarpTakesARole"},
    {kOthersSleep, producer_went_past_its_arrival, Weight::two_sides,
     "DeadlockTest.NamesWhoWentPastTheArrivalThatTheOtherSideWaitsFor"},
    {kOthersSleep, nobody_arrives, Weight::two_sides,
     "DeadlockTest.SaysWhichParityPassesAtOnceWhereNothingElseIsKnown"},
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
    if (!text.empty() && (situation & kNeverArrived) != 0) {
      const std::string skipped = arrival_that_is_skipped(sleepers, group);
      if (!skipped.empty()) text += (text.back() == '?' ? "" : ".") + skipped;
    }
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
