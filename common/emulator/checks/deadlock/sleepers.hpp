// All that sleeps in a cluster in which nothing can continue, and what waits for what.
//
// A wait is followed to the threads that could end it: the lanes that have not come to a barrier of the warp, the block
// or the cluster, and the warps that have arrived at an mbarrier before. The mistake is where such a chain ends: at a
// wait that no thread which sleeps elsewhere could end, or in a ring of waits for each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "emulator/checks/deadlock/barrier_history.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/state/mbarrier_table.hpp"

namespace stagecraft::emulator::checks {

/// What one wait says about the mistake, and how much that is worth: a barrier whose bytes do not add up is itself the
/// mistake, while one that nobody has come to may only wait for a thread that waits elsewhere.
struct Cause {
  int worth = 0;
  std::string text;
};

/// Fragments of one block that sleep at the same place on the same thing; a report has one line for them.
struct Group {
  const machine::Fragment* first;
  std::vector<const machine::Fragment*> all;
  std::vector<uint32_t> warps;  ///< numbers in the block, in order
  bool whole_warps = true;
  std::vector<size_t> needs{};  ///< while causes are searched: groups one of which must continue before this one can
  bool is_root = false;         ///< the chain ends here
  Cause cause{};
};

/// "full[2]"
std::string name_of_barrier(const machine::Kernel& kernel, uint32_t address);
/// "waits for full[2] to complete phase 1 (the phase of parity 1)"
std::string describe_wait(const machine::Fragment& fragment);
/// "block (0,0,0) warps 1, 3-5 [all lanes]"
std::string describe_warps(const Group& group);
/// Describes a group with its place and its wait.
std::string describe_group(const Group& group);

class Sleepers {
 public:
  Sleepers(const machine::Cluster& cluster, const BarrierHistories& histories);
  /// Groups with roots first, and among these the wait that says most about the mistake.
  const std::vector<Group>& groups() const { return groups_; }

