// The order that a cluster's threads and asynchronous operations have made among themselves, as vector clocks.
//
// Rules (those of the PTX ISA's memory consistency model, in plain words):
//   - An instruction of a thread is after all that the thread did before. Lanes of a warp are threads: running in
//     lockstep orders nothing; __syncwarp does.
//   - What a thread did before it arrives at a barrier is before what follows the wait that sees that phase ended.
//     Arrivals of earlier phases count as well, because arrivals are read-modify-writes of one object.
//   - An asynchronous operation is after what its issuing thread did before. Its end is before what follows the wait
//     that its end lets pass: the mbarrier's, the thread's own wait_group, or for tensor operations that of the barrier
//     they are committed to. It is not before anything else, and not before what its own thread does next.
//   - Its end carries what its issuer had learnt from others when it issued the operation, but not what the issuer did
//     itself: the complete_tx of a copy releases only the copy (PTX ISA, "Memory consistency model for asynchronous
//     operations").
//   - What a thread did before it exited is before what follows a barrier of all threads that completes later, because
//     the barrier waits for each thread to arrive or to have exited.
//   - A load whose result is an operand of shfl.sync, vote, match or redux is before what the other lanes do after
//     that instruction: it takes effect when every lane of its mask has come with its operands (PTX ISA, "shfl.sync":
//     "wait until all non-exited threads corresponding to membermask have executed shfl.sync"), and a lane has them
//     when its load has returned. This concerns the load alone: such an instruction makes no write visible.
//   - Fences, with strong accesses of one location after and before them, order as C++'s fences do. A thread's own
//     mbarrier.complete_tx is such an access.
//   - Relaxed arrivals and waits order no memory, but they order execution, and with the fences of tcgen05 around them
//     that is enough for tensor memory (PTX ISA, "Specialized inter-thread synchronization for tcgen05 instructions").
//     What a thread knows only through those is kept apart.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/checks/history/phase_history.hpp"
#include "emulator/checks/ordering/past_access.hpp"
#include "emulator/checks/ordering/thread_knowledge.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/state/mbarrier_table.hpp"

