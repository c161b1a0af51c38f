// What the bulk copies of one dimension and those of tensors have in common: where they go, when they end, and whom
// their end concerns.
//
// A copy is checked when it is issued, and does its work in events: one that brings data to shared memory reads and
// writes when it completes and then signals its barriers; one that takes data out reads its source half way, which is
// when `wait_group.read` is content, and writes at its end.
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
#include "emulator/state/bulk_groups.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

/// One destination in shared memory and the barrier that learns of it.
struct BulkTarget {
  uint32_t data = 0, barrier = 0;
  uint64_t operation = 0;  ///< number it was announced with
};

/// The operands of an instruction that say where data goes in the shared memory of a cluster.
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

/// Checks and lists the destinations of a lane's copy of `bytes` bytes. Throws Fault.
std::vector<BulkTarget> targets_of(Fragment& fragment, uint32_t lane, const TargetOperands& operands, uint64_t bytes,
                                   uint32_t alignment, const char* what);

/// Cycles from the issue of a copy to its end.
Cycle bulk_latency(const Grid& grid, uint64_t bytes);

/// What a copy touches of shared memory, for the observers of memory.
struct SharedFootprint {
  /// Beside an address: the pieces that are accessed from there on. Called only when somebody observes.
  using Ranges = std::function<std::vector<SharedRange>(uint32_t address)>;
  Ranges ranges;
  static SharedFootprint whole(uint32_t bytes) {
    return {[bytes](uint32_t address) { return std::vector<SharedRange>{{address, bytes}}; }};
  }
};

/// How a copy into shared memory is announced beside what its targets say.
struct DeliveryNotes {
  uint32_t lane = 0;
  SharedFootprint footprint{};        ///< of each target
  std::vector<SharedRange> source{};  ///< where it lies in shared memory
  bool updates = false;               ///< a reduction
  bool generic_proxy = false;         ///< writes as a thread's store does
  SharedLayout layout = SharedLayout::unknown;
};

// The two ends of schedule_delivery.
void announce_delivery(Fragment& fragment, std::vector<BulkTarget>& targets, uint64_t bytes, const char* what,
                       const DeliveryNotes& notes);
void complete_delivery(Cluster& cluster, const std::vector<BulkTarget>& targets, uint64_t bytes, const char* what);

/// Schedules the end of a copy into shared memory: `deliver(target)` for each target, then `bytes` bytes for each
/// target's barrier. A template, because every tile of every kernel comes by it, and a function in a function would be
/// one more allocation.
template <typename Deliver>
void schedule_delivery(Fragment& fragment, std::vector<BulkTarget> targets, uint64_t bytes, const char* what,
                       const DeliveryNotes& notes, Deliver deliver) {
  announce_delivery(fragment, targets, bytes, what, notes);
  Cluster& cluster = fragment.cluster();
  cluster.schedule(bulk_latency(fragment.grid(), bytes),
                   [&cluster, targets = std::move(targets), bytes, what, deliver = std::move(deliver)] {
                     for (const BulkTarget& target : targets) deliver(target);
                     complete_delivery(cluster, targets, bytes, what);
                   });
}

/// Schedules a copy out of shared memory as a member of its thread's open group: `read()`, then `write(data)`. Both
/// happen also when the block has exited by then. `source` is its address.
void schedule_store(Fragment& fragment, uint32_t lane, uint64_t bytes, const char* what, uint32_t source,
                    const SharedFootprint& footprint, std::function<std::vector<std::byte>()> read,
                    std::function<void(const std::vector<std::byte>&)> write);

/// Wakes who waits in a wait_group of this thread, to look again.
void wake_waiting(ThreadGroups& groups);

/// The operand of both kinds of wait_group.
uint32_t take_pending_groups(Translation& t);

/// Calls `issue(lane)` for the active lanes in order; a Fault that names no lanes is that lane's.
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

/// The state spaces of a copy in the order of the text: destination, then source.
std::string_view take_space(Translation& t);
SharedScope scope_of(std::string_view space);
/// Takes `.L2::cache_hint`; with it the instruction has a cache policy as its last operand, which has no effect.
bool take_cache_hint(Translation& t);

/// Refuses a form that came with sm_100 on lesser chips. `what` names it: ".cp_mask".
void require_sm_100(Translation& t, std::string_view what);

/// Checks a range of global memory against its allocations. Throws Fault.
void check_global(const Grid& grid, uint64_t address, uint64_t bytes, uint32_t alignment, bool write, const char* what);

// The translators of the forms, after `cp.async.bulk`, `cp.reduce.async.bulk` have been taken; see bulk_operations.cpp.
void translate_bulk_copy(Translation& t);
void translate_bulk_reduction(Translation& t);
void translate_bulk_prefetch(Translation& t);
void translate_tensor_copy(Translation& t, bool reduction);
void translate_tensor_prefetch(Translation& t);
void translate_commit_group(Translation& t);
void translate_wait_group(Translation& t);
// And of cp.async that is not bulk.
void translate_small_copy(Translation& t);
void translate_small_commit_group(Translation& t);
void translate_small_wait_group(Translation& t, bool all);

}  // namespace stagecraft::emulator::machine