 private:
  void collect();
  void find_needs(Group& group);
  void need_arrivers_of_siblings(Group& group);
  void need_those_who_have_not_begun(Group& group);
  /// For a barrier at which some have arrived in its first phase: those who have not begun, if they are as many as
  /// miss.
  void need_as_many_as_are_missing(Group& group, const machine::Mbarrier& barrier);
  /// For a barrier that lacks bytes only: those whose copies brought some in the phase before, and none in this one.
  void need_those_who_brought_bytes(Group& group, const machine::Mbarrier& barrier);
  void find_roots();
  template <typename Wanted>
  void need(Group& group, const Wanted& wanted);
  const machine::Mbarrier* barrier_of(const machine::Fragment& fragment) const;
  const BarrierHistory& history_of(const machine::Fragment& fragment) const;
  static std::string name_of(const machine::Fragment& fragment);
  // Where nobody has ever arrived (missing_arrival.cpp):
  bool never_arrived(const Group& group) const;
  /// Whether it is at its first wait, one that nobody has ended: it has come to no arrival of its own yet.
  bool has_not_begun(const Group& group) const;
  /// Whether another group waits for a phase that the group is to end, as a consumer does.
  bool is_waited_for(const Group& group) const;
  /// Whether one of its fragments has arrived at any mbarrier.
  bool has_arrived(const Group& group) const;
  /// A block other than the one whose mbarrier the group waits for, where the mbarrier at the same offset has completed
  /// a phase by arrivals; null when there is none.
  const machine::Block* block_with_arrivals(const Group& group) const;
  /// Where two sides wait for one barrier: one that has completed a phase that nobody has waited for; empty: none.
  std::string barrier_that_nobody_waits_for(const Group& group) const;
  /// Where all others have ended: a barrier that the group arrives at, and whose last phase nobody has waited for.
  std::string phase_that_nobody_saw(const Group& group) const;
  /// Where all others have ended, and the group has arrived nowhere since its last wait for the same barrier: that
  /// there is nothing that anybody could answer; empty: it is not so.
  std::string nothing_given_since(const Group& group) const;
  /// A barrier that has completed a phase, and for which nobody has ever waited.
  struct Unseen {
    std::string name;
    const machine::Mbarrier* barrier = nullptr;
    const BarrierHistory* history = nullptr;
    uint32_t offset = 0;
  };
  /// Those of the block whose barrier a fragment waits for.
  std::vector<Unseen> never_waited_for(const machine::Fragment& waiter) const;
  /// A barrier of the same array that has completed a phase, and that nobody has waited for; empty: there is none.
  /// @param by_copies  whether only a phase in which copies brought bytes counts
  std::string sibling_that_nobody_saw(const Group& group, bool by_copies) const;
  /// The cause that such a barrier suggests; empty: there is none.
  Cause cause_in_another_slot(const Group& group, bool by_copies) const;
  /// "full[0] has completed phase 0": a barrier of the group's block that nobody waits for, nor ever has; empty: none.
  std::string phase_that_nobody_waits_for(const Group& group) const;
  Cause cause_without_arrival(const Group& group, const std::string& name) const;
  // What the other barriers of an array say (siblings.cpp):
  /// A barrier of the same array and count as another.
  struct Sibling {
    uint32_t offset = 0;
    std::string name;
    const machine::Mbarrier* barrier = nullptr;
    const BarrierHistory* history = nullptr;
  };
  /// Those of the barrier at an offset in the block whose barrier the group waits for, the nearest first.
  std::vector<Sibling> siblings_of(const Group& group, uint32_t offset) const;
  /// Who else waits, or has waited, for such a sibling: the side that the barrier is for; empty: nobody.
  std::string user_of_siblings(const Group& group, uint32_t offset) const;
  /// " full[0] has completed phase 0, and nobody has ever waited for that: ...", with who was to; empty: there is none.
  std::string unseen_and_by_whom(const Group& group) const;
  /// A warp that has ended and was to arrive at the group's barrier, as siblings show; empty: none.
  std::string filler_that_has_ended(const Group& group) const;
  /// The cause where no barrier of the array has ever been arrived at, though another side has passed one at once and
  /// ended.
  std::string array_without_arrivals(const Group& group) const;
  /// The cause where a sibling was filled and nobody has waited for that.
  std::string sibling_seen_by_nobody(const Group& group) const;
  Cause cause_of(const Group& group) const;
  // At a barrier of the block (named_barrier_cause.cpp):
  /// How many threads have not come to the barrier of the block where one waits.
  static uint32_t threads_missing_at(const machine::Fragment& waiter);
  /// Where the threads that a named barrier misses wait at one of another number; empty: they do not.
  std::string threads_at_another_number(const Group& group) const;
  /// Where a named barrier counts more threads than are left, who has exited; else empty.
  static std::string warps_that_have_exited(const Group& group);
  // Where lanes of one warp wait for each other (lanes_apart.cpp):
  /// Two fragments of one warp, of which the first came to an instruction that the other went past.
  struct Apart {
    const machine::Fragment* alone = nullptr;
    const machine::Fragment* other = nullptr;
  };
  /// What keeps a fragment and other lanes of its warp apart; null: nothing, or it is not sure which is the first.
  Apart find_apart(const machine::Fragment& fragment) const;
  Cause cause_at_warp_operation(const Group& group) const;
  /// For a barrier of the block to which some lanes of a warp have come, and others wait at a warp's operation.
  Cause cause_at_barrier_of_lanes(const Group& group) const;
  /// Where two fragments came to one line by different calls; empty: they did not, or nothing is known of them.
  static std::string calls_that_differ(const machine::Fragment& one, const machine::Fragment& other);
  // Who waits at the wrong barrier, or does not arrive at the right one (wrong_side.cpp):
  /// Where others began with a wait for the group's barrier that passed at once, as those do who are to fill a slot,
  /// and it waits there now while another barrier has never been waited for; empty: it is not so.
  std::string wait_of_the_other_side(const Group& group) const;
  /// " done[0] has completed phase 1, by ..., and nobody has waited for that": empty: there is none.
  std::string latest_phase_unseen(const Group& group) const;
  /// Where an arrival went to the barrier that its own side waits for, and which the group signals: with its line;
  /// empty: there is none.
  std::string arrival_where_its_side_waits(const Group& group) const;
  /// A warp that waits where those who arrived in this phase wait, and has never arrived as they did; empty: none.
  std::string companion_that_never_arrived(const Group& group, const machine::Mbarrier& barrier) const;
  // Where something has happened at an mbarrier (mbarrier_cause.cpp):
  Cause cause_at_mbarrier(const Group& group, const machine::Mbarrier& barrier) const;
  Cause cause_of_missing_bytes(const Group& group, const machine::Mbarrier& barrier) const;
  /// " at ring.cu:41": where bytes were announced in a phase; empty: nowhere.
  std::string announced_at(const BarrierHistory& history, uint64_t phase) const;
  std::string cause_of_surplus_bytes(const Group& group, const machine::Mbarrier& barrier) const;
  // Where some of a phase's arrivals have come (partial_phase.cpp):
  Cause cause_of_missing_arrivals(const Group& group, const machine::Mbarrier& barrier) const;
  /// Where just those lanes are missing that belong to warps of which others arrived, each for itself; else empty.
  std::string lanes_left_out(const machine::Fragment& waiter, const machine::Mbarrier& barrier) const;
  /// Where an arrival is missing of a side that waits for the group in turn, and has gone ahead of it; else empty.
  std::string sides_that_wait_for_each_other(const Group& group, const machine::Mbarrier& barrier) const;
  /// "warp 0 is ahead: phase 1 of permits[2], ended by ...": one that nobody has waited for; empty: there is none.
  std::string phase_ahead_of_all(const Group& group) const;
  /// Where arrivals that a phase misses have come to the barrier of another block, for which nobody waits; else empty.
  std::string arrivals_at_another_block(const Group& group) const;
  /// Where all who arrived are of the barrier's own block, and those of another arrived at its own; empty: it is not
  /// so.
  std::string arrivals_in_own_block(const machine::Fragment& waiter, const machine::Mbarrier& barrier) const;
  /// Lanes that arrived in the phase before and have exited, so that this one does not end; empty: there are none.
  std::string lanes_missing(const machine::Fragment& waiter, const machine::Mbarrier& barrier) const;
  // Where phases have ended (mbarrier_cause.cpp):
  /// Where the threads that ended a phase are others than those that ended the next: the barrier counts too few.
  std::string phase_of_half_the_arrivals(const machine::Fragment& waiter, const machine::Mbarrier& barrier,
                                         uint64_t phase) const;
  /// Where the group waits for a barrier at which nobody but itself has arrived, and others wait; empty: it is not so.
  std::string arrivals_of_itself(const Group& group) const;
  Cause cause_after_phases(const Group& group, const machine::Mbarrier& barrier) const;
  /// Where the multicast of a copy leaves the block out whose barrier lacks bytes; empty: nowhere.
  /// @param missing  bytes that it lacks
  std::string copy_for_other_blocks(const machine::Fragment& waiter, uint64_t phase, uint64_t missing) const;
  /// Where a copy brought bytes to the group's barrier and to that of another block, in which nobody has come to
  /// announce them; empty: nowhere.
  std::string block_without_announcement(const machine::Fragment& waiter, uint64_t phase) const;
  /// Phases of the barrier that ended before the waiter saw the one that it waits for, and by what; empty: none.
  std::string phases_missed(const machine::Fragment& waiter, const machine::Mbarrier& barrier) const;

  const machine::Cluster& cluster_;
  const BarrierHistories& histories_;
  std::vector<Group> groups_;
};

}  // namespace stagecraft::emulator::checks
