// The order that a cluster's threads and asynchronous operations have made among themselves, as vector clocks.
//
// Rules (numbers as in the PTX ISA's memory consistency model would have them, in plain words):
//   - An instruction of a thread is after all that the thread did before. Lanes of a warp are threads: that they run in
//     lockstep orders nothing; __syncwarp and the other .sync operations do.
//   - What a thread did before it arrives at a barrier is before what follows the wait that sees that phase ended.
//     Arrivals of earlier phases count as well, because arrivals are read-modify-writes of one object.
//   - An asynchronous operation is after what its issuing thread did before, and its end is before what follows the
//     wait that its end lets pass: the mbarrier's, the thread's own wait_group, or for tensor operations that of the
//     barrier they are committed to. It is not before anything else, and not before what its own thread does next.
//   - Its end carries what its issuer had learnt from others when it issued it, but not what the issuer itself did: the
//     complete_tx of a copy releases only the copy (PTX ISA, "Memory consistency model for asynchronous operations").
//   - What a thread did before it exited is before what follows a barrier of all threads that completes later, because
//   the
//     barrier waits for each thread to arrive or to have exited.
//   - Fences, with strong accesses of one location after and before them, order as C++'s fences do.
//   - Relaxed arrivals and waits order no memory, but they order execution, and with the fences of tcgen05 around them
//     that is enough for tensor memory (PTX ISA, "Specialized inter-thread synchronization for tcgen05 instructions").
//     What a thread knows by that beyond the rest is kept apart.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/checks/ordering/vector_clock.hpp"
#include "emulator/checks/race/shadow_memory.hpp"
#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::checks {

/// A clock under construction, to which threads add what they know.
struct Gathering {
  VectorClock clock;
  SharedClock last;  ///< joined last, because the next thread often knows the very same
  bool is_empty() const { return last == nullptr; }
  void join(const SharedClock& known) {
    if (known == last) return;
    clock.join(*known);
    last = known;
  }
};

/// An arrival of some lanes of a warp at an mbarrier.
struct ArrivalNote {
  uint32_t barrier = 0;  ///< index
  uint32_t pc = 0;
  Time time = 0;  ///< what the lanes did up to this time was published
  machine::LaneMask lanes = 0;
  uint64_t number = 0;  ///< among the arrivals of its warp, from 1 on
};

/// The last wait of a warp for a barrier that passed.
struct WaitNote {
  uint64_t phases =
      0;  ///< that the barrier had ended; 0: the wait passed because it was for the phase before the first
  uint32_t pc = 0;
  machine::LaneMask lanes = 0;
  uint64_t arrivals = 0;  ///< of the warp, anywhere, before
  Time time = 0;          ///< of the warp's: what it does from then on comes after the wait
  uint64_t meetings = 0;  ///< of the warp with others at barriers of the block or the cluster, before
  bool repeated = false;  ///< it saw the same phase as the wait before, though the warp arrived somewhere in between
  bool repeated_after_meeting = false;  ///< the same, but what came in between was a meeting
};

/// An arrival of the tensor core, by a tcgen05.commit.
struct CommitNote {
  Time phase = 0;          ///< of the barrier, that it counted for
  uint32_t operation = 0;  ///< index
};

/// A value of each lane. Most warps never set any, and one of a short-lived block must cost little.
template <typename Value>
class ByLane {
 public:
  bool is_set() const { return values_ != nullptr; }
  const Value& operator[](uint32_t lane) const {
    static const Value kUnset{};
    return is_set() ? (*values_)[lane] : kUnset;
  }
  /// That of one lane, to be changed.
  Value& at(uint32_t lane) {
    if (!is_set()) values_ = std::make_unique<std::array<Value, machine::kWarpSize>>();
    return (*values_)[lane];
  }

 private:
  std::unique_ptr<std::array<Value, machine::kWarpSize>> values_;
};

struct WarpOrder {
  Time time = 1;          ///< of what it does now
  bool accessed = false;  ///< something was done at this time; publishing it begins the next
  machine::LaneMask existing = machine::kAllLanes;
  ByLane<SharedClock> fenced;  ///< known at the last fence; null: none
  ByLane<Time> fenced_time;
  ByLane<SharedClock> pending;   ///< read by relaxed accesses, to be known after a fence
  ByLane<SharedClock> executed;  ///< what it knows by relaxed barriers too; null: as `known`
  /// The same at the last tcgen05.fence::before_thread_sync, and when that was; null: none.
  ByLane<SharedClock> handed_over;
  ByLane<Time> handed_over_time;
  bool has_copies = false;            ///< some lane has waited for a group of copies
  std::vector<ArrivalNote> arrivals;  ///< the youngest few
  uint64_t arrival_count = 0, meeting_count = 0;
  std::map<uint32_t, WaitNote> waits;                ///< by barrier
  uint64_t cluster_arrived = 0, cluster_passed = 0;  ///< the last phase of the cluster's barrier, from 1 on

