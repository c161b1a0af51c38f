#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness/cuda_error.hpp"
#include "harness/device_buffer.hpp"
#include "stagecraft/producer_consumer_pipeline.hpp"
#include "stagecraft/tensor_map.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft {
namespace {

using harness::check;
using harness::DeviceBuffer;

/// Where a producer is in a ring of 4 stages after 10 steps: lesson 02, question 1.
constexpr PipelineState<4> after_ten_rows() {
  PipelineState<4> state{/*index=*/0, /*phase=*/1};
  for (int row = 0; row < 10; ++row) state.step();
  return state;
}
static_assert(after_ten_rows().index() == 2 && after_ten_rows().phase() == 1);

/// Runs a kernel of one block that answers into `size` integers.
template <typename Kernel>
std::vector<int> answers(Kernel kernel, int threads, size_t size) {
  DeviceBuffer<int> answers(size, "the answers");
  answers.poison();
  kernel<<<1, threads>>>(answers.data());
  check(cudaGetLastError(), "launch the kernel");
  check(cudaDeviceSynchronize(), "finish the kernel");
  return answers.to_host();
}

template <int Stages>
__device__ void start(const ProducerConsumerPipeline<Stages>& ring, int producer_arrive_count,
                      int consumer_arrive_count) {
  if (threadIdx.x == 0) {
    ring.init_mbars(producer_arrive_count, consumer_arrive_count);
    fence_barrier_init();
  }
  __syncthreads();
}

template <int Stages>
__global__ void ask_fresh_pipeline(int* answers) {
  __shared__ uint64_t barriers[2 * Stages];
  ProducerConsumerPipeline<Stages> ring{barriers};
  start(ring, 1, 1);
  for (int stage = 0; stage < Stages + 1; ++stage) {
    answers[stage] = ring.try_wait_consumer();
    answers[Stages + 1 + stage] = ring.try_wait_producer();
    ring.wait_consumer_if_needed(true);  // must not wait
    ring.wait_producer_if_needed(true);
    if (stage < Stages) ring.wait_consumer();
    ring.producer_step();
  }
}

TEST(PipelineTest, ProducerPassesTheFirstRoundWithoutWaiting) {
  EXPECT_EQ(answers(ask_fresh_pipeline<1>, 1, 4), (std::vector<int>{1, 0, 0, 0}));
  EXPECT_EQ(answers(ask_fresh_pipeline<3>, 1, 8), (std::vector<int>{1, 1, 1, 0, 0, 0, 0, 0}));
}

__global__ void follow_one_stage(int* answers) {
  __shared__ uint64_t barriers[4];
  ProducerConsumerPipeline<2> ring{barriers};
  start(ring, 1, 2);
  *answers++ = ring.try_wait_producer();
  arrive(ring.producer_mbar(ring.producer_stage()));
  *answers++ = ring.try_wait_producer();  // filled
  ring.producer_step();
  ring.producer_step();
  *answers++ = ring.try_wait_consumer();  // one round later, and no role has freed the stage
  arrive(ring.consumer_mbar(ring.consumer_stage()));
  *answers++ = ring.try_wait_consumer();  // one of two arrivals
  arrive(ring.consumer_mbar(ring.consumer_stage()));
  *answers++ = ring.try_wait_consumer();  // free
  ring.consumer_step();
  *answers++ = ring.try_wait_producer();  // the next stage is not filled
}

TEST(PipelineTest, AStageIsFilledAndFreedByItsArrivals) {
  EXPECT_EQ(answers(follow_one_stage, 1, 6), (std::vector<int>{0, 1, 0, 0, 1, 0}));
}

__global__ void name_barriers(int* answers) {
  __shared__ uint64_t barriers[6];
  ProducerConsumerPipeline<3> ring{barriers};
  for (int stage = 0; stage < 3; ++stage) {
    answers[stage] = static_cast<int>(ring.producer_mbar(stage) - barriers);
    answers[3 + stage] = static_cast<int>(ring.consumer_mbar(stage) - barriers);
  }
}

TEST(PipelineTest, FullBarriersComeBeforeEmptyOnes) {
  EXPECT_EQ(answers(name_barriers, 1, 6), (std::vector<int>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(ProducerConsumerPipeline<3>::smem_bytes(), 48u);
  EXPECT_EQ(ProducerConsumerPipeline<3>::num_stages, 3);
}

/// A value goes through the ring in each round; `signal_and_step` is all that orders the two warps.
__global__ void count_through(int* answers) {
  constexpr int kStages = 2, kRounds = 50;
  __shared__ uint64_t barriers[2 * kStages];
  __shared__ int value[kStages];
  ProducerConsumerPipeline<kStages> ring{barriers};
  start(ring, 1, 1);
  if (warp_index() == 0) {
    if (elect_one()) {
      for (int round = 0; round < kRounds; ++round) {
        ring.wait_consumer();
        value[ring.producer_stage()] = round;
        ring.producer_signal_and_step();
      }
    }
  } else if (elect_one()) {
    int in_order = 0;
    for (int round = 0; round < kRounds; ++round) {
      ring.wait_producer();
      in_order += value[ring.consumer_stage()] == round;
      ring.consumer_signal_and_step();
    }
    answers[0] = in_order;
  }
}

TEST(PipelineTest, SignalAndStepKeepsTwoRolesInStep) {
  EXPECT_EQ(answers(count_through, 64, 1), (std::vector<int>{50}));
}

__global__ void elect_lanes(int* answers) { answers[threadIdx.x] = elect_one() ? static_cast<int>(warp_index()) : -1; }

TEST(WarpTest, ElectsOneLaneOfEveryWarp) {
  const std::vector<int> elected = answers(elect_lanes, 96, 96);
  for (int warp = 0; warp < 3; ++warp) {
    int lanes = 0;
    for (int lane = 0; lane < 32; ++lane) lanes += elected[warp * 32 + lane] == warp;
    EXPECT_EQ(lanes, 1) << warp;
  }
}

std::string refusal(const std::vector<TensorMapDimension>& dimensions, Swizzle swizzle = Swizzle::none,
                    uintptr_t address = 0x1000) {
  try {
    make_tensor_map(reinterpret_cast<const float*>(address), dimensions.data(), dimensions.size(), swizzle);
  } catch (const TensorMapError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(TensorMapTest, NamesTheRuleThatIsBroken) {
  using D = TensorMapDimension;
  EXPECT_EQ(refusal({}), "tensor map: 0 dimensions; TMA handles 1 to 5");
  EXPECT_EQ(refusal(std::vector<D>(6)), "tensor map: 6 dimensions; TMA handles 1 to 5");
  EXPECT_EQ(refusal({D{.extent = 64, .box = 32}}, Swizzle::none, 0x1008),
            "tensor map: the tensor does not start on a 16-byte boundary");
  EXPECT_EQ(refusal({D{.extent = 0, .box = 32}}), "tensor map: dimension 0: 0 elements; legal are 1 to 2^32");
  EXPECT_EQ(refusal({D{.extent = 64, .box = 257}}), "tensor map: dimension 0: a box of 257; legal are 1 to 256");
  EXPECT_EQ(refusal({D{.extent = 64, .box = 32}, D{.extent = 8, .stride = 260}}),
            "tensor map: dimension 1: a stride of 260 bytes; it must be a multiple of 16 below 2^40. Pad the rows.");
  EXPECT_EQ(refusal({D{.extent = 64, .box = 32}, D{.extent = 8, .stride = 256, .traversal = 9}}),
            "tensor map: dimension 1: every 9th index; legal are 1 to 8");
  EXPECT_EQ(refusal({D{.extent = 64, .box = 3}}),
            "tensor map: a box row of 12 bytes; it must be a multiple of 16 bytes");
  EXPECT_EQ(refusal({D{.extent = 64, .box = 32}}, Swizzle::bytes_64),
            "tensor map: a box row of 128 bytes does not fit in the 64 bytes that the swizzle permutes. Use a narrower "
            "box.");
}

}  // namespace
}  // namespace stagecraft
