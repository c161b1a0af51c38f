// What the layers of chapters 02 to 06 cost: cycles for each stage that a warp fills and another empties, through
// barriers by hand, the pipeline, its handles, its scopes, and roles as types. Prints JSON lines.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <vector>

#include "harness/cuda_error.hpp"
#include "harness/device_buffer.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/pipeline_state.hpp"
#include "stagecraft/producer_consumer_pipeline.hpp"
#include "stagecraft/role_pipeline.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

namespace {

constexpr int kStages = 4;
enum class Layer { ring, pipeline, handles, scopes, roles };

/// What the warps share.
struct Shared {
  uint32_t tile[kStages][kWarpSize];
  uint64_t barriers[2 * kStages];  // full, then empty
};

/// Warp 0's part: it calls `fill(stage)` for each of `rows` stages in turn.
template <Layer L, typename Fill>
__device__ void produce(Shared& shared, int rows, Fill fill) {
  uint64_t *const full = shared.barriers, *const empty = shared.barriers + kStages;
  if constexpr (L == Layer::ring) {
    PipelineState<kStages> state{/*index=*/0, /*phase=*/1};
    for (int row = 0; row < rows; ++row) {
      wait(&empty[state.index()], state.phase());
      fill(state.index(), row);
      arrive(&full[state.index()]);
      state.step();
    }
  } else if constexpr (L == Layer::roles) {
    RolePipeline<kStages, /*IsProducer=*/true> ring{full, empty};
    for (int row = 0; row < rows; ++row) {
      ring.acquire();
      fill(ring.index(), row);
      ring.commit();
    }
  } else {
    ProducerConsumerPipeline<kStages> ring{shared.barriers};
    for (int row = 0; row < rows; ++row) {
      if constexpr (L == Layer::pipeline) {
        ring.wait_consumer();
        fill(ring.producer_stage(), row);
        arrive(ring.producer_mbar(ring.producer_stage()));
        ring.producer_step();
      } else if constexpr (L == Layer::handles) {
        auto stage = ring.acquire_producer();
        fill(stage.index(), row);
        arrive(stage.mbar());
        std::move(stage).release();
      } else {
        auto stage = ring.produce();
        fill(stage.index(), row);
        arrive(stage.mbar());
      }
    }
  }
}

/// Warp 1's part: it calls `read(stage)` for each of `rows` stages in turn.
template <Layer L, typename Read>
__device__ void consume(Shared& shared, int rows, Read read) {
  uint64_t *const full = shared.barriers, *const empty = shared.barriers + kStages;
  if constexpr (L == Layer::ring) {
    PipelineState<kStages> state;
    for (int row = 0; row < rows; ++row) {
      wait(&full[state.index()], state.phase());
      read(state.index());
      arrive(&empty[state.index()]);
      state.step();
    }
  } else if constexpr (L == Layer::roles) {
    RolePipeline<kStages, /*IsProducer=*/false> ring{full, empty};
    for (int row = 0; row < rows; ++row) {
      ring.wait();
      read(ring.index());
      ring.release();
    }
  } else {
    ProducerConsumerPipeline<kStages> ring{shared.barriers};
    for (int row = 0; row < rows; ++row) {
      if constexpr (L == Layer::pipeline) {
        ring.wait_producer();
        read(ring.consumer_stage());
        arrive(ring.consumer_mbar(ring.consumer_stage()));
        ring.consumer_step();
      } else if constexpr (L == Layer::handles) {
        auto stage = ring.acquire_consumer();
        read(stage.index());
        std::move(stage).release();
      } else {
        auto stage = ring.consume();
        read(stage.index());
      }
    }
  }
}

/// One block of two warps. Writes the sums of the lanes of warp 1, and the cycles that its loop took.
template <Layer L>
__global__ void __launch_bounds__(2 * kWarpSize) pass_rows(int rows, uint32_t* sums, long long* cycles) {
  __shared__ Shared shared;
  if (threadIdx.x < 2 * kStages) init_barrier(&shared.barriers[threadIdx.x], kWarpSize);
  fence_barrier_init();
  __syncthreads();
  if (warp_index() == 0) {
    produce<L>(shared, rows, [&](uint32_t stage, int row) { shared.tile[stage][lane_index()] = row; });
  } else {
    uint32_t sum = 0;
    const long long begin = clock64();
    consume<L>(shared, rows, [&](uint32_t stage) { sum += shared.tile[stage][lane_index()]; });
    if (lane_index() == 0) *cycles = clock64() - begin;
    sums[lane_index()] = sum;
  }
}

template <Layer L>
bool measure(const char* name, int rows, int repeats) {
  const harness::DeviceBuffer<uint32_t> sums(kWarpSize, "the sums");
  const harness::DeviceBuffer<long long> cycles(1, "the cycles");
  std::vector<double> all;
  bool right = true;
  for (int repeat = 0; repeat <= repeats; ++repeat) {
    harness::check(cudaMemset(sums.data(), 0xff, sums.bytes()), "poison the sums");
    pass_rows<L><<<1, 2 * kWarpSize>>>(rows, sums.data(), cycles.data());
    harness::check(cudaDeviceSynchronize(), "finish the kernel");
    const uint32_t expected = static_cast<uint32_t>(static_cast<int64_t>(rows) * (rows - 1) / 2);
    for (const uint32_t sum : sums.to_host()) right = right && sum == expected;
    if (repeat > 0) all.push_back(static_cast<double>(cycles.to_host()[0]) / rows);  // the first fills the caches
  }
  std::sort(all.begin(), all.end());
  std::printf(
      "{\"layer\": \"%s\", \"cycles a stage\": %.2f, \"least\": %.2f, \"most\": %.2f, \"repeats\": %d, "
      "\"right\": %s}\n",
      name, all[all.size() / 2], all.front(), all.back(), repeats, right ? "true" : "false");
  return right;
}

}  // namespace

int main(int argc, char**) {
  try {
    const int rows = argc > 1 ? 64 : 4096, repeats = argc > 1 ? 2 : 31;  // any argument: a short run
    bool right = measure<Layer::ring>("ring", rows, repeats);
    right = measure<Layer::pipeline>("pipeline", rows, repeats) && right;
    right = measure<Layer::handles>("handles", rows, repeats) && right;
    right = measure<Layer::scopes>("scopes", rows, repeats) && right;
    right = measure<Layer::roles>("roles", rows, repeats) && right;
    return right ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "layers: %s\n", error.what());
    return 2;
  }
}
