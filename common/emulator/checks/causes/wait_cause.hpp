// Why a thread did something too early, although it waits at mbarriers: what its waits were for, and what ended them.
//
// It serves all accesses alike: of shared and of tensor memory, by threads, by copies and by the tensor core. When
// nothing stands out it says nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "emulator/checks/ordering/ordering_record.hpp"
#include "emulator/checks/reporting/finding_log.hpp"

namespace stagecraft::emulator::checks {

/// One of two accesses that nothing orders.
struct ConflictSide {
  uint32_t warp = 0;  ///< of the thread, or of the one that issued the operation: its number in the cluster
  machine::LaneMask lanes = 0;
  Time time = 0;                         ///< of the warp
  const Operation* operation = nullptr;  ///< null: the threads themselves
  const char* what = "";                 ///< "read", "tcgen05.mma"
};

class WaitCause {
 public:
  /// @param findings  where a stale wait that is the reason is reported as well
  WaitCause(FindingLog& findings, const ClusterRecord& cluster)
      : findings_(findings), cluster_(cluster), order_(cluster.order()) {}

  /// Why a wait of the second's thread did not hold it until the first access was over, which is an operation: a
  /// parity, other lanes, relaxed semantics.
  std::string before_end_of(const ConflictSide& first, const ConflictSide& second);
  /// The stale wait that let an operation be issued too early, which is reported as well; empty: there is none.
  std::string issued_too_early(const ConflictSide& operation);
  /// What ended the phase that the second's thread waited for, where that was too early for the first access, an
  /// operation; or which thread's commit it waited for instead.
  std::string in_phases(const ConflictSide& first, const ConflictSide& second) const;
  /// "; that is full[0], through the tcgen05.commit at gemm.cu:40, and the last wait was for full[1]": what the
  /// second's thread should have waited for. Empty when it is not known, or when it has waited there.
  std::string barrier_not_waited_for(const ConflictSide& first, const ConflictSide& second) const;
  /// Where no thread has seen the phase end that shows the end of an operation: which, and who waited for another
  /// barrier of the same array. Empty where some thread has.
  std::string phase_that_nobody_saw(const ConflictSide& first) const;
  /// Where the last wait of the second's thread was ended by threads of which none had waited, then, for the barrier
  /// that shows the end of the first, an operation; empty where one of them may have known.
  std::string let_pass_by_unaware(const ConflictSide& first, const ConflictSide& second) const;
  /// Why the second of two accesses, an operation, was issued before its thread knew that the first, by threads, was
  /// over; or why these were too early.
  std::string before_end_of_threads(const ConflictSide& first, const ConflictSide& second);
  /// Whose arrivals let the last wait of the second's thread pass, where none of them can have known that the first, a
  /// copy, was over, or where that wait or one of them is relaxed; empty where that wait passed at once, or nothing is
  /// known of it.
  std::string let_pass_by_others(const ConflictSide& first, const ConflictSide& second) const;
  /// Where the second's thread has waited for an arrival that the first's warp made after its access, and one of the
  /// two is relaxed; empty: it is not so.
  std::string by_relaxed(const ConflictSide& first, const ConflictSide& second) const;
  /// Where the warp `first` has arrived at the cluster's barrier after its access, at that time, and `second` has
  /// passed it since, but the arrival was relaxed; empty: it is not so.
  std::string relaxed_of_cluster(uint32_t first, Time time, uint32_t second, const char* what) const;
  /// Where the last wait of the second's thread was ended by one warp, which does there what the first does, and not
  /// by the first's; empty: it is not so.
  /// @param does_alike  whether a warp, by its number in the cluster, accesses memory as the first does
  std::string let_pass_without(const ConflictSide& first, const ConflictSide& second,
                               const std::function<bool(uint32_t)>& does_alike) const;
  /// "the wait at ring.cu:41 for empty[0] was ended by the arrival at ring.cu:60": a side's last one; empty: it
  /// waited for a copy, or passed at once, or nothing is known of it.
  std::string last_wait_let_pass(const ConflictSide& side) const;
  /// Where the phase that a side's thread waited for last was ended by its own warp alone; empty: it was not.
  std::string let_pass_by_own_warp(const ConflictSide& side) const;
  /// " at ring.cu:41 for empty[0]": the wait of a side's threads that follows its access; empty: none is known.
  std::string wait_after(const ConflictSide& side) const;
  /// Where other lanes of the side's warp still wait at a barrier, or have waited at one that the other warp arrives
  /// on, and its own lanes know nothing about that; empty: it is not so.
  std::string in_waits_without_lane(const ConflictSide& side, uint32_t other) const;
  /// Why a thread touches bytes before the copy that brings them has ended; empty, too, where it has waited itself.
  std::string without_own_wait(const ConflictSide& thread, uint32_t barrier) const {
    return in_waits_of_other_lanes(thread, barrier);
  }
  /// A stale wait of a warp that let it come too early, which is reported as well; empty: there is none.
  /// @param other  the warp that the barrier is to hear from
  std::string stale(uint32_t warp, uint32_t other);

