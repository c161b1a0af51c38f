// RolePipeline with the tensor core as the producer that signals: tcgen05.commit arrives on the full barrier when the
// MMAs issued so far are done, and not before.
#include <cuda_bf16.h>

#include <cuda/ptx>

#include "harness/device.hpp"
#include "ring_test.hpp"
#include "stagecraft/role_pipeline.hpp"
#include "stagecraft/tensor_memory.hpp"
#include "stagecraft/umma_descriptors.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft::tests {
namespace {

constexpr int kColumns = 32;  // of tensor memory, for each stage

/// The accumulators of round r are products of all-one matrices, so that every element is 16 for each MMA of the round:
/// 1 + r % 5 of them.
/// @tparam ElectsBeforehand  which of the two forms commits.
template <int Stages, int CtaGroup, bool ElectsBeforehand>
__global__ void __launch_bounds__(kThreads) multiply_ones(float* out, int rounds) {
  constexpr Mma kMma{.m = 128, .n = 16};
  __shared__ alignas(128) __nv_bfloat16 ones[128 * kMma.k()];
  __shared__ uint64_t full[Stages], empty[Stages];
  __shared__ uint32_t published;
  RolePipeline<Stages, true, 1, 1, CtaGroup> multiplier{full, empty};
  RolePipeline<Stages, false, 1, 1, CtaGroup> reader{full, empty};
  const TmemAllocation<128> tensor_memory{&published};

  for (int i = threadIdx.x; i < 128 * kMma.k(); i += kThreads) ones[i] = __float2bfloat16(1.0f);
  cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);  // the tensor core reads what threads wrote
  if (threadIdx.x == 0) {
    multiplier.init_mbars(/*producer_arrive_count=*/1, /*consumer_arrive_count=*/kWarpSize);
    fence_barrier_init();
  }
  __syncwarp();
  if (warp_index() == 0) {
    tensor_memory.allocate();
    tensor_memory.release_lock();
  }
  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  cuda::ptx::tcgen05_fence_after_thread_sync();
  const uint32_t accumulators = tensor_memory.address();

  if (warp_index() == 0) {
    const bool elected = elect_one();
    const uint64_t operand =
        SharedMemoryDescriptor{.start_address = static_cast<uint32_t>(__cvta_generic_to_shared(ones)),
                               .leading_byte_offset = 128,
                               .stride_byte_offset = 256}
            .encode();
    for (int round = 0; round < rounds; ++round) {
      multiplier.acquire();
      cuda::ptx::tcgen05_fence_after_thread_sync();
      if (elected) {
        const uint32_t accumulator = tmem_offset(accumulators, 0, multiplier.index() * kColumns);
        for (int i = 0; i <= round % 5; ++i) {
          cuda::ptx::tcgen05_mma(cuda::ptx::kind_f16, cuda::ptx::cta_group_1, accumulator, operand, operand,
                                 instruction_descriptor<kMma>(), /*enable_input_d=*/i > 0);
        }
      }
      __syncwarp();
      if constexpr (ElectsBeforehand) {
        multiplier.commit_mma(elected);
      } else {
        multiplier.commit_mma();
      }
      multiplier.step();
    }
  } else {
    for (int round = 0; round < rounds; ++round) {
      reader.wait();
      cuda::ptx::tcgen05_fence_after_thread_sync();
      float values[16];
      load_tmem_columns(values,
                        tmem_offset(accumulators, kWarpSize, reader.index() * kColumns));  // warp 1: lanes 32..63
      float sum = 0;
      for (const float value : values) sum += value;
      out[round * kWarpSize + lane_index()] = sum / 16;
      cuda::ptx::tcgen05_fence_before_thread_sync();
      reader.release();
    }
  }
  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncwarp();
  __syncthreads();
  if (warp_index() == 0) tensor_memory.deallocate();
}

template <typename Kernel>
void expect_products(Kernel kernel) {
  if (harness::current_device().major != 10) {
    GTEST_SKIP() << "commit_mma needs tcgen05, which only compute capability 10.x has";
  }
  constexpr int kRounds = 23;
  harness::DeviceBuffer<float> out(kRounds * kWarpSize, "the products");
  out.poison();
  kernel<<<1, kThreads>>>(out.data(), kRounds);
  harness::check(cudaDeviceSynchronize(), "multiply ones");
  const std::vector<float> products = out.to_host();
  for (int i = 0; i < kRounds * kWarpSize; ++i) {
    ASSERT_EQ(products[i], 16.0f * (1 + i / kWarpSize % 5)) << "round " << i / kWarpSize << ", lane " << i % kWarpSize;
  }
}

TEST(CommitMmaTest, SignalsWhenTheMmasOfAWarpAreDone) {
  expect_products(multiply_ones<1, 1, false>);
  expect_products(multiply_ones<2, 1, false>);
  expect_products(multiply_ones<3, 1, false>);
  expect_products(multiply_ones<4, 1, false>);
}

TEST(CommitMmaTest, SignalsWhenTheElectionWasMadeBeforehand) {
  expect_products(multiply_ones<1, 1, true>);
  expect_products(multiply_ones<4, 1, true>);
}

}  // namespace
}  // namespace stagecraft::tests