  const SharedClock& known(uint32_t lane) const { return known_[alike_ ? 0 : lane]; }
  /// Whether these lanes know the same.
  bool know_alike(machine::LaneMask lanes) const { return alike_ || know_the_same(lanes); }
  /// From now on these lanes know what `clock` says.
  void learn(machine::LaneMask lanes, const SharedClock& clock);

 private:
  bool know_the_same(machine::LaneMask lanes) const;

  bool alike_ = false;  ///< all lanes know what the first of these clocks says
  std::array<SharedClock, machine::kWarpSize> known_;
};

struct BarrierOrder {
  uint32_t rank = 0, offset = 0;  ///< the block that holds it, and where
  uint32_t component = 0;         ///< counts its ended phases
  Time ends = 0;
  Gathering open, open_executed;
  SharedClock completed;  ///< of all ended phases; null before the first
  SharedClock executed;   ///< beyond that, by relaxed arrivals; null: nothing
  PastAccess initialised;
  uint64_t initialised_after = 0;  ///< the phase of the cluster's barrier that its initialiser had arrived at by then
  bool is_for_copies = false;      ///< some copy has been told to complete on it
  std::deque<CommitNote> commits;  ///< that have arrived; the youngest few
  /// The last arrival by a thread: when it was and how many phases had ended before.
  uint32_t arrival_warp = 0, arrival_pc = 0;
  machine::Cycle arrival_clock = 0;
  Time arrival_ends = 0;
};

struct Operation {
  uint32_t component = 0;
  Time time = 0;      ///< of its end in `component`; 0: not known yet
  SharedClock known;  ///< to its issuer
  uint32_t warp = 0, lane = 0, pc = 0;
  Time issued = 0;  ///< time of its warp
  const char* what = "";
  machine::AsyncCompletion completion = machine::AsyncCompletion::mbarrier;
  uint32_t barrier = 0;  ///< index of the mbarrier it completes on
  Time phase = 0;        ///< of that mbarrier when it was issued
  bool generic_proxy = false;
  machine::SharedLayout layout = machine::SharedLayout::unknown;  ///< of what it writes
};

/// Copies or tensor operations of one thread, numbered as they are issued.
struct Sequence {
  uint32_t component = 0;
  Time issued = 0;
  std::deque<Time> groups;  ///< `issued` at each commit; those that are known to have ended are dropped
};

class ClusterOrder {
 public:
  static constexpr uint32_t kNoBarrier = 0xffffffffu;

  ClusterOrder(uint32_t blocks, uint32_t warps_per_block, uint32_t threads_per_block);

  uint32_t warp_number(const machine::Fragment& fragment) const {
    return fragment.block().rank * warps_per_block_ + fragment.warp->index;
  }
  uint32_t warps_per_block() const { return warps_per_block_; }
  WarpOrder& warp(uint32_t number) { return warps_[number]; }
  const WarpOrder& warp(uint32_t number) const { return warps_[number]; }
  const SharedClock& known(uint32_t warp, uint32_t lane) const { return warps_[warp].known(lane); }
  /// What it knows to have been executed, which tcgen05 instructions behind a fence::after_thread_sync rely on.
  const SharedClock& known_executed(uint32_t warp, uint32_t lane) const {
    const SharedClock& executed = warps_[warp].executed[lane];
    return executed != nullptr ? executed : warps_[warp].known(lane);
  }
  const BarrierOrder& barrier(uint32_t index) const { return barriers_[index]; }
  uint32_t barrier_count() const { return static_cast<uint32_t>(barriers_.size()); }
  /// Index of a barrier by the block's rank and its offset there; made when it is new.
  uint32_t barrier_index(uint32_t rank, uint32_t offset);
  uint32_t find_barrier(uint32_t rank, uint32_t offset) const;
  const Operation& operation(uint32_t index) const { return operations_[index]; }
  /// What all learn who wait at a block's barrier that has completed.
  const SharedClock& learnt_at_barrier(uint32_t rank, uint32_t number) const {
    return meetings_.at({rank, number}).completed;
  }
  /// The commit that a wait which saw the barrier's phase number `phase` end was let pass by; null for none.
  const Operation* commit_of(uint32_t barrier, Time phase) const;

  /// Whether a thread that knows so much knows that the operation was issued.
  static bool knows_issue(const Operation& operation, const PastAccess& thread, const VectorClock& known) {
    const bool own = operation.warp == thread.agent && (thread.lanes & ~(1u << operation.lane)) == 0;
    return own || known.at(component_of(operation.warp, operation.lane)) >= operation.issued;
  }
  /// Whether who knows so much knows that a past access is over, whichever lanes of its warp it was by.
  bool knows_of_all(const PastAccess& past, const VectorClock& known) const {
    if (!past.is_asynchronous()) return known.of_warp(past.agent) >= past.time;
    const Operation& operation = operations_[past.operation()];
    return operation.time != 0 && known.at(operation.component) >= operation.time;
  }
  /// Whether the lanes of `warp`, which know so much, know that a past access is over.
  bool knows(const PastAccess& past, uint32_t warp, machine::LaneMask lanes, const VectorClock& known) const;

