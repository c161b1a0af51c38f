// Rows through a ring by every method of ProducerConsumerPipeline, its handles and its scopes.
#include <array>
#include <concepts>
#include <cuda/ptx>
#include <utility>

#include "ring_test.hpp"
#include "stagecraft/producer_consumer_pipeline.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft::tests {
namespace {

/// What is sent: the producer's warp puts a row of `in` into a stage, the consumer's warp copies it to `out`.
struct Rows {
  const uint32_t* in;
  uint32_t* out;
  uint32_t (*tile)[kRow];

  __device__ void put(int row, uint32_t stage) const {
    for (uint32_t i = lane_index(); i < kRow; i += kWarpSize) tile[stage][i] = in[row * kRow + i];
  }
  __device__ void copy(int row, uint32_t stage, MbarPtr mbar) const {
    const uint32_t bytes = kRow * sizeof(uint32_t);
    expect_bytes(mbar, bytes);
    cuda::ptx::cp_async_bulk(cuda::ptx::space_shared, cuda::ptx::space_global, tile[stage], in + row * kRow, bytes,
                             mbar);
  }
  /// Each lane reads what another has written, so that only the barrier makes it visible.
  __device__ void take(int row, uint32_t stage) const {
    for (uint32_t i = lane_index(); i < kRow; i += kWarpSize) {
      const uint32_t other = kRow - 1 - i;
      out[row * kRow + other] = tile[stage][other] + row;
    }
  }
};

// ---- The methods ----------------------------------------------------------------------------------------------------

struct WarpsArrive {
  static constexpr int producer_arrivals = kWarpSize;
  static constexpr int consumer_arrivals = kWarpSize;
};

/// Waits, barriers and steps, one by one.
struct Direct : WarpsArrive {
  template <int N>
  static __device__ void produce(ProducerConsumerPipeline<N> ring, Rows rows, int count) {
    for (int row = 0; row < count; ++row) {
      ring.wait_consumer();
      rows.put(row, ring.producer_stage());
      arrive(ring.producer_mbar(ring.producer_stage()));
      ring.producer_step();
    }
  }
  template <int N>
  static __device__ void consume(ProducerConsumerPipeline<N> ring, Rows rows, int count) {
    for (int row = 0; row < count; ++row) {
      ring.wait_producer();
      rows.take(row, ring.consumer_stage());
      arrive(ring.consumer_mbar(ring.consumer_stage()));
      ring.consumer_step();
    }
  }
};

/// Waits that may suspend a thread for up to a microsecond at a time.
struct WithHints : WarpsArrive {
  template <int N>
  static __device__ void produce(ProducerConsumerPipeline<N> ring, Rows rows, int count) {
    for (int row = 0; row < count; ++row) {
      auto stage = ring.acquire_producer(/*hint=*/1000);
      rows.put(row, stage.index());
      arrive(stage.mbar());
      std::move(stage).release();
    }
  }
  template <int N>
  static __device__ void consume(ProducerConsumerPipeline<N> ring, Rows rows, int count) {
    for (int row = 0; row < count; ++row) {
      ring.wait_producer(/*hint=*/1000);
      auto stage = ring.consume(/*hint=*/1);
      rows.take(row, stage.index());
    }
  }
};

/// Asks first, and waits only where the answer was no.
struct TryThenWait : WarpsArrive {
  template <int N>
  static __device__ void produce(ProducerConsumerPipeline<N> ring, Rows rows, int count) {
    for (int row = 0; row < count; ++row) {
      const bool is_free = ring.try_wait_consumer();
      ring.wait_consumer_if_needed(is_free);
      rows.put(row, ring.producer_stage());
      arrive(ring.producer_mbar(ring.producer_stage()));
      ring.producer_step();
    }
  }
  template <int N>
  static __device__ void consume(ProducerConsumerPipeline<N> ring, Rows rows, int count) {
    bool is_filled = ring.try_wait_producer();
    for (int row = 0; row < count; ++row) {
      ring.wait_producer_if_needed(is_filled);
      const uint32_t stage = ring.consumer_stage();
      ring.consumer_step();
      is_filled = row + 1 < count && ring.try_wait_producer();  // the next stage may fill while this one is read
      rows.take(row, stage);
      arrive(ring.consumer_mbar(stage));
    }
  }
};

/// Linear handles.
struct Handles : WarpsArrive {
  template <int N>
  static __device__ void produce(ProducerConsumerPipeline<N> ring, Rows rows, int count) {
    for (int row = 0; row < count; ++row) {
      auto stage = ring.acquire_producer();
      rows.put(row, stage.index());
      arrive(stage.mbar());
      std::move(stage).release();
    }
  }
  template <int N>
  static __device__ void consume(ProducerConsumerPipeline<N> ring, Rows rows, int count) {
    for (int row = 0; row < count; ++row) {
      auto stage = ring.acquire_consumer();
      rows.take(row, stage.index());
      std::move(stage).release();
    }
  }
};

/// Linear handles that wander: through functions, into lambdas, from one variable to another.
struct MovedHandles : WarpsArrive {
  template <int N>
  static __device__ ProducerStage<N> filled(ProducerStage<N> stage, Rows rows, int row) {
    rows.put(row, stage.index());
    return stage;
  }
  template <int N>
  static __device__ void finish(ProducerStage<N>&& stage) {
    arrive(stage.mbar());
    std::move(stage).release();
  }
  template <int N>
  static __device__ void produce(ProducerConsumerPipeline<N> ring, Rows rows, int count) {
    for (int row = 0; row < count; ++row) finish(filled(ring.acquire_producer(), rows, row));
  }
  template <int N>
  static __device__ void consume(ProducerConsumerPipeline<N> ring, Rows rows, int count) {
    auto stage = ring.acquire_consumer();
    for (int row = 0; row < count; ++row) {
      auto take_and_release = [stage = std::move(stage), rows, row]() mutable {
        rows.take(row, stage.index());
        std::move(stage).release();
      };
      take_and_release();
      if (row + 1 == count) return;
      stage = ring.acquire_consumer();  // a moved-from handle may hold a new stage
    }
    std::move(stage).release_without_signal();
  }
};

/// One lane arrives for its warp, and the exit does not.
struct LaneArrives {
  static constexpr int producer_arrivals = 1;
  static constexpr int consumer_arrivals = 1;
  template <int N>
  static __device__ void produce(ProducerConsumerPipeline<N> ring, Rows rows, int count) {
    for (int row = 0; row < count; ++row) {
      auto stage = ring.acquire_producer();
      rows.put(row, stage.index());
      __syncwarp();
      if (lane_index() == 0) arrive(stage.mbar());
      std::move(stage).release();
    }
  }
  template <int N>
  static __device__ void consume(ProducerConsumerPipeline<N> ring, Rows rows, int count) {
    for (int row = 0; row < count; ++row) {
      auto stage = ring.acquire_consumer();
      rows.take(row, stage.index());
      __syncwarp();
      if (lane_index() == 0) stage.arrive();
      std::move(stage).release_without_signal();
    }
  }
};

/// One lane copies, TMA fills the stage.
struct BulkCopies {
  static constexpr int producer_arrivals = 1;
  static constexpr int consumer_arrivals = kWarpSize;
  template <int N>
  static __device__ void produce(ProducerConsumerPipeline<N> ring, Rows rows, int count) {
    if (!elect_one()) return;
    for (int row = 0; row < count; ++row) {
      auto stage = ring.acquire_producer();
      rows.copy(row, stage.index(), stage.mbar());
      std::move(stage).release();
    }
  }
  template <int N>
  static __device__ void consume(ProducerConsumerPipeline<N> ring, Rows rows, int count) {
    Handles::consume(ring, rows, count);
  }
};

/// Scope objects.
struct Scopes : WarpsArrive {
  template <int N>
  static __device__ void produce(ProducerConsumerPipeline<N> ring, Rows rows, int count) {
    for (int row = 0; row < count; ++row) {
      auto stage = ring.produce();
      rows.put(row, stage.index());
      arrive(stage.mbar());
    }
  }
  template <int N>
  static __device__ void consume(ProducerConsumerPipeline<N> ring, Rows rows, int count) {
    for (int row = 0;; ++row) {
      auto stage = ring.consume();
      rows.take(row, stage.index());
      if (row % 3 == 1 && row + 1 < count) continue;  // the scope ends here as well
      if (row + 1 == count) break;
    }
  }
};

/// Scopes around a call, which may return something.
struct CallableScopes : WarpsArrive {
  template <int N>
  static __device__ void produce(ProducerConsumerPipeline<N> ring, Rows rows, int count) {
    for (int row = 0; row < count;) {
      row = ring.produce([&](auto& stage) {
        rows.put(row, stage.index());
        arrive(stage.mbar());
        return row + 1;
      });
    }
  }
  template <int N>
  static __device__ void consume(ProducerConsumerPipeline<N> ring, Rows rows, int count) {
    for (int row = 0; row < count; ++row) {
      ring.consume([&](ConsumeContext<N>& stage) { rows.take(row, stage.index()); });
    }
  }
};

/// Scopes in which one lane arrives for its warp, as objects and as calls.
struct ExplicitScopes {
  static constexpr int producer_arrivals = kWarpSize;
  static constexpr int consumer_arrivals = 1;
  template <int N>
  static __device__ void produce(ProducerConsumerPipeline<N> ring, Rows rows, int count) {
    Scopes::produce(ring, rows, count);
  }
  template <int N>
  static __device__ void consume(ProducerConsumerPipeline<N> ring, Rows rows, int count) {
    for (int row = 0; row < count; ++row) {
      if (row % 2 == 0) {
        auto stage = ring.consume_explicit();
        rows.take(row, stage.index());
        __syncwarp();
        if (lane_index() == 0) stage.arrive();
      } else {
        ring.consume_explicit([&](auto& stage) {
          rows.take(row, stage.index());
          __syncwarp();
          if (lane_index() == 0) arrive(stage.mbar());
        });
      }
    }
  }
};

template <typename Method, int Stages>
__global__ void __launch_bounds__(kThreads) send_rows(const uint32_t* in, uint32_t* out, int count) {
  __shared__ alignas(128) uint32_t tile[Stages][kRow];
  __shared__ uint64_t barriers[2 * Stages];
  ProducerConsumerPipeline<Stages> ring{barriers};
  if (threadIdx.x == 0) {
    ring.init_mbars(Method::producer_arrivals, Method::consumer_arrivals);
    fence_barrier_init();
  }
  __syncthreads();
  const Rows rows{in, out, tile};
  if (warp_index() == 0) {
    Method::produce(ring, rows, count);
  } else {
    Method::consume(ring, rows, count);
  }
}

template <typename Method>
class PipelineRowsTest : public testing::Test {};
using Methods = testing::Types<Direct, WithHints, TryThenWait, Handles, MovedHandles, LaneArrives, BulkCopies, Scopes,
                               CallableScopes, ExplicitScopes>;
TYPED_TEST_SUITE(PipelineRowsTest, Methods);

TYPED_TEST(PipelineRowsTest, ArriveInARingOfOneStage) { expect_rows_arrive(send_rows<TypeParam, 1>); }
TYPED_TEST(PipelineRowsTest, ArriveInARingOfTwoStages) { expect_rows_arrive(send_rows<TypeParam, 2>); }
TYPED_TEST(PipelineRowsTest, ArriveInARingOfThreeStages) { expect_rows_arrive(send_rows<TypeParam, 3>); }
TYPED_TEST(PipelineRowsTest, ArriveInARingOfFourStages) { expect_rows_arrive(send_rows<TypeParam, 4>); }
TYPED_TEST(PipelineRowsTest, ArriveWhenThereAreFewerThanStages) { expect_rows_arrive(send_rows<TypeParam, 4>, 2); }

// ---- What single methods say and do ---------------------------------------------------------------------------------

/// What one thread sees that plays both roles.
struct Observation {
  uint32_t producer_stage, consumer_stage;
  bool was_free, was_filled, is_filled, is_free_again;
  int64_t full_offset, empty_offset;  ///< bytes from the first barrier
};

template <int Stages>
__global__ void observe(Observation* seen, int count) {
  __shared__ uint64_t barriers[2 * Stages];
  ProducerConsumerPipeline<Stages> ring{barriers};
  ring.init_mbars(1, 1);
  fence_barrier_init();
  for (int i = 0; i < count; ++i) {
    Observation& o = seen[i];
    o.producer_stage = ring.producer_stage();
    o.consumer_stage = ring.consumer_stage();
    o.full_offset = (ring.producer_mbar(ring.producer_stage()) - barriers) * 8;
    o.empty_offset = (ring.consumer_mbar(ring.consumer_stage()) - barriers) * 8;
    o.was_free = ring.try_wait_consumer();
    o.was_filled = ring.try_wait_producer();
    {
      auto stage = ring.produce();
      arrive(stage.mbar());
    }
    o.is_filled = ring.try_wait_producer();
    { auto stage = ring.consume(); }
    // The stage that follows Stages later is this one: with one stage, it must be free again.
    o.is_free_again = ring.try_wait_consumer();
  }
}

template <int Stages>
void expect_a_ring() {
  constexpr int kCount = 3 * Stages + 1;
  harness::DeviceBuffer<Observation> buffer(kCount, "what was seen");
  observe<Stages><<<1, 1>>>(buffer.data(), kCount);
  harness::check(cudaDeviceSynchronize(), "observe a ring");
  const auto seen = buffer.to_host();
  for (int i = 0; i < kCount; ++i) {
    SCOPED_TRACE("step " + std::to_string(i));
    const uint32_t stage = static_cast<uint32_t>(i % Stages);
    EXPECT_EQ(seen[i].producer_stage, stage);
    EXPECT_EQ(seen[i].consumer_stage, stage);
    EXPECT_EQ(seen[i].full_offset, 8 * stage);
    EXPECT_EQ(seen[i].empty_offset, 8 * (Stages + stage));
    EXPECT_TRUE(seen[i].was_free);
    EXPECT_FALSE(seen[i].was_filled);
    EXPECT_TRUE(seen[i].is_filled);
    EXPECT_TRUE(seen[i].is_free_again);
  }
}

TEST(PipelineTest, StepsThroughTheStagesAndFlipsThePhaseAtTheWrap) {
  expect_a_ring<1>();
  expect_a_ring<2>();
  expect_a_ring<3>();
  expect_a_ring<4>();
}

template <int Stages>
__global__ void produce_alone(uint32_t* passed, bool* next_is_free) {
  __shared__ uint64_t barriers[2 * Stages];
  ProducerConsumerPipeline<Stages> ring{barriers};
  ring.init_mbars(1, 1);
  fence_barrier_init();
  for (int i = 0; i < Stages; ++i) {
    ring.producer_signal_and_step();
    *passed = i + 1;
  }
  *next_is_free = ring.try_wait_consumer();
}

TEST(PipelineTest, ProducerPassesTheFirstRoundWithoutWaitingAndNoFurther) {
  harness::DeviceBuffer<uint32_t> passed(1, "the count");
  harness::DeviceBuffer<bool> next_is_free(1, "the answer");
  produce_alone<3><<<1, 1>>>(passed.data(), next_is_free.data());
  harness::check(cudaDeviceSynchronize(), "produce alone");
  EXPECT_EQ(passed.to_host()[0], 3u);
  bool is_free = true;
  harness::check(cudaMemcpy(&is_free, next_is_free.data(), 1, cudaMemcpyDeviceToHost), "read the answer");
  EXPECT_FALSE(is_free);
}

/// A fast warp counts ahead of a slow one, held back by a ring that carries nothing.
template <int Stages>
__global__ void throttle(int* largest_lead, int count) {
  __shared__ uint64_t barriers[2 * Stages];
  __shared__ int produced;
  ProducerConsumerPipeline<Stages> ring{barriers};
  if (threadIdx.x == 0) {
    produced = 0;
    ring.init_mbars(kWarpSize, kWarpSize);
    fence_barrier_init();
  }
  __syncthreads();
  if (warp_index() == 0) {
    for (int i = 0; i < count; ++i) {
      ring.producer_signal_and_step();
      if (lane_index() == 0) atomicAdd(&produced, 1);
      __syncwarp();
    }
  } else {
    int lead = 0;
    for (int consumed = 0; consumed < count; ++consumed) {
      for (int delay = 0; delay < 300; ++delay) {  // time enough for the fast one to run ahead, if it could
        const int now = atomicAdd(&produced, 0) - consumed;
        lead = now > lead ? now : lead;
      }
      __syncwarp();
      ring.consumer_signal_and_step();
    }
    if (lane_index() == 0) *largest_lead = lead;
  }
}

template <int Stages>
int largest_lead() {
  harness::DeviceBuffer<int> lead(1, "the lead");
  throttle<Stages><<<1, kThreads>>>(lead.data(), 25);
  harness::check(cudaDeviceSynchronize(), "throttle one warp by another");
  return lead.to_host()[0];
}

TEST(PipelineTest, SignalAndStepLetsTheProducerRunAheadByTheDepthOfTheRingAndNoFurther) {
  EXPECT_EQ(largest_lead<1>(), 1);
  EXPECT_EQ(largest_lead<2>(), 2);
  EXPECT_EQ(largest_lead<4>(), 4);
}

TEST(PipelineTest, NeedsTwoBarriersForEachStage) {
  static_assert(ProducerConsumerPipeline<1>::smem_bytes() == 16);
  static_assert(ProducerConsumerPipeline<4>::smem_bytes() == 64);
  static_assert(ProducerConsumerPipeline<4>::num_stages == 4);
}

TEST(PipelineStateTest, StepsThroughTheStagesAndTurnsThePhase) {
  constexpr auto positions = [] {
    std::array<std::pair<uint32_t, uint32_t>, 7> seen{};
    PipelineState<3> state{/*index=*/0, /*phase=*/1};
    for (auto& position : seen) {
      position = {state.index(), state.phase()};
      state.step();
    }
    return seen;
  }();
  static_assert(positions[0] == std::pair{0u, 1u} && positions[2] == std::pair{2u, 1u});
  static_assert(positions[3] == std::pair{0u, 0u} && positions[5] == std::pair{2u, 0u});
  static_assert(positions[6] == std::pair{0u, 1u});
}

template <typename T>
concept copies = std::copy_constructible<T> || std::is_copy_assignable_v<T>;
template <typename T>
concept moves = std::is_move_constructible_v<T>;

TEST(StageHandleTest, MovesAndDoesNotCopy) {
  static_assert(moves<ProducerStage<2>> && !copies<ProducerStage<2>>);
  static_assert(moves<ConsumerStage<2>> && !copies<ConsumerStage<2>>);
}

TEST(ScopeTest, NeitherMovesNorCopies) {
  static_assert(!moves<ProduceContext<2>> && !copies<ProduceContext<2>>);
  static_assert(!moves<ConsumeContext<2>> && !copies<ConsumeContext<2>>);
  static_assert(!moves<ExplicitConsumeContext<2>> && !copies<ExplicitConsumeContext<2>>);
}

}  // namespace
}  // namespace stagecraft::tests