  /// The last wait of the side's threads before its access, and for which barrier; null: there is none.
  std::pair<uint32_t, const WaitNote*> last_wait_of(const ConflictSide& side) const;
  /// The same, among the waits for barriers on which copies complete.
  std::pair<uint32_t, const WaitNote*> last_wait_for_copies(const ConflictSide& side) const;
  /// That the last wait before the access was for the phase before the first, and passed; empty: it was not.
  std::string passed_before_first(const ConflictSide& side) const;
  /// The same where the wait came between two accesses of one warp, for a barrier that belongs to no ring.
  std::string passed_between(const ConflictSide& first, const ConflictSide& second) const;

 private:
  /// The same, among the waits for barriers of the array of this one.
  std::pair<uint32_t, const WaitNote*> last_wait_for_array_of(const ConflictSide& side, uint32_t barrier) const;
  /// The same, among the waits for barriers, by index, that count.
  std::pair<uint32_t, const WaitNote*> last_wait(const ConflictSide& side,
                                                 const std::function<bool(uint32_t)>& counts) const;
  /// What tells threads that an access is over: an arrival, or bytes.
  struct Signal {
    uint32_t barrier = 0;  ///< index
    Time phase = 0;        ///< the phase of it that the signal counts for
    uint32_t pc = 0;
    bool of_copy = false;
    bool relaxed = false;
    machine::LaneMask lanes = 0;  ///< of an arrival by threads
  };
  /// Where a wait was ended by these warps, none of which waits for what tells that the first is over, and one that
  /// does, with as many lanes, has not arrived there; empty: it is not so.
  /// @param index  of the barrier
  std::string not_counted(const ConflictSide& first, const std::vector<Signal>& signals, uint32_t index,
                          const WaitNote& last, const std::vector<uint32_t>& warps) const;
  /// Whether a thread of a warp has arrived at a barrier lately.
  bool has_arrived(uint32_t warp, uint32_t barrier) const;
  /// The same, or whether one of its commits has.
  bool has_signalled(uint32_t warp, uint32_t barrier) const;
  std::vector<Signal> signals_of(const ConflictSide& side) const;
  const Signal& signal_for(const std::vector<Signal>& signals, const std::vector<uint32_t>& warps) const;
  std::string in_wait(const ConflictSide& first, const ConflictSide& second, const Signal& signal,
                      const WaitNote& wait);
  std::string in_commits_of_others(const ConflictSide& first) const;
  /// Where other lanes of the side's warp wait for a barrier, and its own do not.
  std::string in_waits_of_other_lanes(const ConflictSide& side, uint32_t barrier) const;
  const WaitNote* wait_of(const ConflictSide& side, uint32_t barrier) const;
  /// "; or is it a round ahead, ...": another wait of the side's threads, before this one, that passed at once.
  std::string passed_before(const ConflictSide& side, const WaitNote& wait) const;
  /// The same as the cause, where other warps wait for the first phase by the very instruction of this wait.
  std::string ahead_of_others(const ConflictSide& side, const WaitNote& wait, const std::string& barrier) const;
  /// The same where the side's last wait before, which did not pass at once, was ended by these others.
  /// @param others  block and warp of each
  std::string ahead_by_arrival_of(const std::vector<std::pair<const machine::Block*, uint32_t>>& others,
                                  const ConflictSide& side, const WaitNote& wait, const std::string& barrier) const;
  std::pair<uint32_t, const WaitNote*> wait_passed_before(const ConflictSide& side, const WaitNote& wait) const;
  std::string spell_signal(const Signal& signal) const;
  std::string spell_relaxed(uint32_t barrier, uint32_t arrival_pc, const WaitNote& wait) const;
  std::string name(uint32_t barrier) const;
  std::string line(uint32_t pc) const;

  FindingLog& findings_;
  const ClusterRecord& cluster_;
  const ClusterOrder& order_;
};

}  // namespace stagecraft::emulator::checks
