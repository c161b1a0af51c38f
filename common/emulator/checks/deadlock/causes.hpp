// What each rule of the table in rules.cpp recognises, and says. All have one form: the explanation of a group's wait,
// or nothing where the rule does not apply. A rule may rely on the situations that the table names for it, and on no
// earlier rule having applied.
#pragma once

#include <cstdint>
#include <string>

#include "emulator/checks/deadlock/sleepers.hpp"

namespace stagecraft::emulator::checks {

// other_waits.cpp
/// setmaxnreg.inc asks for more than the block has.
std::string registers_asked_for_in_vain(const Sleepers& sleepers, const Group& group);
/// tcgen05.alloc waits for columns.
std::string tensor_memory_never_freed(const Sleepers& sleepers, const Group& group);
/// One block of a pair executes an instruction of both.
std::string one_block_of_a_pair(const Sleepers& sleepers, const Group& group);
/// Some warps of a warpgroup issue a wgmma.mma_async.
std::string part_of_a_warpgroup(const Sleepers& sleepers, const Group& group);
/// All threads of a block wait at barrier.cluster, and all of another have gone past it.
std::string one_block_meets_once_more(const Sleepers& sleepers, const Group& group);
/// Some threads come to the barrier of the cluster.
std::string not_all_of_the_cluster(const Sleepers& sleepers, const Group& group);

// named_barrier_cause.cpp
/// The threads that a barrier of the block misses wait at one of another number.
std::string two_numbers_for_one_meeting(const Sleepers& sleepers, const Group& group);
/// Threads have exited that a barrier of the block counts.
std::string exited_before_the_barrier(const Sleepers& sleepers, const Group& group);
/// Too few of those who sleep elsewhere can still come to a barrier that says how many it counts.
std::string nobody_else_can_come(const Sleepers& sleepers, const Group& group);
/// Threads do not come to a barrier of the block.
std::string barrier_in_a_branch_of_warps(const Sleepers& sleepers, const Group& group);
/// How many threads have not come to the barrier of the block where one waits.
uint32_t threads_missing_at(const machine::Fragment& waiter);

// lanes_apart.cpp
/// The same as the next, where the lanes wait for each other: nothing else can end that.
std::string lanes_wait_for_each_other(const Sleepers& sleepers, const Group& group);
/// Lanes of a warp came to an operation of the whole warp, and the others went past it.
std::string operation_in_a_branch_of_lanes(const Sleepers& sleepers, const Group& group);
/// Lanes wait for others of their warp, which wait for something else.
std::string other_lanes_held_up(const Sleepers& sleepers, const Group& group);
/// Lanes of a warp came to a barrier of the block, and the others of it went past.
std::string barrier_in_a_branch_of_lanes(const Sleepers& sleepers, const Group& group);
/// Lanes that a barrier of the block misses wait for others of their warp, which have come.
std::string barrier_waits_for_lanes_held_up(const Sleepers& sleepers, const Group& group);

// mbarrier_state.cpp
/// Two initialisations of one mbarrier, for different counts.
std::string two_barriers_at_one_address(const Sleepers& sleepers, const Group& group);
/// One instruction ended several phases, because each lane arrives for itself.
std::string lanes_end_phases_alone(const Sleepers& sleepers, const Group& group);

// bytes.cpp
/// A copy brings bytes to a block of the cluster that does not announce any.
std::string one_block_announces_for_both(const Sleepers& sleepers, const Group& group);
/// Bytes came to another barrier, which nobody announced there.
std::string copies_signal_another_barrier(const Sleepers& sleepers, const Group& group);
/// The multicast of a copy leaves the block out.
std::string copy_leaves_a_block_out(const Sleepers& sleepers, const Group& group);
/// Bytes are announced, and none have come.
std::string copy_never_comes(const Sleepers& sleepers, const Group& group);
/// Fewer bytes came than were announced.
std::string copies_bring_too_few(const Sleepers& sleepers, const Group& group);
/// Bytes came that were announced for another barrier.
std::string bytes_announced_at_another_barrier(const Sleepers& sleepers, const Group& group);
/// More bytes came than were announced.
std::string copies_bring_too_many(const Sleepers& sleepers, const Group& group);

// partial_phase.cpp
/// Lanes arrived in the phase before, and have exited.
std::string exited_while_counted(const Sleepers& sleepers, const Group& group);
/// Arrivals that the phase misses have come to the barrier of another block, for which nobody waits.
std::string arrivals_at_another_block(const Sleepers& sleepers, const Group& group);
/// All who arrived are of the barrier's own block, and those of another arrived at its own.
std::string each_block_arrives_at_its_own(const Sleepers& sleepers, const Group& group);
/// A warp waits where those who arrived in this phase wait, and has never arrived as they did.
std::string companion_never_arrived(const Sleepers& sleepers, const Group& group);
/// Lanes are missing of warps of which others arrived, each for itself.
std::string arrival_in_a_branch_of_lanes(const Sleepers& sleepers, const Group& group);
/// The side whose arrival is missing waits for the group in turn, and has gone ahead of it.
std::string arrives_twice_in_a_round(const Sleepers& sleepers, const Group& group);
/// What is missing came to the same barrier of other blocks.
std::string arrivals_leave_a_block_out(const Sleepers& sleepers, const Group& group);
/// Threads have arrived several times in this phase or the one before, in the place of others.
std::string arrives_again_before_others(const Sleepers& sleepers, const Group& group);
/// Blocks of the cluster have arrived at that barrier of no block.
std::string blocks_that_arrive_nowhere(const Sleepers& sleepers, const Group& group);
/// A warp has waited for what those who arrived had waited for, and has never arrived.
std::string reader_never_arrived(const Sleepers& sleepers, const Group& group);
/// One lane arrives where all lanes of warps are counted.
std::string one_lane_for_all_that_are_counted(const Sleepers& sleepers, const Group& group);
/// The warps that are missing would come after the last one of the block.
std::string too_few_warps_launched(const Sleepers& sleepers, const Group& group);
/// As many warps as are missing have exited, and never arrived.
std::string exited_without_arriving(const Sleepers& sleepers, const Group& group);
/// Those who are missing arrived in the phase before.
std::string missing_since_the_phase_before(const Sleepers& sleepers, const Group& group);
/// All but those who wait have arrived, and they are as many as are missing.
std::string waiters_may_count(const Sleepers& sleepers, const Group& group);
/// Fewer arrive than the barrier counts.
std::string miscounted(const Sleepers& sleepers, const Group& group);

// later_phase.cpp
/// Phases ended between two waits of the group, or before the first.
std::string waiter_was_lapped(const Sleepers& sleepers, const Group& group);
/// The first phase ended before anybody waited for it.
std::string first_wait_skips_a_phase(const Sleepers& sleepers, const Group& group);
/// All wait for one slot again, and nobody has ever waited for another that was filled.
std::string steps_over_a_slot(const Sleepers& sleepers, const Group& group);
/// A slot of the ring has been freed more often than it was filled.
std::string slot_freed_too_often(const Sleepers& sleepers, const Group& group);
/// All others have ended, and left a phase behind for which nobody has waited.
std::string other_side_takes_fewer_rounds(const Sleepers& sleepers, const Group& group);
/// Nobody but the group has arrived at the barrier, and others wait there.
std::string waits_for_itself(const Sleepers& sleepers, const Group& group);
/// All others have ended, and the group has arrived nowhere since its last wait for the same barrier.
std::string one_wait_too_many(const Sleepers& sleepers, const Group& group);
/// The slot was filled again, and those who have waited for that have not released it.
std::string reader_keeps_the_slot(const Sleepers& sleepers, const Group& group);
/// Those who arrived in the phase before do not arrive again.
std::string one_round_too_few(const Sleepers& sleepers, const Group& group);

// wrong_side.cpp
/// An arrival went to the barrier that its own side waits for, and that the group signals.
std::string arrival_where_its_side_waits(const Sleepers& sleepers, const Group& group);
/// The group has waited for its slot before, and has put nothing into it since.
std::string passes_a_slot_without_filling_it(const Sleepers& sleepers, const Group& group);
/// Two sides wait for one barrier, and another has completed a phase that nobody has waited for.
std::string two_sides_at_one_barrier(const Sleepers& sleepers, const Group& group);
/// Others began with a wait for the group's barrier that passed at once, as those do who are to fill a slot; and those
/// have ended a phase of another barrier, for which nobody has ever waited.
std::string waits_where_the_other_side_does(const Sleepers& sleepers, const Group& group);

// missing_arrival.cpp
/// The barrier at the same offset of another block has completed a phase.
std::string only_another_block_is_signalled(const Sleepers& sleepers, const Group& group);
/// The group has waited for another barrier of the array, and freed nothing since.
std::string takes_the_next_slot_and_frees_none(const Sleepers& sleepers, const Group& group);
/// All others have ended, and left a phase behind for which nobody has waited.
std::string filled_for_nobody(const Sleepers& sleepers, const Group& group);
/// Threads that are to release the slot wait for its producer at a barrier of the block or the cluster.
std::string release_behind_a_meeting(const Sleepers& sleepers, const Group& group);
/// A producer's slot is never released.
std::string slot_never_released(const Sleepers& sleepers, const Group& group);
/// A barrier of the same array has completed a phase that nobody has waited for.
std::string another_slot_was_filled(const Sleepers& sleepers, const Group& group);
/// The same, and copies brought bytes in that phase.
std::string copies_filled_another_slot(const Sleepers& sleepers, const Group& group);
/// All threads of the block wait at one place.
std::string all_wait_and_nobody_arrives(const Sleepers& sleepers, const Group& group);
/// All others have ended, and the group has waited for each phase that they have ended in this array.
std::string one_wait_more_than_arrivals(const Sleepers& sleepers, const Group& group);
/// All others have ended, among them one that arrived at other barriers of the array.
std::string filler_has_ended(const Sleepers& sleepers, const Group& group);
/// All others have ended.
std::string all_others_have_ended(const Sleepers& sleepers, const Group& group);
/// The group, or the other side, is to fill what as many wait for as it waits for itself.
std::string filler_waits_for_a_slot_first(const Sleepers& sleepers, const Group& group);
/// Two sides wait for each other's first arrival, or rather one of them for a warp that has ended.
std::string filler_of_one_side_has_ended(const Sleepers& sleepers, const Group& group);
/// The side that has arrived nowhere waits for another slot than the one that was filled.
std::string early_side_waits_at_another_slot(const Sleepers& sleepers, const Group& group);
/// One of two sides has arrived elsewhere, and warps have ended that have done nothing at any barrier.
std::string role_ends_before_it_begins(const Sleepers& sleepers, const Group& group);
/// One of two sides has arrived elsewhere, and so gone past the arrival that the other waits for.
std::string late_side_went_past_its_arrival(const Sleepers& sleepers, const Group& group);
/// Both have.
std::string both_sides_went_past_an_arrival(const Sleepers& sleepers, const Group& group);
/// Neither has: both begin with a wait for the other.
std::string both_sides_wait_first(const Sleepers& sleepers, const Group& group);
/// Others wait for the group at a barrier of the block or the cluster.
std::string arrival_behind_a_meeting(const Sleepers& sleepers, const Group& group);
/// A barrier of the same array has completed a phase that nobody has seen, and two sides take turns at that array.
std::string slot_beside_was_filled(const Sleepers& sleepers, const Group& group);
/// No barrier of the array has been arrived at, and one whose wait for one of them passed at once has ended.
std::string no_slot_was_ever_filled(const Sleepers& sleepers, const Group& group);
/// Another barrier has completed a phase for which nobody has waited, and the group may come to that wait.
std::string first_wait_may_have_to_pass(const Sleepers& sleepers, const Group& group);
/// Another barrier has completed a phase for which nobody has waited.
std::string no_warp_takes_the_role(const Sleepers& sleepers, const Group& group);
/// A producer that waits for the group has gone past the arrival that the group waits for.
std::string producer_went_past_its_arrival(const Sleepers& sleepers, const Group& group);
/// " Nobody has come to the arrival at ring.cu:41, ...": where an announcement of bytes or a commit is skipped, and it
/// is the only one; empty: it is not so.
std::string arrival_that_is_skipped(const Sleepers& sleepers, const Group& group);
/// The barrier is in no array, and all arrivals that the kernel has were executed, for other barriers.
std::string all_arrivals_go_elsewhere(const Sleepers& sleepers, const Group& group);
/// Nothing else is known.
std::string nobody_arrives(const Sleepers& sleepers, const Group& group);
/// Whether both groups wait for the mbarrier at one offset, also of different blocks.
bool waits_for_the_same(const Group& one, const Group& other);

}  // namespace stagecraft::emulator::checks
