#include "emulator/engines/tensor_core/tcgen05/tcgen05_queue.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "emulator/engines/mbarrier/mbarrier.hpp"
#include "emulator/state/announcements.hpp"

namespace stagecraft::emulator::machine {

void issue(Fragment& fragment, uint32_t lane, const TensorUnits& units, Cycle arithmetic, const char* what,
           const std::function<OperationFootprint()>& footprint, std::function<void(const TensorUnits&)> action) {
  Cluster& cluster = fragment.cluster();
  const Cycle now = std::max(cluster.now, fragment.warp->clock);  // `schedule` counts from here
  Cycle begin = now;
  for (const TensorUnit& unit : units) begin = std::max(begin, unit.memory->pipe(*unit.block).busy_until);
  const Cycle completion = begin + arithmetic + fragment.grid().latencies->mma_setup;
  if (observes_memory(fragment)) {
    OperationFootprint touched = footprint();
    announce_operation({.fragment = &fragment,
                        .lane = lane,
                        .what = what,
                        .completion = AsyncCompletion::tensor_pipe,
                        .reads = std::move(touched.reads),
                        .matrices = std::move(touched.matrices),
                        .tensor_reads = std::move(touched.tensor_reads),
                        .tensor_writes = std::move(touched.tensor_writes),
                        .of_pair = units.are_pair(),
                        .accumulates = touched.accumulates,
                        .begin = begin,
                        .end = completion,
                        .product = touched.product});
  }
  std::array<uint64_t, 2> serials{};
  for (uint32_t i = 0; i < units.count(); ++i) {
    const auto& [block, memory] = units[i];
    TensorPipe& pipe = memory->pipe(*block);
    pipe.busy_until = begin + arithmetic;
    ++pipe.in_flight;
    serials[i] = memory->serial(*block);
  }
  const Block& issuer = fragment.block();
  TensorPipe& issuing = issuer.sm->tensor_memory->pipe(issuer);
  issuing.completion_of[thread_of(fragment, lane)] = completion;
  auto complete = [units, serials, action = std::move(action)] {
    bool all_live = true;
    for (uint32_t i = 0; i < units.count(); ++i) {
      const auto& [block, memory] = units[i];
      // If the block has ended, its operations in flight were reported as left behind.
      const bool live = memory->serial_of(*block) == serials[i];
      if (live) --memory->pipe(*block).in_flight;
      all_live = all_live && live;
    }
    if (all_live) action(units);
  };
  cluster.schedule(completion - now, std::move(complete), &issuing);
}

void commit(Fragment& fragment, uint32_t lane, std::vector<uint32_t> mbarriers) {
  Cluster& cluster = fragment.cluster();
  const Block& block = fragment.block();
  const TensorPipe& pipe = block.sm->tensor_memory->pipe(block);
  const auto latest = pipe.completion_of.find(thread_of(fragment, lane));
  const Cycle now = std::max(cluster.now, fragment.warp->clock);
  const Cycle completion = latest == pipe.completion_of.end() ? now : std::max(now, latest->second);
  uint64_t number = 0;
  if (observes_memory(fragment)) {
    number = announce_operation({.fragment = &fragment,
                                 .lane = lane,
                                 .what = "tcgen05.commit",
                                 .completion = AsyncCompletion::tensor_arrive,
                                 .has_barrier = !mbarriers.empty(),
                                 .barrier = mbarriers.empty() ? 0 : mbarriers.front(),
                                 .begin = now,
                                 .end = completion});
  }
  // Events of equal time keep the order of scheduling, so this one follows the operations that it tracks.
  auto arrive = [&cluster, number, mbarriers = std::move(mbarriers)] {
    for (const uint32_t address : mbarriers) arrive_asynchronously(cluster, address, 1, "tcgen05.commit", number);
  };
  cluster.schedule(completion - now, std::move(arrive), &pipe);
}

}  // namespace stagecraft::emulator::machine
