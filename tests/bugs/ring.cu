// A ring of two stages: one warp has rows copied into shared memory, two warps add up halves of them. As in chapter 02,
// with two tasks of three rows, so that the parities differ at the start of the second.
#include "gallery.hpp"
#include "operations.hpp"
#include "stagecraft/bulk_copy.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;
using namespace gallery;

constexpr int kStages = 2, kTasks = 2, kRows = 3, kRow = 256;

__global__ void sum_rows(const float* in, float* out) {
  __shared__ alignas(128) float tile[kStages][kRow];
  __shared__ uint64_t full[kStages], empty[kStages];
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      init_barrier(&full[stage], /*arrive_count=*/1);
      init_barrier(&empty[stage], /*arrive_count=*/2 * kWarpSize);
    }
    fence_barrier_init();
  }
  __syncthreads();

  if (warp_index() == 0) {
    if (elect_one()) {
      for (int task = 0; task < kTasks; ++task) {
        for (int row = 0; row < kRows; ++row) {
          const uint32_t step = task * kRows + row, stage = step % kStages, round = step / kStages;
          wait(&empty[stage], (round + 1) % 2);
          expect_bytes(&full[stage], sizeof tile[0]);
          copy_bulk(tile[stage], in + step * kRow, sizeof tile[0], &full[stage]);
        }
      }
    }
  } else {
    const uint32_t reader = threadIdx.x - kWarpSize;
    for (int task = 0; task < kTasks; ++task) {
      for (int row = 0; row < kRows; ++row) {
        const uint32_t step = task * kRows + row, stage = step % kStages, round = step / kStages;
        float sum = 0;
        wait(&full[stage], round % 2);
        for (uint32_t i = reader; i < kRow; i += 2 * kWarpSize) sum += tile[stage][i];
        arrive(&empty[stage]);
        out[(task * kRows + row) * 2 * kWarpSize + reader] = sum;
      }
    }
  }
}

bool run() {
  const auto in = gallery::Array<float>::random(kTasks * kRows * kRow);
  auto out = gallery::Array<float>::poisoned(kTasks * kRows * 2 * kWarpSize);
  sum_rows<<<1, 3 * kWarpSize>>>(in.device(), out.device());
  out.fetch();
  for (size_t i = 0; i < out.size(); ++i) {
    float sum = 0;
    for (size_t j = 0; j < kRow; j += 2 * kWarpSize) sum += in[i / (2 * kWarpSize) * kRow + i % (2 * kWarpSize) + j];
    if (out[i] != sum) return false;
  }
  return true;
}
