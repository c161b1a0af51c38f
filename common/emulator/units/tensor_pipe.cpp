#include "emulator/units/tensor_pipe.hpp"

#include <algorithm>
#include <utility>

#include "emulator/machine/observation.hpp"
#include "emulator/units/mbarrier.hpp"

namespace stagecraft::emulator::units {

using machine::Block;
using machine::Cluster;
using machine::Cycle;
using machine::Fragment;

void issue(Fragment& fragment, uint32_t lane, Cycle arithmetic, const char* what,
           const std::function<OperationFootprint()>& footprint,
           std::function<void(const Block&, TensorMemory&)> action) {
  const Block& block = fragment.block();
  Cluster& cluster = fragment.cluster();
  TensorMemory& memory = *block.sm->tensor_memory;
  TensorPipe& pipe = memory.pipe(block);
  const Cycle now = std::max(cluster.now, fragment.warp->clock);  // from which `schedule` counts
  const Cycle begin = std::max(now, pipe.busy_until);
  pipe.busy_until = begin + arithmetic;
  const Cycle completion = pipe.busy_until + fragment.grid().latencies->mma_setup;
  if (machine::observes_memory(fragment)) {
    OperationFootprint touched = footprint();
    machine::announce_operation({.fragment = &fragment,
                                 .lane = lane,
                                 .what = what,
                                 .completion = machine::AsyncCompletion::tensor_pipe,
                                 .reads = std::move(touched.reads),
                                 .matrices = std::move(touched.matrices),
                                 .tensor_reads = std::move(touched.tensor_reads),
                                 .tensor_writes = std::move(touched.tensor_writes),
                                 .accumulates = touched.accumulates,
                                 .begin = begin,
                                 .end = completion});
  }
  pipe.completion_of[machine::thread_of(fragment, lane)] = completion;
  ++pipe.in_flight;
  cluster.schedule(completion - now, [&block, &memory, serial = memory.serial(block), action = std::move(action)] {
    // Of a block that has ended, the operations in flight were reported as left behind.
    if (memory.serial_of(block) != serial) return;
    --memory.pipe(block).in_flight;
    action(block, memory);
  });
}

void commit(Fragment& fragment, uint32_t lane, std::vector<uint32_t> mbarriers) {
  Cluster& cluster = fragment.cluster();
  const Block& block = fragment.block();
  const TensorPipe& pipe = block.sm->tensor_memory->pipe(block);
  const auto latest = pipe.completion_of.find(machine::thread_of(fragment, lane));
  const Cycle now = std::max(cluster.now, fragment.warp->clock);
  const Cycle completion = latest == pipe.completion_of.end() ? now : std::max(now, latest->second);
  uint64_t number = 0;
  if (machine::observes_memory(fragment)) {
    number = machine::announce_operation({.fragment = &fragment,
                                          .lane = lane,
                                          .what = "tcgen05.commit",
                                          .completion = machine::AsyncCompletion::tensor_arrive,
                                          .has_barrier = !mbarriers.empty(),
                                          .barrier = mbarriers.empty() ? 0 : mbarriers.front(),
                                          .begin = now,
                                          .end = completion});
  }
  // At equal times events keep the order of scheduling: this one follows the operations that it tracks.
  cluster.schedule(completion - now, [&cluster, number, mbarriers = std::move(mbarriers)] {
    for (const uint32_t address : mbarriers) arrive_asynchronously(cluster, address, 1, "tcgen05.commit", number);
  });
}

}  // namespace stagecraft::emulator::units