  // Edges.
  void warp_met(uint32_t warp, machine::LaneMask lanes);
  void fence(uint32_t warp, machine::LaneMask lanes);
  void rendezvous(const machine::Rendezvous& event);
  void barrier(const machine::BarrierEvent& event);
  void group(const machine::GroupEvent& event);
  void warpgroup_issued(const machine::WarpgroupIssue& event);
  void warpgroup_waited(const machine::WarpgroupWait& event);
  void strong_access(const machine::MemoryAccess& access);
  /// Separates what a warp did before, which has earlier times, from what it does next: who learns of that knows the
  /// time that this returns.
  Time mark(uint32_t warp);
  /// tcgen05.fence::before_thread_sync. Returns the time as `mark` does.
  Time hand_over(uint32_t warp, machine::LaneMask lanes);
  /// What a lane knows, with the copies that it has waited for.
  SharedClock knowledge_of(uint32_t warp, uint32_t lane);
  /// The first bulk copy out of shared memory of each thread of a block that the thread has not waited for.
  std::vector<const Operation*> bulk_copies_not_waited_for(uint32_t rank) const;
  /// Of the wgmma of which a fragment issues the last part: what its four warps had done and knew when they issued
  /// theirs. PTX does not say that it is enough if one of them knows, but measured on an H200, a warp that comes
  /// 200,000 cycles late makes the others' parts wait, and what it wrote before is read by all of them.
  VectorClock take_warpgroup_issue(const machine::Fragment& fragment);
  /// Whether a warp has passed a barrier of the cluster, whatever it orders, that the initialiser came to afterwards.
  bool has_met_initialiser(uint32_t warp, const BarrierOrder& barrier) const {
    return warps_[warp].cluster_passed > barrier.initialised_after;
  }
  /// Takes note of an operation; its index.
  uint32_t issue(const machine::AsyncOperation& operation);

 private:
  using ThreadKey = uint32_t;  ///< component of the thread
  static uint32_t component_of(uint32_t warp, uint32_t lane) { return warp * machine::kWarpSize + lane; }
  /// The first thread of a fragment's warpgroup.
  ThreadKey warpgroup_of(const machine::Fragment& fragment) const {
    return component_of(warp_number(fragment) - fragment.warp->index % 4, 0);
  }
  Time publish(WarpOrder& warp);
  void release(uint32_t warp, machine::LaneMask lanes, Gathering& target);
  /// What the lanes know of their own copies by having waited for them.
  void release_copies(uint32_t warp, machine::LaneMask lanes, Gathering& target);
  void release_fenced(uint32_t warp, machine::LaneMask lanes, Gathering& target);
  void acquire(uint32_t warp, machine::LaneMask lanes, const SharedClock& source);
  void acquire_at_fence(uint32_t warp, machine::LaneMask lanes, const SharedClock& source);
  void release_executed(uint32_t warp, machine::LaneMask lanes, bool relaxed, Gathering& target);
  void learn_executed(uint32_t warp, machine::LaneMask lanes, const SharedClock& source);
  Sequence& sequence(std::map<ThreadKey, Sequence>& all, ThreadKey thread);
  void note_wait(uint32_t warp, uint32_t index, const machine::BarrierEvent& event);

  uint32_t warps_per_block_;
  std::vector<WarpOrder> warps_;
  uint32_t components_ = VectorClock::kFirstOther;  ///< the next that is no thread
  std::vector<BarrierOrder> barriers_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> barrier_indices_;
  std::vector<Operation> operations_;
  std::unordered_map<uint64_t, uint32_t> pending_operations_;  ///< by number: those whose end is still to come
  std::map<ThreadKey, Sequence> tensor_, bulk_, copies_;
  std::map<ThreadKey, Sequence> warpgroups_;  ///< wgmma of four warps, by the first thread
  /// What the warps knew that have issued their part of one; those that all four have issued are dropped.
  std::map<ThreadKey, std::deque<Gathering>> warpgroup_issues_;
  Time waited(uint32_t component) const { return waited_.at(component); }
  /// Copies that their own thread has waited for, by component. Not in its clock, which it shares with other lanes.
  VectorClock waited_;
  struct Meeting {
    Gathering open, open_executed;
    SharedClock completed, executed;
    uint64_t phases = 0;  ///< completed
  };
  std::map<std::pair<uint32_t, uint32_t>, Meeting> meetings_;  ///< by rank and number of the barrier; the cluster's: ~0
  std::map<uint32_t, Gathering> exits_;                        ///< by rank: what the threads that have exited did
  std::unordered_map<uint64_t, SharedClock> locations_;        ///< released to by strong writes, by address
};

}  // namespace stagecraft::emulator::checks
