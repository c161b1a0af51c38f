// Right kernels whose MMAs read what an earlier round has left in shared memory: operands that stay, in slots of a ring
// or beside it, and products that nobody needs. Nothing may be reported about them, with any seed.
//
// There is one kernel, which does what a script says: a thread has tiles copied, round by round, another multiplies
// them. The expected sums follow from the script, too.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "device_arrays.hpp"
#include "stagecraft/mma.hpp"
#include "stagecraft/tensor_map.hpp"
#include "stagecraft/tile_copy.hpp"
#include "stagecraft/warp.hpp"

namespace {

using namespace stagecraft;

constexpr int kM = 128, kN = 16, kK = 16, kSlots = 4, kStages = 2, kSums = 2, kTiles = 8, kRounds = 8, kMost = 6,
              kNone = -1;
using ATile = Tile<__nv_bfloat16, kM, kK, Swizzle::bytes_32>;
using BTile = Tile<__nv_bfloat16, kN, kK, Swizzle::bytes_32>;

struct Copy {
  int a = kNone, b = kNone;  ///< the slot that it fills, of A or of B
  int tile = 0;              ///< of the matrix
};
struct Product {
  int a = kNone, b = kNone;  ///< slots
  int sum = 0;
  bool overwrites = false;
};
struct Round {
  Copy copies[kMost];
  Product products[kMost];
};
struct Script {
  Round rounds[kRounds];
};

__global__ void __launch_bounds__(4 * kWarpSize)
    follow(const __grid_constant__ Script script, const __grid_constant__ TileMap<ATile> a_map,
           const __grid_constant__ TileMap<BTile> b_map, float* out) {
  __shared__ ATile a[kSlots];
  __shared__ BTile b[kSlots];
  __shared__ uint64_t full[kStages], empty[kStages], done;
  __shared__ uint32_t published;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      init_barrier(&full[stage], 1);
      init_barrier(&empty[stage], 1);
    }
    init_barrier(&done, 1);
  }
  const TmemAllocation<kSums * kN> memory{&published};
  if (warp_index() == 1) {
    memory.allocate();
    memory.release_lock();
  }
  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  cuda::ptx::tcgen05_fence_after_thread_sync();
  const auto sum = [&](int index) { return TmemTensor<kM, kN>{memory.address() + index * kN}; };

  if (warp_index() == 0 && elect_one()) {
    for (int round = 0; round < kRounds; ++round) {
      const int stage = round % kStages, phase = round / kStages;
      uint32_t bytes = 0;
      for (const Copy& copy : script.rounds[round].copies) {
        bytes += copy.a != kNone ? ATile::bytes : copy.b != kNone ? BTile::bytes : 0;
      }
      wait(&empty[stage], (phase + 1) % 2);
      if (bytes == 0) arrive(&full[stage]);
      if (bytes != 0) expect_bytes(&full[stage], bytes);
      for (const Copy& copy : script.rounds[round].copies) {
        if (copy.a != kNone) copy_tile(a[copy.a], a_map, copy.tile * kM, 0, &full[stage]);
        if (copy.b != kNone) copy_tile(b[copy.b], b_map, copy.tile * kN, 0, &full[stage]);
      }
    }
  }
  if (warp_index() == 1 && elect_one()) {
    for (int round = 0; round < kRounds; ++round) {
      const int stage = round % kStages, phase = round / kStages;
      wait(&full[stage], phase % 2);
      for (const Product& product : script.rounds[round].products) {
        if (product.a != kNone) multiply_tiles(sum(product.sum), a[product.a], b[product.b], !product.overwrites);
      }
      commit_mma(&empty[stage]);
    }
    commit_mma(&done);
  }
  __syncwarp();
  wait(&done, 0);
  cuda::ptx::tcgen05_fence_after_thread_sync();
  for (int index = 0; index < kSums; ++index) {
    uint32_t words[kN];
    load_tmem(words, sum(index).part_of_warp(warp_index()));
    wait_for_tmem_loads();
    for (int i = 0; i < kN; ++i) out[(index * kM + threadIdx.x) * kN + i] = __uint_as_float(words[i]);
  }
  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  cuda::ptx::tcgen05_fence_after_thread_sync();
  if (warp_index() == 1) memory.deallocate();
}

