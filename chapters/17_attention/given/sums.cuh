// What threads do with O, a tile's sums in tensor memory: multiply its rows by factors, which the library has, and
// round and write them out.
#pragma once

#include <cstdint>

#include "stagecraft/attention/row_sums.hpp"  // rescale()
#include "stagecraft/packed_elements.hpp"
#include "stagecraft/tensor_memory.hpp"

namespace stagecraft {

/// Columns of O that a thread has in registers at a time.
inline constexpr int kColumnsAtOnce = 32;

//! [write]
/// Multiplies the calling thread's row of a tile's sums by a factor, rounds it, and writes it to a tile in shared
/// memory. Where the factor is 0, zeros are written, whatever the sums are.
///
/// Called by a whole converged warp, of whose lanes each has a row.
template <typename Sums, typename Outputs>
__device__ __forceinline__ void write_row(const Sums& sums, uint32_t warp, int row, float factor, Outputs& to) {
  using Element = typename Outputs::element_type;
#pragma unroll
  for (int column = 0; column < Sums::columns; column += kColumnsAtOnce) {
    float values[kColumnsAtOnce];
    sums.load(values, warp, column);
#pragma unroll
    for (int i = 0; i < kColumnsAtOnce; ++i) values[i] = factor == 0 ? 0 : values[i] * factor;
#pragma unroll
    for (int i = 0; i < kColumnsAtOnce; i += 8) {  // 16 bytes of it
      *reinterpret_cast<uint4*>(to.storage + Outputs::offset_of(row, column + i)) =
          pack_elements<Element>(reinterpret_cast<const float(&)[8]>(values[i]));
    }
  }
}

/// The same for a row that has no sums.
template <typename Outputs>
__device__ __forceinline__ void write_zeros(int row, Outputs& to) {
#pragma unroll
  for (int column = 0; column < Outputs::columns; column += 8) {
    *reinterpret_cast<uint4*>(to.storage + Outputs::offset_of(row, column)) = uint4{};
  }
}
//! [write]

}  // namespace stagecraft
