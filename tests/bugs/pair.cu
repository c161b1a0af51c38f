// A ring of two stages in both blocks of a cluster: each block has one half of a row copied to both of them.
#include "gallery.hpp"
#include "operations.hpp"
#include "stagecraft/bulk_copy.hpp"
#include "stagecraft/cluster.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;
using namespace gallery;

constexpr int kStages = 2, kRows = 5, kRow = 256, kHalf = kRow / 2;

__global__ void __cluster_dims__(2) share_rows(const float* in, float* out) {
  __shared__ alignas(128) float tile[kStages][kRow];
  __shared__ uint64_t full[kStages], empty[kStages];
  const uint32_t rank = block_rank();
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      init_barrier(&full[stage], /*arrive_count=*/1);
      init_barrier(&empty[stage], /*arrive_count=*/2 * kWarpSize);
    }
    fence_barrier_init();
  }
  sync_cluster();

  if (warp_index() == 0) {
    if (elect_one()) {
      for (uint32_t row = 0; row < kRows; ++row) {
        const uint32_t stage = row % kStages, round = row / kStages;
        wait<Scope::cluster>(&empty[stage], (round + 1) % 2);
        expect_bytes(&full[stage], sizeof tile[0]);
        copy_bulk_to_blocks(&tile[stage][rank * kHalf], in + row * kRow + rank * kHalf, sizeof tile[0] / 2,
                            &full[stage],
                            /*blocks=*/0b11);
      }
    }
  } else {
    for (uint32_t row = 0; row < kRows; ++row) {
      const uint32_t stage = row % kStages, round = row / kStages;
      float sum = 0;
      wait(&full[stage], round % 2);
      for (uint32_t i = lane_index(); i < kRow; i += kWarpSize) sum += tile[stage][i];
      arrive_at_block(&empty[stage], /*rank=*/0);
      arrive_at_block(&empty[stage], /*rank=*/1);
      out[(row * 2 + rank) * kWarpSize + lane_index()] = sum;
    }
  }
  sync_cluster();
}

bool run() {
  const auto in = gallery::Array<float>::random(kRows * kRow);
  auto out = gallery::Array<float>::poisoned(kRows * 2 * kWarpSize);
  share_rows<<<2, 2 * kWarpSize>>>(in.device(), out.device());
  out.fetch();
  for (size_t i = 0; i < out.size(); ++i) {
    float sum = 0;
    for (size_t j = 0; j < kRow; j += kWarpSize) sum += in[i / (2 * kWarpSize) * kRow + i % kWarpSize + j];
    if (out[i] != sum) return false;
  }
  return true;
}
