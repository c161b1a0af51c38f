// Tiles of a matrix are copied by a tensor map, one after the other, and read by all threads.
#include "gallery.hpp"
#include "operations.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/tensor_map.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;
using namespace gallery;

constexpr int kTiles = 3, kRows = 8, kColumns = 32, kDataRows = 20, kBytes = kRows * kColumns * sizeof(float);

__global__ void sum_columns(const __grid_constant__ CUtensorMap map, float* out) {
  __shared__ alignas(128) float tile[kRows * kColumns + 32];
  __shared__ uint64_t loaded;
  if (threadIdx.x == 0) init_barrier(&loaded, /*arrive_count=*/1);
  __syncthreads();
  for (int i = 0; i < kTiles; ++i) {
    if (threadIdx.x == 0) {
      const int at[2] = {0, i * kRows};
      expect_bytes(&loaded, kBytes);
      cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global, tile, &map, at, &loaded);
    }
    wait(&loaded, i % 2);
    float sum = 0;
    for (int row = threadIdx.x / kColumns; row < kRows; row += 2) sum += tile[row * kColumns + threadIdx.x % kColumns];
    __syncthreads();
    out[i * 2 * kColumns + threadIdx.x] = sum;
  }
}

bool run() {
  const auto in = Array<float>::random((kDataRows + 1) * kColumns);
  auto out = Array<float>::poisoned(kTiles * 2 * kColumns);
  const CUtensorMap map = make_matrix_map(in.device(), kDataRows, kColumns, kRows, kColumns, Swizzle::none);
  sum_columns<<<1, 2 * kColumns>>>(map, out.device());
  out.fetch();
  for (size_t i = 0; i < out.size(); ++i) {
    float sum = 0;
    for (size_t row = i / (2 * kColumns) * kRows + i / kColumns % 2, j = 0; j < kRows; j += 2, row += 2) {
      if (row < kDataRows) sum += in[row * kColumns + i % kColumns];
    }
    if (out[i] != sum) return false;
  }
  return true;
}
