// One warp copies a tile of each of several matrices by one tensor map in global memory, which it changes for each.
#include "gallery.hpp"
#include "operations.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/tensor_map.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;
using namespace gallery;

constexpr int kMatrices = 3, kRows = 16, kColumns = 32, kElements = kRows * kColumns,
              kBytes = kElements * sizeof(float);

__global__ void double_matrices(const __grid_constant__ CUtensorMap first, const float* in, CUtensorMap* maps,
                                float* out) {
  __shared__ alignas(128) float tile[kMatrices][kElements];
  __shared__ alignas(128) CUtensorMap own;
  __shared__ uint64_t loaded[kMatrices];
  if (threadIdx.x == 0) {
    for (uint64_t& barrier : loaded) init_barrier(&barrier, /*arrive_count=*/1);
    own = first;
  }
  __syncthreads();
  for (int i = 0; warp_index() == 0 && i < kMatrices; ++i) {
    if (i > 0) wait(&loaded[i - 1], /*parity=*/0);
    if (threadIdx.x == 0) {
      cuda::ptx::tensormap_replace_global_address(cuda::ptx::space_shared, &own, in + i * kElements);
    }
    __syncwarp();
    publish_map(&maps[0], &own);
    if (threadIdx.x == 0) {
      const int at[2] = {0, 0};
      acquire_map(&maps[0]);
      expect_bytes(&loaded[i], kBytes);
      cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global, tile[i], &maps[0], at,
                                      &loaded[i]);
    }
    __syncwarp();
  }
  for (int i = 0; i < kMatrices; ++i) {
    wait(&loaded[i], /*parity=*/0);
    for (int at = threadIdx.x; at < kElements; at += blockDim.x) out[i * kElements + at] = 2 * tile[i][at];
  }
}

bool run() {
  const auto in = Array<float>::random(kMatrices * kElements);
  auto out = Array<float>::poisoned(kMatrices * kElements);
  const auto maps = Array<uint64_t>::random(2 * sizeof(CUtensorMap) / sizeof(uint64_t));
  const CUtensorMap first = make_matrix_map(in.device(), kRows, kColumns, kRows, kColumns, Swizzle::none);
  double_matrices<<<1, 64>>>(first, in.device(), reinterpret_cast<CUtensorMap*>(maps.device()), out.device());
  out.fetch();
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] != 2 * in[i]) return false;
  }
  return true;
}
