#include "emulator/units/mbarrier.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "emulator/units/lane_operand.hpp"

namespace stagecraft::emulator::units {

using machine::BarrierEvent;
using machine::BarrierEventKind;
using machine::Block;
using machine::Cluster;
using machine::Fault;
using machine::FaultKind;
using machine::Fragment;

namespace {

std::string name_of_barrier(const Block& block, uint32_t offset) {
  return fmt::format("mbarrier at shared offset 0x{:x} of block ({},{},{})", offset, block.index.x, block.index.y,
                     block.index.z);
}

/// What a report on a barrier adds: the state of the barrier itself.
std::vector<std::string> details_of(const BarrierReference& reference, std::vector<std::string> advice) {
  std::vector<std::string> lines = describe(*reference.barrier, name_of_barrier(*reference.block, reference.offset));
  lines.insert(lines.end(), advice.begin(), advice.end());
  return lines;
}

void announce(const BarrierReference& reference, BarrierEventKind kind, uint64_t amount, const BarrierActor& actor) {
  const machine::Grid& grid = *reference.block->cluster->grid;
  if (grid.observers.empty()) return;
  const BarrierEvent event{
      kind,           reference.block, reference.offset, reference.barrier->phase, static_cast<uint32_t>(amount),
      actor.fragment, actor.lanes,     actor.relaxed,    actor.operation};
  for (machine::Observer* observer : grid.observers) observer->barrier(event);
}

void store_word(const BarrierReference& reference) {
  const uint64_t word = word_of(*reference.barrier);
  std::memcpy(reference.block->shared.data() + reference.offset, &word, sizeof word);
}

/// Ends the phase if nothing is pending any more; writes the barrier's word. The last act of every operation.
void settle(const BarrierReference& reference, const BarrierActor& actor) {
  Mbarrier& barrier = *reference.barrier;
  if (barrier.complete()) {
    announce(reference, BarrierEventKind::phase_complete, 0, actor);
    ++barrier.phase;
    barrier.pending = barrier.expected;
    barrier.announced = 0;
    const std::vector<Fragment*> sleepers = std::move(barrier.waiting);
    barrier.waiting.clear();
    for (Fragment* fragment : sleepers) {
      reference.block->mbarriers.forget(*fragment);  // from the lists of the other barriers that it slept on
      machine::wake(*fragment);
    }
  }
  store_word(reference);
}

void check_arrival_count(uint64_t count, const BarrierActor& actor) {
  if (count >= 1 && count <= kMbarrierLimit) return;
  throw Fault(FaultKind::launch_failure, fmt::format("{}: the arrival count {} is out of range", actor.what, count),
              {fmt::format("legal are 1 to {} (2^20 - 1)", kMbarrierLimit)}, actor.lanes);
}

void change_transaction(const BarrierReference& reference, int64_t change, const BarrierActor& actor) {
  Mbarrier& barrier = *reference.barrier;
  const int64_t value = barrier.transaction + change;
  if (value > int64_t{kMbarrierLimit} || value < -int64_t{kMbarrierLimit}) {
    throw Fault(FaultKind::launch_failure,
                fmt::format("{}: the transaction count of the {} would become {}", actor.what,
                            name_of_barrier(*reference.block, reference.offset), value),
                details_of(reference, {fmt::format("legal are {} to {} bytes (2^20 - 1) in one phase",
                                                   -int64_t{kMbarrierLimit}, kMbarrierLimit)}),
                actor.lanes);
  }
  barrier.transaction = value;
}

void count_arrival(const BarrierReference& reference, const Arrival& arrival, const BarrierActor& actor) {
  check_arrival_count(arrival.count, actor);
  Mbarrier& barrier = *reference.barrier;
  if (arrival.count > barrier.pending) {
    throw Fault(FaultKind::launch_failure,
                fmt::format("{}: {} arrival(s) at the {}, where only {} of {} are pending", actor.what, arrival.count,
                            name_of_barrier(*reference.block, reference.offset), barrier.pending, barrier.expected),
                details_of(reference,
                           {"more threads arrive in one phase than mbarrier.init announced: count who arrives (every "
                            "active lane does), or arrive from one elected lane",
                            "it can also be an arrival for the next phase that nobody made wait for this one to end"}),
                actor.lanes);
  }
  const uint32_t count = static_cast<uint32_t>(arrival.count);
  if (arrival.no_complete && count == barrier.pending && barrier.transaction == 0) {
    throw Fault(FaultKind::launch_failure,
                fmt::format("{}: this arrival would end the phase of the {}", actor.what,
                            name_of_barrier(*reference.block, reference.offset)),
                details_of(reference, {".noComplete promises that the phase goes on; use a plain mbarrier.arrive for "
                                       "the last arrival"}),
                actor.lanes);
  }
  barrier.pending -= count;
  if (arrival.drop) barrier.expected -= std::min(count, barrier.expected);
  announce(reference, BarrierEventKind::arrive, count, actor);
}

}  // namespace

BarrierReference find_barrier(Block& block, uint32_t offset, const char* what) {
  const auto found = block.mbarriers.live.find(offset);
  if (found == block.mbarriers.live.end()) {
    std::vector<std::string> details;
    if (block.mbarriers.invalidated.count(offset) != 0) {
      details.push_back("there was one, until mbarrier.inval ended it; initialise it again before it is used");
    } else {
      details.push_back(
          "did a thread run ahead of mbarrier.init? Let one thread initialise, then __syncthreads() (for other blocks "
          "of the cluster: fence.mbarrier_init and a cluster barrier) before anyone uses the barrier");
    }
    if (block.mbarriers.live.empty()) {
      details.push_back("the block has no live mbarrier");
    } else {
      std::string offsets;
      size_t shown = 0;
      for (const auto& [other, barrier] : block.mbarriers.live) {
        if (shown++ == 16) {
          offsets += ", ...";
          break;
        }
        offsets += fmt::format("{}0x{:x}", offsets.empty() ? "" : ", ", other);
      }
      details.push_back(fmt::format("the block's {} live mbarrier(s) are at {}", block.mbarriers.live.size(), offsets));
    }
    throw Fault(FaultKind::launch_failure,
                fmt::format("{}: no mbarrier is initialised at shared offset 0x{:x} of block ({},{},{})", what, offset,
                            block.index.x, block.index.y, block.index.z),
                std::move(details));
  }
  const BarrierReference reference{&block, offset, &found->second};
  uint64_t stored = 0;
  std::memcpy(&stored, block.shared.data() + offset, sizeof stored);
  if (stored != word_of(found->second)) {
    throw Fault(
        FaultKind::launch_failure,
        fmt::format("{}: the {} has been written over with 0x{:016x}", what, name_of_barrier(block, offset), stored),
        details_of(reference, {"something stored to these 8 bytes while the barrier was live: an overlapping "
                               "buffer, or a copy that runs past its end; the chip's barrier would be corrupt",
                               "to use the memory for something else, end the barrier with mbarrier.inval"}));
  }
  return reference;
}

BarrierReference find_barrier(Cluster& cluster, uint32_t address, const char* what) {
  Block& block = block_with(cluster, address, kMbarrierBytes, kMbarrierBytes, what);
  return find_barrier(block, address & machine::kSharedOffsetMask, what);
}

void init_barrier(Block& block, uint32_t address, uint64_t count, const BarrierActor& actor) {
  block_in_scope(block, address, kMbarrierBytes, kMbarrierBytes, SharedScope::block, actor.what);
  check_arrival_count(count, actor);
  const uint32_t offset = address & machine::kSharedOffsetMask;
  if (const auto found = block.mbarriers.live.find(offset); found != block.mbarriers.live.end()) {
    // A program that has stored other data here since has ended the barrier in deed, if not in word.
    uint64_t stored = 0;
    std::memcpy(&stored, block.shared.data() + offset, sizeof stored);
    if (stored == word_of(found->second) || !found->second.waiting.empty()) {
      throw Fault(FaultKind::launch_failure,
                  fmt::format("{}: a barrier is already live at this place, the {}", actor.what,
                              name_of_barrier(block, offset)),
                  details_of({&block, offset, &found->second},
                             {"do two threads initialise it? One must, before the others use it",
                              "to initialise it anew, end it first with mbarrier.inval, when nobody uses it any more"}),
                  actor.lanes);
    }
  }
  Mbarrier& barrier = block.mbarriers.live[offset];
  barrier = Mbarrier{};
  barrier.expected = barrier.pending = static_cast<uint32_t>(count);
  block.mbarriers.invalidated.erase(offset);
  const BarrierReference reference{&block, offset, &barrier};
  store_word(reference);
  announce(reference, BarrierEventKind::init, count, actor);
}

void invalidate_barrier(Block& block, uint32_t address, const BarrierActor& actor) {
  block_in_scope(block, address, kMbarrierBytes, kMbarrierBytes, SharedScope::block, actor.what);
  const uint32_t offset = address & machine::kSharedOffsetMask;
  const BarrierReference reference = find_barrier(block, offset, actor.what);
  if (!reference.barrier->waiting.empty()) {
    const Fragment& sleeper = *reference.barrier->waiting.front();
    throw Fault(FaultKind::launch_failure,
                fmt::format("{}: warp {} still waits on the {}", actor.what, sleeper.warp->index,
                            name_of_barrier(block, offset)),
                details_of(reference, {"it could never be woken; invalidate a barrier when nobody uses it any more"}),
                actor.lanes);
  }
  announce(reference, BarrierEventKind::invalidate, 0, actor);
  block.mbarriers.live.erase(offset);
  block.mbarriers.invalidated.insert(offset);
}

uint64_t arrive(const BarrierReference& reference, const Arrival& arrival, const BarrierActor& actor) {
  const uint64_t state = word_of(*reference.barrier);
  count_arrival(reference, arrival, actor);
  settle(reference, actor);
  return state;
}

void expect_transaction(const BarrierReference& reference, uint64_t bytes, const BarrierActor& actor) {
  change_transaction(reference, static_cast<int64_t>(bytes), actor);
  reference.barrier->announced += static_cast<int64_t>(bytes);
  announce(reference, BarrierEventKind::expect_tx, bytes, actor);
  settle(reference, actor);
}

uint64_t arrive_and_expect(const BarrierReference& reference, uint64_t bytes, const Arrival& arrival,
                           const BarrierActor& actor) {
  const uint64_t state = word_of(*reference.barrier);
  change_transaction(reference, static_cast<int64_t>(bytes), actor);
  reference.barrier->announced += static_cast<int64_t>(bytes);
  announce(reference, BarrierEventKind::expect_tx, bytes, actor);
  count_arrival(reference, arrival, actor);
  settle(reference, actor);
  return state;
}

void complete_transaction(const BarrierReference& reference, uint64_t bytes, const BarrierActor& actor) {
  change_transaction(reference, -static_cast<int64_t>(bytes), actor);
  announce(reference, BarrierEventKind::complete_tx, bytes, actor);
  settle(reference, actor);
}

void add_pending(const BarrierReference& reference, const BarrierActor& actor) {
  Mbarrier& barrier = *reference.barrier;
  if (barrier.pending >= kMbarrierLimit) {
    throw Fault(FaultKind::launch_failure,
                fmt::format("{}: the pending count of the {} would exceed {}", actor.what,
                            name_of_barrier(*reference.block, reference.offset), kMbarrierLimit),
                details_of(reference, {}), actor.lanes);
  }
  ++barrier.pending;
  store_word(reference);
}

void complete_transaction(Cluster& cluster, uint32_t address, uint64_t bytes, const char* what, uint64_t operation) {
  complete_transaction(find_barrier(cluster, address, what), bytes, BarrierActor{what, nullptr, 0, false, operation});
}

void arrive_asynchronously(Cluster& cluster, uint32_t address, uint32_t count, const char* what, uint64_t operation) {
  arrive(find_barrier(cluster, address, what), Arrival{count}, BarrierActor{what, nullptr, 0, false, operation});
}

void MbarrierTable::forget(Fragment& fragment) {
  if (fragment.wait.kind != machine::WaitKind::mbarrier) return;
  const auto erase_from = [&](std::vector<Fragment*>& list) {
    const auto kept = std::remove(list.begin(), list.end(), &fragment);
    const bool found = kept != list.end();
    list.erase(kept, list.end());
    return found;
  };
  if (!waiting_on_several.empty() && erase_from(waiting_on_several)) {
    for (auto& [offset, barrier] : live) erase_from(barrier.waiting);
    return;
  }
  const auto found = live.find(fragment.wait.address & machine::kSharedOffsetMask);
  if (found != live.end()) erase_from(found->second.waiting);
}

machine::Cycle cycles_of(uint64_t nanoseconds, const machine::Grid& grid) {
  const double cycles = static_cast<double>(nanoseconds) * grid.architecture->clock_khz / 1e6;
  return std::max<machine::Cycle>(1, static_cast<machine::Cycle>(cycles));
}

}  // namespace stagecraft::emulator::units
