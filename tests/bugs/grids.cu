// Two grids, of which the second may start before the first has ended. It has rows of the first one's results copied
// into shared memory, adds them up, and its last block adds up the sums of all.
#include "gallery.hpp"
#include "stagecraft/bulk_copy.hpp"
#include "stagecraft/dependent_launch.hpp"
#include "stagecraft/launch.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

constexpr int kBlocks = 4, kRow = 128;

__global__ void double_rows(const float* in, float* doubled) {
  let_next_grid_start();
  doubled[blockIdx.x * kRow + threadIdx.x] = 2 * in[blockIdx.x * kRow + threadIdx.x];
}

__global__ void sum_rows(const float* doubled, float* sums, unsigned* done, float* total) {
  __shared__ alignas(16) float row[kRow];
  __shared__ uint64_t loaded;
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    init_barrier(&loaded, /*arrive_count=*/1);
    wait_for_earlier_grids();
    cuda::ptx::fence_proxy_async(cuda::ptx::space_global);
    expect_bytes(&loaded, sizeof row);
    copy_bulk(row, doubled + blockIdx.x * kRow, sizeof row, &loaded);
  }
  __syncthreads();
  wait(&loaded, /*parity=*/0);
  if (threadIdx.x == 0) {
    float sum = 0;
    for (const float value : row) sum += value;
    sums[blockIdx.x] = sum;
    __threadfence();
    is_last = atomicAdd(done, 1) == kBlocks - 1;
    __threadfence();
  }
  __syncthreads();
  if (is_last && threadIdx.x == 0) {
    float sum = 0;
    for (int i = 0; i < kBlocks; ++i) sum += sums[i];
    *total = sum;
  }
}

bool run() {
  const auto in = gallery::Array<float>::random(kBlocks * kRow);
  auto doubled = gallery::Array<float>::poisoned(kBlocks * kRow), sums = gallery::Array<float>::poisoned(kBlocks);
  auto total = gallery::Array<float>::poisoned(1);
  auto done = gallery::Array<unsigned>::poisoned(1);
  gallery::must(cudaMemset(done.device(), 0, sizeof(unsigned)), "cudaMemset");
  double_rows<<<kBlocks, kRow>>>(in.device(), doubled.device());
  gallery::must(launch_kernel(sum_rows, {.grid = kBlocks, .block = kRow, .programmatic_dependent_launch = true},
                              doubled.device(), sums.device(), done.device(), total.device()),
                "launch");
  total.fetch();
  float sum = 0;
  for (size_t i = 0; i < in.size(); ++i) sum += 2 * in[i];
  return total[0] == sum;
}
