// What launch control changes when units of work take different times: the same units by a fixed schedule, by launch
// control, and by launch control without its throttle. A turn computes nothing; it only lasts.
//
//     build/schedules fixed | launch_control | unthrottled
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "harness/cuda_error.hpp"
#include "harness/device.hpp"
#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "stagecraft/launch.hpp"
#include "stagecraft/launch_control.hpp"
#include "stagecraft/tile_scheduler.hpp"
#include "stagecraft/warp.hpp"

namespace {

using namespace stagecraft;
using Tiles = WholeTiles<>;

/// Row r of the tiles takes r + 1 times as long as row 0: as in a product with a triangular A.
constexpr uint32_t kRows = 37, kColumns = 40;
constexpr uint32_t kCyclesPerRow = 400;
constexpr uint32_t kMostTurns = 256;
constexpr uint32_t kThreads = 2 * kWarpSize;
constexpr uint32_t kSharedBytes = 150 * 1024;  // so that a multiprocessor has one block

/// What a block did.
struct Turns {
  uint32_t count;
  uint64_t begin[kMostTurns], end[kMostTurns];
};

//! [spend time]
/// Takes turns that last as long as their row says.
/// @param early  permissions that are given before the first turn: none, if the requests are to be throttled.
template <typename Scheduler>
__global__ void __launch_bounds__(kThreads) spend_time(const __grid_constant__ Tiles tiles, int early, Turns* turns) {
  __shared__ typename Scheduler::Storage storage;
  Scheduler scheduler{storage, tiles};
  if (threadIdx.x == 0) {
    Scheduler::init_barriers(storage, /*readers=*/1);
    fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    auto turn = scheduler.turns();
    for (int i = 0; i < early; ++i) turn.permit_request();
    for (uint32_t i = 0; turn.exists(); turn.next(), ++i) {
      turn.permit_request();
      const uint64_t begin = clock64();
      const uint64_t end = begin + (turn.work().row + 1) * kCyclesPerRow;
      while (clock64() < end) {
      }
      turns[blockIdx.x].begin[i] = begin;
      turns[blockIdx.x].end[i] = clock64();
      turns[blockIdx.x].count = i + 1;
    }
  } else if (threadIdx.x == kWarpSize) {
    scheduler.run();
  }
}
//! [spend time]

template <typename Scheduler>
std::vector<Turns> run(int early) {
  const Tiles tiles{{.rows = kRows, .columns = kColumns, .k_tiles = 1}};
  const auto multiprocessors = static_cast<uint32_t>(harness::current_device().multiProcessorCount);
  const dim3 grid = Scheduler::grid(tiles, multiprocessors);
  const harness::DeviceBuffer<Turns> turns(grid.x, "the turns");
  harness::check(cudaMemset(turns.data(), 0, turns.bytes()), "clear the turns");
  harness::check(
      launch_kernel(spend_time<Scheduler>, {.grid = grid, .block = kThreads, .dynamic_shared_bytes = kSharedBytes},
                    tiles, early, turns.data()),
      "launch spend_time");
  harness::finish_kernel("spend_time");
  std::vector<Turns> found = turns.to_host();
  std::erase_if(found, [](const Turns& block) { return block.count == 0; });  // their units were taken over
  return found;
}

void print(const std::string& schedule, const std::vector<Turns>& blocks) {
  constexpr uint64_t kCyclesPerCharacter = 2500;
  uint64_t first = UINT64_MAX, last = 0, busy = 0;
  uint32_t fewest = kMostTurns, most = 0, units = 0;
  for (const Turns& block : blocks) {
    for (uint32_t i = 0; i < block.count; ++i) {
      first = std::min(first, block.begin[i]);
      last = std::max(last, block.end[i]);
      busy += block.end[i] - block.begin[i];
    }
    units += block.count;
    fewest = std::min(fewest, block.count);
    most = std::max(most, block.count);
  }
  const double share = 100.0 * static_cast<double>(busy) / (static_cast<double>(last - first) * blocks.size());
  std::printf("%s: %u units by %zu blocks, %u to %u each; %llu thousand cycles, busy %.0f %% of the time\n",
              schedule.c_str(), units, blocks.size(), fewest, most,
              static_cast<unsigned long long>((last - first) / 1000), share);
  for (size_t number = 0; number < blocks.size(); number += 18) {
    const Turns& block = blocks[number];
    std::string line((last - first) / kCyclesPerCharacter + 1, ' ');
    for (uint32_t i = 0; i < block.count; ++i) {
      const uint64_t begin = (block.begin[i] - first) / kCyclesPerCharacter;
      const uint64_t end = (block.end[i] - first) / kCyclesPerCharacter;
      for (uint64_t at = begin; at <= end; ++at) line[at] = i % 2 == 0 ? '#' : '=';
    }
    std::printf("  block %3zu %s\n", number, line.c_str());
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string_view schedule = argc == 2 ? argv[1] : "";
  constexpr int kResponses = 3;
  using LaunchControlled = LaunchControlScheduler<Tiles, kResponses>;
  if (schedule == "fixed") {
    print("fixed", run<StaticScheduler<Tiles>>(0));
  } else if (schedule == "launch_control") {
    print("launch control", run<LaunchControlled>(0));
  } else if (schedule == "unthrottled") {
    print("launch control without a throttle", run<LaunchControlled>(kResponses - 1));
  } else {
    std::fprintf(stderr, "usage: schedules fixed|launch_control|unthrottled\n");
    return 2;
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "schedules: %s\n", error.what());
  return 1;
}
