// What threads do with O, a tile's sums in tensor memory: multiply its rows by factors, and round and write them out.
#pragma once

#include <cstdint>

#include "stagecraft/packed_elements.hpp"
#include "stagecraft/tensor_memory.hpp"

namespace stagecraft {

/// Multiplies each row of a tile's sums by a factor, the calling thread's by its own.
///
/// Called by a whole converged warp, of whose lanes each has a row; the sums are there when it returns. Nothing is
/// loaded where no row of the warp changes.
template <typename Sums>
__device__ __forceinline__ void rescale(const Sums& sums, uint32_t warp, float factor) {
  constexpr int kAtOnce = 32;
  if (!__any_sync(0xffffffff, factor != 1)) return;
#pragma unroll
  for (int column = 0; column < Sums::columns; column += kAtOnce) {
    float values[kAtOnce];
    sums.load(values, warp, column);
    uint32_t words[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) words[i] = __float_as_uint(values[i] * factor);
    store_tmem(sums.part_of_warp(warp, column), words);
  }
  wait_for_tmem_stores();
}

/// Multiplies the calling thread's row of a tile's sums by a factor, rounds it, and writes it 16 bytes at a time. Where
/// the factor is 0, zeros are written, whatever the sums are.
///
/// Called by a whole converged warp, of whose lanes each has a row.
/// @param write  write(column, uint4): the elements from `column` on.
template <TileElement Element, typename Sums, typename Write>
__device__ __forceinline__ void write_sums(const Sums& sums, uint32_t warp, float factor, const Write& write) {
  constexpr int kAtOnce = 16, kPerWord = 128 / element_bits<Element>;
#pragma unroll
  for (int column = 0; column < Sums::columns; column += kAtOnce) {
    float values[kAtOnce];
    sums.load(values, warp, column);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) values[i] = factor == 0 ? 0 : values[i] * factor;
#pragma unroll
    for (int i = 0; i < kAtOnce; i += kPerWord) {
      write(column + i, pack_elements<Element>(reinterpret_cast<const float(&)[kPerWord]>(values[i])));
    }
  }
}

}  // namespace stagecraft
