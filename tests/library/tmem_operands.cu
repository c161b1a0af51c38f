// Products with A in tensor memory: threads convert what is stored in another type, in registers, and hand it to the
// tensor core without a way through shared memory. By one block and by a pair, with a ring of two stages.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <type_traits>

#include "harness/comparison.hpp"
#include "harness/device.hpp"
#include "harness/reference_product.hpp"
#include "ring_test.hpp"
#include "stagecraft/cluster.hpp"
#include "stagecraft/cluster_copy.hpp"
#include "stagecraft/launch.hpp"
#include "stagecraft/output_tile_pipeline.hpp"
#include "stagecraft/pipeline_state.hpp"
#include "stagecraft/tensor_map.hpp"
#include "stagecraft/tile_scheduler.hpp"
#include "stagecraft/tmem_operand.hpp"
#include "stagecraft/warp.hpp"
#include "stagecraft/warp_contexts.hpp"

namespace stagecraft::tests {
namespace {

constexpr int kStages = 2;
constexpr int kConverters = 4 * kWarpSize;             // warps 0 to 3; afterwards they store D
constexpr int kThreads = kConverters + 2 * kWarpSize;  // warp 4 loads B, warp 5 multiplies

/// What the weights say: the stored value times the scale of its row.
template <typename Element, typename Stored>
__host__ __device__ Element converted(Stored stored, float scale) {
  return static_cast<Element>(static_cast<float>(stored) * scale);
}

/// A product: A is stored as `Stored` and multiplied as `Element`, `Rows` of it by a block.
template <typename StoredType, typename ElementType, int Rows, int N, int K, int CtaGroup>
struct Case {
  using Stored = StoredType;
  using Element = ElementType;
  using Cluster = ClusterShape<CtaGroup, 1, CtaGroup>;
  using A = TmemOperand<Element, Rows, K, CtaGroup>;
  using BTile = Tile<Element, N / CtaGroup, K>;
  using Accumulator = TmemTensor<Rows * CtaGroup, N, CtaGroup>;
  using Output = OutputTilePipeline<Accumulator, 1>;
  static constexpr int m = Rows * CtaGroup, n = N, k = K, cta_group = CtaGroup;
  static constexpr int tmem_columns = Accumulator::tmem_columns + kStages * A::tmem_columns;
  using Allocation = TmemAllocation<(tmem_columns > 256 ? 512 : tmem_columns > 128 ? 256 : 128), CtaGroup>;
};

template <typename C>
__global__ void __launch_bounds__(kThreads, 1)
    multiply_converted(const typename C::Stored* a, const float* scales,
                       const __grid_constant__ TileMap<typename C::BTile> b, float* d, int k_tiles) {
  using Cluster = typename C::Cluster;
  using A = typename C::A;
  using BTile = typename C::BTile;
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  auto* const b_tiles = reinterpret_cast<BTile*>(dynamic_shared_memory);
  __shared__ uint64_t full[kStages], empty[kStages], done[2];
  __shared__ TmemHandshake<C::cta_group> handshake;
  const uint32_t rank = rank_in<Cluster>();
  constexpr Scope kScope = C::cta_group == 1 ? Scope::block : Scope::cluster;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      // Only the leader's is used: the threads that store A in both blocks, and who announces the bytes of B.
      init_barrier(&full[stage], C::cta_group * kConverters + 1);
      init_barrier(&empty[stage], 1);  // a commit
    }
    C::Output::init_barriers(done, kConverters);
    handshake.init(kConverters);
    fence_barrier_init();
  }
  if constexpr (C::cta_group == 1) {
    __syncthreads();
  } else {
    sync_cluster();
  }
  const auto a_of = [](uint32_t address, int stage) {
    return A(tmem_offset(address, 0, C::Accumulator::tmem_columns + stage * A::tmem_columns));
  };

