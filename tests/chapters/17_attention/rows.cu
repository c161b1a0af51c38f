#include <cuda_bf16.h>

#include <cuda/ptx>
#include <softmax.cuh>

#include "rows.hpp"
#include "stagecraft/tensor_memory.hpp"
#include "stagecraft/tmem_operand.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

namespace {

template <bool Polynomials>
__global__ void __launch_bounds__(kRows)
    softmax_of_rows(const float* scores, const int* visible, float scale_log2, RowOfBlock* found, float (*ends)[2]) {
  __shared__ uint32_t published;
  const TmemAllocation<64> tensor_memory{&published};
  const uint32_t warp = warp_index();
  const int row = static_cast<int>(threadIdx.x);
  if (warp == 0) {
    tensor_memory.allocate();
    tensor_memory.release_lock();
  }
  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  cuda::ptx::tcgen05_fence_after_thread_sync();
  const TmemOperand<__nv_bfloat16, kRows, kRowKeys> probabilities{tensor_memory.address()};
  RowSoftmax softmax{scale_log2};
  for (int block = 0; block < kRowBlocks; ++block) {
    float values[kRowKeys];
    for (int key = 0; key < kRowKeys; ++key) values[key] = scores[(row * kRowBlocks + block) * kRowKeys + key];
    mask_keys(values, visible[row] - block * kRowKeys);
    RowOfBlock& result = found[row * kRowBlocks + block];
    result.factor = softmax.raise_maximum(values);
    softmax.template put_powers<Polynomials, 0, 96>(values, probabilities, warp, kRowKeys);
    softmax.template put_powers<Polynomials, 96, 32>(values, probabilities, warp, kRowKeys);
    wait_for_tmem_stores();
    for (int key = 0; key < kRowKeys; key += 32) {
      uint32_t cells[16];
      load_tmem(cells, tmem_offset(probabilities.address(), warp * 32, key / 2));
      wait_for_tmem_loads();
      for (int i = 0; i < 16; ++i) {
        result.powers[key + 2 * i] = static_cast<uint16_t>(cells[i]);
        result.powers[key + 2 * i + 1] = static_cast<uint16_t>(cells[i] >> 16);
      }
    }
    __syncwarp();
  }
  ends[row][0] = softmax.inverse_sum();
  ends[row][1] = softmax.logsumexp();
  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  cuda::ptx::tcgen05_fence_after_thread_sync();
  if (warp == 0) tensor_memory.deallocate();
}

}  // namespace

void launch_rows(const float* scores, const int* visible, float scale_log2, bool polynomials, RowOfBlock* found,
                 float (*ends)[2]) {
  const auto kernel = polynomials ? softmax_of_rows<true> : softmax_of_rows<false>;
  kernel<<<1, kRows>>>(scores, visible, scale_log2, found, ends);
}
