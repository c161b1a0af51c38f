// The part that bulk copies of one dimension and tensor copies share: where they go, when they end, and which barriers
// and warps their end concerns.
//
// A copy is checked when it is issued, and does its work in events. A copy into shared memory reads and writes when it
// completes, and then signals its barriers (`complete_delivery`). A copy out of shared memory reads its source half
// way, which ends a `wait_group.read`, and writes at its end (`schedule_store`).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emulator/engines/lane_operand.hpp"
#include "emulator/state/announcements.hpp"
#include "emulator/state/bulk_copy_groups.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

/// One destination in shared memory, and the barrier that counts its bytes.
struct BulkTarget {
  uint32_t data = 0, barrier = 0;
  uint64_t operation = 0;  ///< its number for observers
};

/// The operands of an instruction that name destinations in the shared memory of a cluster.
struct TargetOperands {
  SharedOperand destination;
  SharedOperand barrier;
  LaneOperand multicast_mask;  ///< absent: no multicast
  uint32_t cta_group = 1;
  std::string destination_name, barrier_name;  ///< for reports

  /// @param what  the instruction: "cp.async.bulk".
  void name_for(std::string_view what) {
    destination_name = std::string(what) + ": destination";
    barrier_name = std::string(what) + ": mbarrier";
  }
};

/// Returns the destinations of a lane's copy of `bytes` bytes. Throws Fault when one is illegal.
std::vector<BulkTarget> targets_of(Fragment& fragment, uint32_t lane, const TargetOperands& operands, uint64_t bytes,
                                   uint32_t alignment, const char* what);

/// Returns the cycles from the issue of a copy to its end.
Cycle bulk_latency(const Grid& grid, uint64_t bytes);

/// The shared memory that a copy accesses, for the observers of memory.
struct SharedFootprint {
  /// Returns the pieces that are accessed from an address on. Called only when memory is observed.
  using Ranges = std::function<std::vector<SharedRange>(uint32_t address)>;
  Ranges ranges;
  static SharedFootprint whole(uint32_t bytes) {
    return {[bytes](uint32_t address) { return std::vector<SharedRange>{{address, bytes}}; }};
  }
};

/// What observers learn about a copy into shared memory, in addition to its targets.
struct DeliveryNotes {
  uint32_t lane = 0;
  SharedFootprint footprint{};           ///< of each target
  std::vector<SharedRange> source{};     ///< if it is in shared memory
  bool updates = false;                  ///< a reduction
  bool generic_proxy = false;            ///< writes as a thread's store does
  bool needs_fence_after_reads = false;  ///< AsyncOperation
  SharedLayout layout = SharedLayout::unknown;
  std::vector<GlobalRange> global{};  ///< AsyncOperation
  uint64_t tensor_map = 0;            ///< AsyncOperation
};

// The beginning and the end of schedule_delivery.
/// Removes the targets in blocks that have exited, if an observer takes them; otherwise throws Fault.
void drop_lost(Cluster& cluster, std::vector<BulkTarget>& targets, const char* what);
void announce_delivery(Fragment& fragment, std::vector<BulkTarget>& targets, uint64_t bytes, const char* what,
                       const DeliveryNotes& notes);
void complete_delivery(Cluster& cluster, const std::vector<BulkTarget>& targets, uint64_t bytes, const char* what);

/// Schedules the end of a copy into shared memory: `deliver(target)` for each target, then `bytes` bytes for each
/// target's barrier. It is a template because every tile of every kernel comes this way, and a std::function inside the
/// event's std::function would be one more allocation.
template <typename Deliver>
void schedule_delivery(Fragment& fragment, std::vector<BulkTarget> targets, uint64_t bytes, const char* what,
                       const DeliveryNotes& notes, Deliver deliver) {
  announce_delivery(fragment, targets, bytes, what, notes);
  Cluster& cluster = fragment.cluster();
  cluster.schedule(bulk_latency(fragment.grid(), bytes),
                   [&cluster, targets = std::move(targets), bytes, what, deliver = std::move(deliver)]() mutable {
                     drop_lost(cluster, targets, what);
                     for (const BulkTarget& target : targets) deliver(target);
                     complete_delivery(cluster, targets, bytes, what);
                   });
}

/// The global memory that a copy accesses; called only when memory is observed.
using GlobalFootprint = std::function<std::vector<GlobalRange>()>;

/// Schedules a copy out of shared memory as a member of its thread's open group: `read()`, then `write(data)`. Both
/// happen even if the block has exited by then. `source` is its address, `target` what it writes, or `updates`.
void schedule_store(Fragment& fragment, uint32_t lane, uint64_t bytes, const char* what, bool updates, uint32_t source,
                    const SharedFootprint& footprint, const GlobalFootprint& target,
                    std::function<std::vector<std::byte>()> read,
                    std::function<void(const std::vector<std::byte>&)> write, uint64_t tensor_map = 0);

/// Wakes the fragments that wait in a wait_group of this thread, which then check their groups again.
void wake_waiting(ThreadBulkGroups& groups);

/// Takes the operand of cp.async.bulk.wait_group or cp.async.wait_group.
uint32_t take_pending_groups(Translation& t);

/// Calls `issue(lane)` for the active lanes in order. A Fault that names no lanes gets that lane.
template <typename Issue>
void issue_lanes(LaneMask mask, Issue&& issue) {
  for_each_lane(mask, [&](uint32_t lane) {
    try {
      issue(lane);
    } catch (Fault& fault) {
      if (fault.lanes == 0) fault.lanes = 1u << lane;
      throw;
    }
  });
}

/// Takes the next state space of a copy; the destination comes first, then the source.
std::string_view take_space(Translation& t);
SharedScope scope_of(std::string_view space);
/// Takes `.L2::cache_hint`; with it the instruction has a cache policy as its last operand, which has no effect.
bool take_cache_hint(Translation& t);

/// Refuses a form that sm_100 introduced when the chip is older. `what` names it: ".cp_mask".
void require_sm_100(Translation& t, std::string_view what);
/// Refuses a form that data-centre Blackwell alone has. `instead` says what a program for an RTX 50 does.
void require_sm_100a(Translation& t, std::string_view what, std::string_view instead);

/// Checks a range of global memory against its allocations. Throws Fault.
void check_global(const Grid& grid, uint64_t address, uint64_t bytes, uint32_t alignment, bool write, const char* what);

// Translators of the forms of cp, called by bulk_operations.cpp, which has taken `cp.async.bulk` or
// `cp.reduce.async.bulk`.
void translate_bulk_copy(Translation& t);
void translate_bulk_reduction(Translation& t);
void translate_bulk_prefetch(Translation& t);
void translate_tensor_copy(Translation& t, bool reduction);
void translate_tensor_prefetch(Translation& t);
void translate_commit_group(Translation& t);
void translate_wait_group(Translation& t);
// Translators of the forms of cp.async that are not bulk (cp_async.cpp).
void translate_cp_async(Translation& t);
void translate_cp_async_commit_group(Translation& t);
void translate_cp_async_wait_group(Translation& t, bool all);

}  // namespace stagecraft::emulator::machine