namespace stagecraft::emulator::checks {

/// An arrival of the tensor core, by a tcgen05.commit.
struct CommitNote {
  Time phase = 0;          ///< phase of the barrier that it counted for
  uint32_t operation = 0;  ///< index
};

/// What has been released into an mbarrier.
struct BarrierOrder {
  uint32_t rank = 0, offset = 0;  ///< the block that holds it, and where
  uint32_t component = 0;         ///< counts its ended phases
  Time ends = 0;
  Gathering open, open_executed;
  SharedClock completed;  ///< released in all ended phases; null before the first
  Learners learners;      ///< of what is completed
  SharedClock executed;   ///< released beyond that, by relaxed arrivals; null: nothing
  PastAccess initialised;
  uint64_t initialised_after = 0;    ///< the phase of the cluster's barrier that its initialiser had arrived at by then
  bool is_for_copies = false;        ///< some copy completes on it
  bool has_remote_arrivals = false;  ///< a thread of another block has arrived
  std::deque<CommitNote> commits;    ///< the latest few that have arrived
  /// Operations that complete here or arrive here, and have not yet. One that arrives at several barriers is noted at
  /// the first.
  std::vector<uint32_t> under_way;
  /// The last arrival by a thread, and how many phases had ended before it.
  uint32_t arrival_warp = 0, arrival_pc = 0;
  machine::Cycle arrival_clock = 0;
  Time arrival_ends = 0;
  PhaseHistory phases;
};

/// An asynchronous operation that has been issued.
struct Operation {
  uint32_t component = 0;
  Time time = 0;      ///< time of its end in `component`; 0: not known yet
  SharedClock known;  ///< what its issuer knew
  uint32_t warp = 0, lane = 0, pc = 0;
  Time issued = 0;  ///< time of its warp
  const char* what = "";
  machine::AsyncCompletion completion = machine::AsyncCompletion::mbarrier;
  uint32_t barrier = 0;  ///< index of the mbarrier it completes on
  Time phase = 0;        ///< phase of that mbarrier when it was issued
  bool generic_proxy = false;
  machine::SharedLayout layout = machine::SharedLayout::unknown;  ///< layout of what it writes
  static constexpr uint32_t kNowhere = 0xffffffffu;
  std::array<uint32_t, 2> operands{kNowhere, kNowhere};  ///< of a product: where A and B begin, as offsets
  uint32_t begin = 0, bytes = 0;                         ///< of a copy into shared memory: its offset, and its size
  AwaitedPhase awaited;                                  ///< by its warp, when it was issued
};

/// What a thread has last done about its groups of bulk copies.
struct GroupNotes {
  struct Commit {
    Time issued = 0;  ///< copies before it
    uint32_t pc = 0;
  };
  std::deque<Commit> commits;  ///< the latest few
  Time first_group = 0;        ///< copies before the first of all
  uint32_t wait_pc = 0, keep = 0;
  Time issued = 0, ended = 0;  ///< copies before the last wait; those that it showed to have ended
};

/// An access of memory, with what the record adds to it.
struct RecordedAccess {
  const machine::MemoryAccess& event;
  /// The warp that accessed data in shared memory, and its number. Null for an access of other memory, and for those of
  /// cooperative groups to their scratch memory.
  const WarpOrder* warp = nullptr;
  uint32_t warp_number = 0;
  Time time = 0;  ///< of its warp, for an access of global memory
};

/// An event of an operation, with what the record adds to it.
struct IssuedOperation {
  const machine::AsyncOperation& event;
  uint32_t index;  ///< ClusterOrder::operation
  /// For a wgmma: what its four warps had done and knew when they issued their parts. PTX does not say that it is
  /// enough if one of them knows, but measured on an H200, a warp that comes 200,000 cycles late makes the others'
  /// parts wait, and what it wrote before is read by all of them.
  std::optional<VectorClock> together;
};

class ClusterOrder {
 public:
  static constexpr uint32_t kNoBarrier = 0xffffffffu;

  ClusterOrder(uint32_t blocks, uint32_t warps_per_block, uint32_t threads_per_block)
      : warps_per_block_(warps_per_block), threads_(blocks, warps_per_block, threads_per_block) {}

  // What is known. Warps, barriers and operations have numbers of their own in the cluster.
  uint32_t warp_number(const machine::Fragment& fragment) const {
    return fragment.block().rank * warps_per_block_ + fragment.warp->index;
  }
  uint32_t warps_per_block() const { return warps_per_block_; }
  uint32_t warp_count() const { return threads_.count(); }
  const WarpOrder& warp(uint32_t number) const { return threads_.warp(number); }
  const SharedClock& known(uint32_t warp, uint32_t lane) const { return threads_.warp(warp).known(lane); }
  /// What a lane knows to have been executed (ThreadKnowledge).
  const SharedClock& known_executed(uint32_t warp, uint32_t lane) const { return threads_.known_executed(warp, lane); }
  /// What a lane knows, with its own copies that it has waited for.
  SharedClock knowledge_of(uint32_t warp, uint32_t lane) const { return threads_.knowledge_of(warp, lane); }
  const BarrierOrder& barrier(uint32_t index) const { return barriers_[index]; }
  uint32_t barrier_count() const { return static_cast<uint32_t>(barriers_.size()); }
  /// The index of a barrier, by the block's rank and its offset there; kNoBarrier when it has not been used yet.
  uint32_t find_barrier(uint32_t rank, uint32_t offset) const;
  const Operation& operation(uint32_t index) const { return operations_[index]; }
  /// One whose end is still to come, by the number of its AsyncOperation; null for none.
  const Operation* pending_operation(uint64_t number) const {
    const auto found = pending_operations_.find(number);
    return found == pending_operations_.end() ? nullptr : &operations_[found->second];
  }
  /// What all threads learn that wait at a block's barrier that has completed.
  const SharedClock& learnt_at_barrier(uint32_t rank, uint32_t number) const {
    return meetings_.at({rank, number}).completed;
  }
  /// The commit that let a wait pass which saw the barrier's phase number `phase` end; null for none.
  const Operation* commit_of(uint32_t barrier, Time phase) const;
  /// Whether a warp has passed a barrier of the cluster, whatever it orders, that the initialiser came to afterwards.
  bool has_met_initialiser(uint32_t warp, const BarrierOrder& barrier) const {
    return threads_.warp(warp).cluster_passed > barrier.initialised_after;
  }
  /// What a thread has done about its groups of bulk copies; null: nothing.
  const GroupNotes* groups_of(uint32_t warp, uint32_t lane) const {
    const auto found = bulk_groups_.find(ThreadKnowledge::component_of(warp, lane));
    return found == bulk_groups_.end() ? nullptr : &found->second;
  }
  /// For each thread of a block, the first bulk copy out of shared memory that the thread has not waited for, if any.
  std::vector<const Operation*> bulk_copies_not_waited_for(uint32_t rank) const;