  if (warp_index() == 4) {
    if (elect_one()) {
      PipelineState<kStages> state{/*index=*/0, /*phase=*/1};  // at first, all stages are free
      for (int k_tile = 0; k_tile < k_tiles; ++k_tile, state.step()) {
        wait<kScope>(&empty[state.index()], state.phase());
        if (rank == 0) expect_bytes(&full[state.index()], C::cta_group * sizeof(BTile));
        copy_shared_tile(b_tiles[state.index()], b, static_cast<int>(rank) * BTile::rows, k_tile * C::k,
                         &full[state.index()], TileSharing<C::cta_group, 1>{});
      }
      for (int stage = 0; stage < kStages; ++stage, state.step()) wait<kScope>(&empty[state.index()], state.phase());
    }
  } else if (warp_index() == 5) {
    MmaWarp<typename C::Allocation> tensor_memory{handshake};
    if (rank == 0 && elect_one()) {
      typename C::Output output{done, tensor_memory.address()};
      auto sums = output.producer().accumulate();
      PipelineState<kStages> state{/*index=*/0, /*phase=*/0};
      for (int k_tile = 0; k_tile < k_tiles; ++k_tile, state.step()) {
        wait<kScope>(&full[state.index()], state.phase());
        cuda::ptx::tcgen05_fence_after_thread_sync();  // A was stored by other threads
        multiply_tiles(sums.accumulator(), a_of(tensor_memory.address(), state.index()), b_tiles[state.index()],
                       /*accumulate=*/k_tile > 0);
        if constexpr (C::cta_group == 1) {
          commit_mma(&empty[state.index()]);
        } else {
          commit_mma_to_blocks<2>(&empty[state.index()], Cluster::pair(rank));
        }
      }
    }
  } else {
    EpilogueWarp tensor_memory{handshake};
    const uint32_t warp = warp_index();
    const int row =
        max(0, A::row_of(warp, lane_index()));  // lanes without a row store one, too: no lane goes its own way
    const int row_of_a = static_cast<int>(rank) * A::rows + row;
    PipelineState<kStages> state{/*index=*/0, /*phase=*/1};
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile, state.step()) {
      wait<kScope>(&empty[state.index()], state.phase());
      cuda::ptx::tcgen05_fence_after_thread_sync();  // the MMAs have read what is overwritten now
      constexpr int kAtOnce = 32;
      for (int column = 0; column < C::k; column += kAtOnce) {
        typename C::Element elements[kAtOnce];
        for (int i = 0; i < kAtOnce; ++i) {
          const int64_t at = int64_t{row_of_a} * k_tiles * C::k + k_tile * C::k + column + i;
          elements[i] = converted<typename C::Element>(a[at], scales[row_of_a]);
        }
        a_of(tensor_memory.address(), state.index()).store(elements, warp, column);
      }
      wait_for_tmem_stores();
      cuda::ptx::tcgen05_fence_before_thread_sync();
      if constexpr (C::cta_group == 1) {
        arrive(&full[state.index()]);
      } else {
        arrive_at_block(&full[state.index()], /*rank=*/0);
      }
    }
    typename C::Output output{done, tensor_memory.address()};
    auto sums = output.consumer().consume();
    using Accumulator = typename C::Accumulator;
    const int row_of_d = Accumulator::row_of(warp, lane_index(), rank);
    for (int column = 0; column < Accumulator::tmem_columns; column += 8) {
      float values[8];
      sums.accumulator().load(values, warp, column);
      for (int i = 0; i < 8; ++i) {
        if (row_of_d >= 0) d[row_of_d * C::n + Accumulator::column_of(warp, column) + i] = values[i];
      }
    }
  }
}

