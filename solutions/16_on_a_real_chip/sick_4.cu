// Chapter 16, the fourth kernel: threads write a piece of a table to shared memory, and TMA stores it while they write
// the next.
#include <cuda/ptx>

#include "stagecraft/warp.hpp"
#include "ward.hpp"

using namespace stagecraft;
namespace cptx = cuda::ptx;

namespace {

constexpr int kPieces = 2, kThreads = 256;

__global__ void __launch_bounds__(kThreads) fill(unsigned* table, int pieces) {
  __shared__ alignas(128) unsigned piece[kPieces][kPiece];
  int turn = 0;
  for (int number = blockIdx.x; number < pieces; number += gridDim.x, ++turn) {
    unsigned* const to = piece[turn % kPieces];
    if (threadIdx.x == 0) cptx::cp_async_bulk_wait_group_read(cptx::n32_t<kPieces - 1>());
    __syncthreads();
    for (int i = threadIdx.x; i < kPiece; i += kThreads) to[i] = noise(number * kPiece + i);
    cptx::fence_proxy_async(cptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
      cptx::cp_async_bulk(cptx::space_global, cptx::space_shared, table + static_cast<size_t>(number) * kPiece, to,
                          sizeof piece[0]);
      cptx::cp_async_bulk_commit_group();
    }
  }
  if (threadIdx.x == 0) cptx::cp_async_bulk_wait_group(cptx::n32_t<0>());
}

}  // namespace

void launch_noise(unsigned* table, int pieces, int blocks) { fill<<<blocks, kThreads>>>(table, pieces); }