class UnusualOperandsTest : public DeviceArrays {
 protected:
  Script script{};
  Round& round(int number) { return script.rounds[number]; }

  /// Runs the script, and expects its sums.
  void run() {
    const auto a = integers<__nv_bfloat16>(kTiles * kM * kK), b = integers<__nv_bfloat16>(kTiles * kN * kK);
    float* const out = upload(std::vector<float>(kSums * kM * kN));
    follow<<<1, 4 * kWarpSize>>>(script, make_tile_map<ATile>(upload(a), kTiles * kM, kK),
                                 make_tile_map<BTile>(upload(b), kTiles * kN, kK), out);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    std::array<int, kSlots> a_tiles{}, b_tiles{};
    std::vector<float> expected(kSums * kM * kN);
    for (const Round& each : script.rounds) {
      for (const Copy& copy : each.copies) {
        if (copy.a != kNone) a_tiles[copy.a] = copy.tile;
        if (copy.b != kNone) b_tiles[copy.b] = copy.tile;
      }
      for (const Product& product : each.products) {
        for (int i = 0; product.a != kNone && i < kM * kN; ++i) {
          float& sum = expected[product.sum * kM * kN + i];
          if (product.overwrites) sum = 0;
          for (int k = 0; k < kK; ++k) {
            sum += static_cast<float>(a[(a_tiles[product.a] * kM + i / kN) * kK + k]) *
                   static_cast<float>(b[(b_tiles[product.b] * kN + i % kN) * kK + k]);
          }
        }
      }
    }
    EXPECT_EQ(download(out, expected.size()), expected);
  }
};

TEST_F(UnusualOperandsTest, StayInTheSlotsOfTheRing) {
  for (int i = 0; i < kRounds; ++i) {
    const int slot = i % kStages;
    round(i).copies[0] = {.b = slot, .tile = i};
    if (i < kStages) round(i).copies[1] = {.a = slot, .tile = i};
    round(i).products[0] = {slot, slot, 0, i == 0};
    round(i).products[1] = {slot, slot, 1, true};  // the bytes of both are read again
  }
  run();
}

TEST_F(UnusualOperandsTest, StayBesideTheRingOnItsFirstBarrier) {
  for (int i = 0; i < kRounds; ++i) {
    const int slot = i % kStages;
    round(i).copies[0] = {.b = slot, .tile = i};
    if (i == 0) round(i).copies[1] = {.a = 0, .tile = 3};
    round(i).products[0] = {0, slot, i % kSums, i < kSums};
  }
  run();
}

TEST_F(UnusualOperandsTest, AreCopiedAgainOnlyWhereTheyChange) {
  for (int i = 0; i < kRounds; ++i) {
    const int slot = i % kStages;
    round(i).copies[0] = {.b = slot, .tile = i};
    // In the first stage in three rounds of four, in the other in the first and the last.
    if (slot == 0 ? i != 6 : i == 1 || i == 7) round(i).copies[1] = {.a = slot, .tile = 7 - i};
    round(i).products[0] = {slot, slot, 0, i == 0};
    round(i).products[1] = {slot, slot, 1, i == 0};
  }
  run();
}

TEST_F(UnusualOperandsTest, OfTheProblemThatIsMissingInAPairAreMultipliedForNothing) {
  for (int i = 0; i < kRounds; ++i) {
    for (int problem = 0; problem < 2; ++problem) {
      const int slot = i % kStages * 2 + problem;
      if (problem == 0 || i < 6) {
        round(i).copies[2 * problem] = {.a = slot, .tile = (i + problem) % kTiles};
        round(i).copies[2 * problem + 1] = {.b = slot, .tile = (i + 2 * problem) % kTiles};
      }
      round(i).products[problem] = {slot, slot, problem, i % 2 == 0};  // two tiles along K
    }
  }
  run();
}

TEST_F(UnusualOperandsTest, AreMultipliedEachWithEach) {
  for (int i = 0; i < 3; ++i) {
    round(i).copies[0] = {.a = i, .tile = i};
    round(i).copies[1] = {.b = i, .tile = i + 2};
    for (int other = 0; other <= i; ++other) {
      round(i).products[other] = {i, other, 0, i == 0};
      if (other < i) round(i).products[3 + other] = {other, i, 1, false};
    }
  }
  round(0).products[3] = {0, 0, 1, true};
  run();
}

}  // namespace