template <typename C>
void expect_product(int k_tiles) {
  using Stored = typename C::Stored;
  using Element = typename C::Element;
  const int k = k_tiles * C::k;
  std::vector<Stored> a(size_t{C::m} * k);
  const auto random = harness::random_values<float>(a.size(), 17 * C::n + k);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<Stored>(std::is_integral_v<Stored> ? random[i] * 127 : random[i]);
  }
  const auto scales = harness::random_values<float>(C::m, 19 * C::n + k);
  auto b = harness::random_values<matrix_element<Element>>(size_t{C::n} * k, 23 * C::n + k);
  if constexpr (std::is_same_v<Element, tf32>) {  // values that tf32 has
    for (auto* matrix : {&a, &b}) {
      for (float& value : *matrix) value = static_cast<float>(static_cast<__half>(value));
    }
  }
  const harness::DeviceBuffer<Stored> device_a(a, "A");
  const harness::DeviceBuffer<float> device_scales(
      std::is_same_v<Element, tf32> ? std::vector<float>(C::m, 1.0f) : scales, "the scales of A's rows");
  const harness::DeviceBuffer<matrix_element<Element>> device_b(b, "B");
  harness::DeviceBuffer<float> device_d(size_t{C::m} * C::n, "D");
  device_d.poison();
  harness::check(launch_kernel(multiply_converted<C>,
                               {.grid = C::cta_group,
                                .block = kThreads,
                                .cluster = C::cta_group,
                                .dynamic_shared_bytes = kStages * sizeof(typename C::BTile)},
                               device_a.data(), device_scales.data(),
                               make_tile_map<typename C::BTile>(device_b.data(), C::n, k), device_d.data(), k_tiles),
                 "launch the product");
  harness::check(cudaDeviceSynchronize(), "multiply what was converted");

  std::vector<double> exact_a(a.size()), exact_b(b.size());
  const std::vector<float> used = device_scales.to_host();
  for (size_t i = 0; i < a.size(); ++i) {
    exact_a[i] = static_cast<float>(converted<Element>(a[i], used[i / k]));
  }
  for (size_t i = 0; i < b.size(); ++i) exact_b[i] = static_cast<float>(b[i]);
  const std::vector<double> reference = harness::multiply_by_transposed(exact_a, exact_b, C::m, C::n, k);
  const std::vector<float> d = device_d.to_host();
  const harness::Comparison found = harness::compare<float>(
      d, reference,
      {.k = static_cast<size_t>(k), .output_epsilon = 0x1p-24, .mma_k = static_cast<size_t>(32 / sizeof(Element))});
  EXPECT_EQ(found.wrong, 0u) << "worst at row " << found.worst / C::n << ", column " << found.worst % C::n << ": "
                             << d[found.worst] << " for " << reference[found.worst];
}

class TmemOperandTest : public testing::Test {
 protected:
  void SetUp() override {
    if (harness::current_device().major != 10) GTEST_SKIP() << "only compute capability 10.x has tcgen05";
  }
};

using bf16 = __nv_bfloat16;
using e4m3 = __nv_fp8_e4m3;

TEST_F(TmemOperandTest, IsMultipliedByABlock) {
  for (const int k_tiles : {1, 2, 5}) expect_product<Case<float, bf16, 128, 64, 64, 1>>(k_tiles);
  expect_product<Case<float, __half, 128, 256, 64, 1>>(3);
  expect_product<Case<float, tf32, 128, 32, 32, 1>>(3);
  expect_product<Case<float, e4m3, 128, 48, 128, 1>>(3);
}

TEST_F(TmemOperandTest, IsMultipliedByABlockOf64Rows) {
  expect_product<Case<float, bf16, 64, 8, 64, 1>>(3);
  expect_product<Case<float, e4m3, 64, 128, 128, 1>>(3);
}

TEST_F(TmemOperandTest, IsMultipliedByAPair) {
  for (const int k_tiles : {1, 2, 5}) expect_product<Case<float, bf16, 128, 256, 64, 2>>(k_tiles);
  expect_product<Case<float, tf32, 128, 32, 32, 2>>(3);
}

TEST_F(TmemOperandTest, IsMultipliedByAPairOf64RowsEach) {
  expect_product<Case<float, bf16, 64, 64, 64, 2>>(3);
  expect_product<Case<float, __nv_fp8_e5m2, 64, 128, 128, 2>>(3);
}

/// Weights of 8 bits with a scale for each row, times activations of 16 bits, as CUTLASS's example 86 multiplies them.
TEST_F(TmemOperandTest, HoldsWeightsThatAreConvertedOnTheWay) {
  expect_product<Case<int8_t, bf16, 128, 128, 64, 1>>(4);
  expect_product<Case<e4m3, __half, 128, 64, 64, 1>>(4);
  expect_product<Case<int8_t, bf16, 128, 128, 64, 2>>(4);
  expect_product<Case<e4m3, bf16, 64, 64, 64, 2>>(4);
}

}  // namespace
}  // namespace stagecraft::tests
