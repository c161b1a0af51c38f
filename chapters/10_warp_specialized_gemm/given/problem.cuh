// The problem and its tiles: what the four kernels of this chapter share. Who waits for whom is not here.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cuda/ptx>

#include "gemm.hpp"
#include "stagecraft/mma.hpp"
#include "stagecraft/tensor_memory.hpp"
#include "stagecraft/tile.hpp"
#include "stagecraft/tile_copy.hpp"
#include "stagecraft/tile_payload.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft {

//! [sizes]
/// The tile of C that a block computes at a time.
inline constexpr int kTileM = 128;
inline constexpr int kTileN = 128;
/// Elements along K in a tile of A or B: 128 bytes, as wide as the swizzle.
template <TileElement Element>
inline constexpr int kTileK = 128 / sizeof(Element);

template <TileElement Element>
using ATile = Tile<Element, kTileM, kTileK<Element>>;
template <TileElement Element>
using BTile = Tile<Element, kTileN, kTileK<Element>>;
/// What is in shared memory: `Stages` k-tiles, each a tile of A and one of B, 32 KiB together.
template <TileElement Element, int Stages>
using Payload = StandardTilePayload<ATile<Element>, BTile<Element>, Stages>;
/// A tile of C in tensor memory: 128 lanes, 128 columns.
using Accumulator = TmemTensor<kTileM, kTileN>;
//! [sizes]

/// Warps that store a tile of C. Four, because a warp can reach only a quarter of the lanes of tensor memory.
inline constexpr int kStoreWarps = 4;

//! [role]
/// What a warp does.
enum class Role { load, multiply, store };

/// The calling warp's role: warp 0 loads tiles, warp 1 multiplies them, all others only store. Called by a whole warp.
__device__ inline Role warp_role() {
  const uint32_t warp = warp_index();
  return warp == 0 ? Role::load : warp == 1 ? Role::multiply : Role::store;
}
//! [role]

//! [problem]
/// What a launch computes: C (m x n) = A (m x k) * B (n x k) transposed, all row-major.
template <TileElement Element>
struct Problem {
  TileMap<ATile<Element>> a;
  TileMap<BTile<Element>> b;
  GemmOutput<Element>* c;
  int m, n, k;

  /// k-tiles to add up for each tile of C. The last may hang over the edge: what is beyond reads as zero and adds
  /// nothing.
  __device__ int k_tiles() const { return (k + kTileK<Element> - 1) / kTileK<Element>; }
  __host__ __device__ uint32_t tiles_down() const { return (m + kTileM - 1) / kTileM; }
  __host__ __device__ uint32_t tiles() const { return tiles_down() * ((n + kTileN - 1) / kTileN); }
};
//! [problem]

//! [tile of c]
/// Where a block is in its work: it begins with tile number blockIdx.x of C and goes on to every gridDim.x-th. Each
/// role goes through the tiles independently; no role learns from another which is next.
template <TileElement Element>
class TileOfC {
 public:
  __device__ explicit TileOfC(const Problem<Element>& problem) : problem_(problem), number_(blockIdx.x) {}

  __device__ bool exists() const { return number_ < problem_.tiles(); }
  __device__ void next() { number_ += gridDim.x; }
  __device__ int row() const { return number_ % problem_.tiles_down() * kTileM; }
  __device__ int column() const { return number_ / problem_.tiles_down() * kTileN; }

 private:
  const Problem<Element>& problem_;
  uint32_t number_;
};
//! [tile of c]

//! [tiles in shared memory]
/// The stages in dynamic shared memory.
template <TileElement Element, int Stages>
__device__ Payload<Element, Stages> tiles_in_shared_memory() {
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  return Payload<Element, Stages>{
      *reinterpret_cast<typename Payload<Element, Stages>::Storage*>(dynamic_shared_memory)};
}
//! [tiles in shared memory]

//! [sync block]
/// A block-wide barrier for tensor memory as well: it orders what any thread did there before, or knows to be done,
/// before what any thread does there after. Called by all threads.
__device__ inline void sync_block() {
  __syncwarp();
  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  cuda::ptx::tcgen05_fence_after_thread_sync();
}
//! [sync block]

//! [store row]
/// Converts `Count` sums and writes those of the first `valid` columns to a row of C.
template <typename Output, int Count>
__device__ void store_row(Output* row, const float (&sums)[Count], int valid) {
  constexpr int kPerWord = 16 / sizeof(Output);
  const bool aligned = reinterpret_cast<uintptr_t>(row) % 16 == 0;
#pragma unroll
  for (int first = 0; first < Count; first += kPerWord) {
    alignas(16) Output word[kPerWord];
#pragma unroll
    for (int i = 0; i < kPerWord; ++i) word[i] = Output(sums[first + i]);  // to nearest

    if (aligned && first + kPerWord <= valid) {
      *reinterpret_cast<uint4*>(row + first) = *reinterpret_cast<const uint4*>(word);
    } else {
#pragma unroll
      for (int i = 0; i < kPerWord; ++i) {
        if (first + i < valid) row[first + i] = word[i];
      }
    }
  }
}
//! [store row]

}  // namespace stagecraft