  /// Whether a thread that knows `known` knows that the operation was issued.
  static bool knows_issue(const Operation& operation, const PastAccess& thread, const VectorClock& known) {
    const bool own = operation.warp == thread.agent && (thread.lanes & ~(1u << operation.lane)) == 0;
    return own || known.at(ThreadKnowledge::component_of(operation.warp, operation.lane)) >= operation.issued;
  }
  /// Whether `known` says that a past access is over, whichever lanes of its warp made it.
  bool knows_of_all(const PastAccess& past, const VectorClock& known) const {
    if (!past.is_asynchronous()) return known.of_warp(past.agent) >= past.time;
    const Operation& operation = operations_[past.operation()];
    return operation.time != 0 && known.at(operation.component) >= operation.time;
  }
  /// Whether `known` says that some operation has ended that the block of this rank has issued.
  bool knows_an_operation_of(uint32_t rank, const VectorClock& known) const;
  /// Whether the lanes of `warp`, which know `known`, know that a past access is over.
  bool knows(const PastAccess& past, uint32_t warp, machine::LaneMask lanes, const VectorClock& known) const;

  /// Whether a load of some lanes was over before other lanes of its warp did something later, because these lanes had
  /// exchanged, in between, registers that were computed from it.
  /// @param load  the lanes are a mask
  /// @param time  of the warp, when `lanes` did what they do
  bool is_exchanged_before(const PastAccess& load, Time time, machine::LaneMask lanes,
                           const machine::Kernel& kernel) const;

  // Events. Each is fed once (ordering_record.hpp).
  RecordedAccess memory_accessed(const machine::MemoryAccess& access) {
    if (access.shared == nullptr) return global_accessed(access);
    if (access.order != machine::AccessOrder::weak) strong_access(access);
    if (is_toolkit_memory(access)) return {access};
    const uint32_t number = warp_number(*access.fragment);
    WarpOrder& warp = threads_.warp(number);
    warp.accessed = true;
    return {access, &warp, number};
  }
  void warp_synchronised(const machine::Fragment& fragment, machine::LaneMask lanes);
  void lanes_exchanged(const machine::Fragment& fragment, machine::LaneMask lanes);
  void fence_executed(const machine::Fragment& fragment, machine::LaneMask lanes, machine::FenceKind kind);
  void threads_met(const machine::Rendezvous& event);
  void barrier_changed(const machine::BarrierEvent& event);
  IssuedOperation operation_issued(const machine::AsyncOperation& event);
  void group_changed(const machine::GroupEvent& event);
  /// Others learn of it by its time.
  void tensor_map_changed(const machine::TensorMapEvent& event) { threads_.mark(warp_number(*event.fragment)); }
  void tensor_memory_changed(const machine::TensorEvent& event);
  void warpgroup_issued(const machine::WarpgroupIssue& event);
  void warpgroup_waited(const machine::WarpgroupWait& event);

 private:
  using ThreadKey = uint32_t;  ///< component of the thread

