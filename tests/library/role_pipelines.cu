// Rows through a ring by RolePipeline, whole and in halves.
#include <concepts>

#include "ring_test.hpp"
#include "stagecraft/role_pipeline.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft::tests {
namespace {

template <int Stages>
__global__ void __launch_bounds__(kThreads) send_rows(const uint32_t* in, uint32_t* out, int count) {
  __shared__ uint32_t tile[Stages][kRow];
  __shared__ uint64_t full[Stages], empty[Stages];
  RolePipeline<Stages, /*IsProducer=*/true> producer{full, empty};
  RolePipeline<Stages, /*IsProducer=*/false> consumer{full, empty};
  if (threadIdx.x == 0) {
    producer.init_mbars(kWarpSize, kWarpSize);
    fence_barrier_init();
  }
  __syncthreads();
  if (warp_index() == 0) {
    for (int row = 0; row < count; ++row) {
      producer.acquire();
      for (uint32_t i = lane_index(); i < kRow; i += kWarpSize) tile[producer.index()][i] = in[row * kRow + i];
      producer.commit();
    }
  } else {
    for (int row = 0; row < count; ++row) {
      consumer.wait(/*hint=*/row % 2 == 0 ? 0 : 500);
      for (uint32_t i = lane_index(); i < kRow; i += kWarpSize) {
        out[row * kRow + (i ^ 1)] = tile[consumer.state().index()][i ^ 1] + row;
      }
      consumer.release();
    }
  }
}

/// Each half of a stage has its own full and empty barrier: the producer fills, and the consumer frees, one by one.
template <int Stages>
__global__ void __launch_bounds__(kThreads) send_halves(const uint32_t* in, uint32_t* out, int count) {
  static_assert(kRow == 2 * kWarpSize);
  __shared__ uint32_t tile[Stages][2][kWarpSize];
  __shared__ uint64_t full[2 * Stages], empty[2 * Stages];
  RolePipeline<Stages, true, 2, 2> producer{full, empty};
  RolePipeline<Stages, false, 2, 2> consumer{full, empty};
  const uint32_t lane = lane_index();
  if (threadIdx.x == 0) {
    producer.init_mbars(kWarpSize, kWarpSize);
    fence_barrier_init();
  }
  __syncthreads();
  if (warp_index() == 0) {
    for (int row = 0; row < count; ++row) {
      producer.acquire();
      tile[producer.index()][0][lane] = in[row * kRow + lane];
      arrive(producer.producer_mbar());
      producer.template acquire<1>();
      tile[producer.index()][1][lane] = in[row * kRow + kWarpSize + lane];
      arrive(producer.template producer_mbar<1>());
      producer.step();
    }
  } else {
    for (int row = 0; row < count; ++row) {
      const uint32_t other = lane ^ 5;
      consumer.wait();
      out[row * kRow + other] = tile[consumer.index()][0][other] + row;
      consumer.release_no_step();
      consumer.template wait<1>();
      out[row * kRow + kWarpSize + other] = tile[consumer.index()][1][other] + row;
      consumer.template release<1>();
    }
  }
}

TEST(RolePipelineTest, SendsRowsThroughRingsOfOneToFourStages) {
  expect_rows_arrive(send_rows<1>);
  expect_rows_arrive(send_rows<2>);
  expect_rows_arrive(send_rows<3>);
  expect_rows_arrive(send_rows<4>);
}

TEST(RolePipelineTest, SendsHalvesThroughRingsOfOneToFourStages) {
  expect_rows_arrive(send_halves<1>);
  expect_rows_arrive(send_halves<2>);
  expect_rows_arrive(send_halves<3>);
  expect_rows_arrive(send_halves<4>);
}

/// The producer refills the first half of a ring of one stage while the consumer still holds the second.
__global__ void __launch_bounds__(kThreads) refill_half(int* filled_early) {
  __shared__ uint64_t full[1], empty[2];
  if (threadIdx.x == 0) {
    RolePipeline<1, true, 1, 2>{full, empty}.init_mbars(1, 1);
    fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    RolePipeline<1, true, 1, 2> producer{full, empty};
    producer.acquire<0>();
    producer.acquire<1>();
    producer.commit();
    producer.acquire<0>();
    *filled_early = test_wait(producer.consumer_mbar<1>(), producer.state().phase()) ? 0 : 1;
    const auto refilled = producer;
    producer.commit();
    refilled.acquire<1>();  // the second half of this round, not of the next
  } else if (threadIdx.x == kWarpSize) {
    RolePipeline<1, false, 1, 2> consumer{full, empty};
    consumer.wait();
    consumer.release_no_step<0>();
    consumer.step();
    consumer.wait();  // the refill, which did not need the second half
    arrive(consumer.consumer_mbar<1>());
  }
}

TEST(RolePipelineTest, FreesHalfAStageEarly) {
  harness::DeviceBuffer<int> filled_early(1, "the answer");
  filled_early.poison();
  refill_half<<<1, kThreads>>>(filled_early.data());
  harness::check(cudaDeviceSynchronize(), "refill half a stage");
  EXPECT_EQ(filled_early.to_host()[0], 1);
}

/// Where the barriers of each stage are, in words from the first.
__global__ void find_barriers(int* offsets) {
  __shared__ uint64_t barriers[16];
  RolePipeline<2, true, 3, 2> producer{barriers, barriers + 6};
  for (int i = 0; i < 3; ++i) {
    *offsets++ = static_cast<int>(producer.producer_mbar() - barriers);
    *offsets++ = static_cast<int>(producer.producer_mbar<2>() - barriers);
    *offsets++ = static_cast<int>(producer.consumer_mbar() - barriers);
    *offsets++ = static_cast<int>(producer.consumer_mbar<1>() - barriers);
    *offsets++ = static_cast<int>(producer.state().phase());
    producer.step();
  }
  RolePipeline<2, false, 3, 2> consumer{barriers, barriers + 6};
  *offsets++ = static_cast<int>(consumer.state().phase());
}

TEST(RolePipelineTest, LaysTheSubStagesOfAStageSideBySide) {
  harness::DeviceBuffer<int> offsets(16, "the offsets");
  find_barriers<<<1, 1>>>(offsets.data());
  harness::check(cudaDeviceSynchronize(), "find the barriers");
  EXPECT_EQ(offsets.to_host(), (std::vector<int>{0, 2, 6, 7, 1,  // stage 0, the producer's first round
                                                 3, 5, 8, 9, 1,  // stage 1
                                                 0, 2, 6, 7, 0,  // stage 0, second round
                                                 0}));           // the consumer's first round
  static_assert(RolePipeline<2, true, 3, 2>::num_stages == 2);
  static_assert(RolePipeline<2, true, 3, 2>::num_producer_mbars == 6);
  static_assert(RolePipeline<2, true, 3, 2>::num_consumer_mbars == 4);
  using Ring = RolePipeline<3, true, 2, 4>;
  static_assert(Ring::num_producer_mbars + Ring::num_consumer_mbars == 18);  // lesson 06, question 2
}

template <typename Ring>
concept can_produce = requires(Ring ring) {
  ring.acquire();
  ring.commit();
  ring.commit_mma();
  ring.commit_mma(1);
};
template <typename Ring>
concept can_consume = requires(Ring ring) {
  ring.wait();
  ring.release();
  ring.release_no_step();
};
template <typename Ring>
concept can_mix_up = requires(Ring ring) {
  ring.acquire();
}
|| requires(Ring ring) { ring.commit(); }
|| requires(Ring ring) { ring.commit_mma(); };

TEST(RolePipelineTest, HasOnlyTheMethodsOfItsRole) {
  static_assert(can_produce<RolePipeline<2, true>> && !can_consume<RolePipeline<2, true>>);
  static_assert(can_consume<RolePipeline<2, false>> && !can_mix_up<RolePipeline<2, false>>);
}

}  // namespace
}  // namespace stagecraft::tests