  /// Copies or tensor operations of one thread, numbered as they are issued.
  struct Sequence {
    uint32_t component = 0;
    Time issued = 0;
    std::deque<Time> groups;  ///< `issued` at each commit; groups that are known to have ended are dropped
  };
  /// One of a block's 16 barriers, or the barrier of the cluster.
  struct Meeting {
    Gathering open, open_executed;
    SharedClock completed, executed;
    uint64_t phases = 0;  ///< completed
  };

  /// Whether an access is one of cooperative groups to their scratch memory. That is the toolkit's own affair, and no
  /// program can fix it: they order it among the warps of a tile, but lanes of one warp read there after no more than a
  /// shuffle.
  static bool is_toolkit_memory(const machine::MemoryAccess& access) {
    const uint32_t first = access.shared[machine::first_lane(access.lanes)];
    return (first & machine::kSharedOffsetMask) < machine::kSharedReservedBytes;
  }
  /// The first thread of a fragment's warpgroup.
  ThreadKey warpgroup_of(const machine::Fragment& fragment) const {
    return ThreadKnowledge::component_of(warp_number(fragment) - fragment.warp->index % 4, 0);
  }
  /// As find_barrier; creates a barrier that is new.
  uint32_t barrier_index(uint32_t rank, uint32_t offset);
  Sequence& sequence(std::map<ThreadKey, Sequence>& all, ThreadKey thread);
  RecordedAccess global_accessed(const machine::MemoryAccess& access);
  void strong_access(const machine::MemoryAccess& access);
  void initialise(uint32_t index, const machine::BarrierEvent& event);
  void arrive(uint32_t index, const machine::BarrierEvent& event);
  void arrive(BarrierOrder& barrier, uint64_t operation);
  void complete_copy(BarrierOrder& barrier, uint64_t operation);
  void complete_bytes(BarrierOrder& barrier, const machine::BarrierEvent& event);
  void wait(uint32_t index, const machine::BarrierEvent& event);
  void note_wait(uint32_t warp, uint32_t index, const machine::BarrierEvent& event);
  void complete(Meeting& meeting, const machine::Rendezvous& event);
  BarrierOrder& expect_at_barrier(const machine::AsyncOperation& event, uint32_t index);
  void set_end(Operation& operation, const machine::AsyncOperation& event, ThreadKey thread, uint32_t index);

  uint32_t warps_per_block_;
  ThreadKnowledge threads_;
  uint32_t components_ = VectorClock::kFirstOther;  ///< the next component that is not a thread
  std::vector<BarrierOrder> barriers_;
  std::unordered_map<uint64_t, uint32_t> barrier_indices_;  ///< by rank and offset
  mutable std::array<uint32_t, 64> latest_barriers_{};      ///< those found last, by parts of rank and offset
  std::vector<Operation> operations_;
  std::unordered_map<uint64_t, uint32_t> pending_operations_;  ///< by number: those whose end is still to come
  std::map<ThreadKey, Sequence> tensor_, bulk_, copies_;
  std::map<ThreadKey, GroupNotes> bulk_groups_;
  std::map<ThreadKey, Sequence> warpgroups_;  ///< wgmma of four warps, by the first thread
  /// What the warps knew that have issued their part of a wgmma; a wgmma that all four have issued is dropped.
  std::map<ThreadKey, std::deque<Gathering>> warpgroup_issues_;
  std::map<std::pair<uint32_t, uint32_t>, Meeting> meetings_;  ///< by rank and number of the barrier; the cluster's: ~0
  std::map<uint32_t, Gathering> exits_;                        ///< by rank: what the threads that have exited did
  /// What strong writes have released to a place in memory.
  struct Location {
    SharedClock released;  ///< null: nothing
    SharedClock executed;  ///< beyond that, what tcgen05.fence::before_thread_sync handed over; null: nothing
  };
  std::unordered_map<uint64_t, Location> locations_;  ///< by address
};

}  // namespace stagecraft::emulator::checks
