// Tensor memory, where tcgen05.mma keeps its accumulators: 128 lanes by 512 columns of 32 bits, taken and given back in
// whole columns. An address is lane << 16 | column.
#pragma once

#include <bit>
#include <cstdint>
#include <cuda/ptx>

namespace stagecraft {

/// `Columns` columns of tensor memory for one block.
///
/// One warp, always the same, calls `allocate` and at the end `deallocate`; a block-wide barrier after the first tells
/// the others the address, and one before the last makes sure that nobody still uses it.
/// Source: PTX ISA, "tcgen05.alloc, tcgen05.dealloc, tcgen05.relinquish_alloc_permit".
template <int Columns>
class TmemAllocation {
  static_assert(Columns >= 32 && Columns <= 512 && std::has_single_bit(static_cast<unsigned>(Columns)),
                "TmemAllocation: tensor memory comes in 32, 64, 128, 256 or 512 columns");

 public:
  /// @param published  a word in shared memory, through which the address reaches the other warps.
  __device__ explicit TmemAllocation(uint32_t* published) : published_(published) {}

  /// Takes the columns, waiting while other blocks of the same multiprocessor hold them, and lets those blocks go on.
  ///
  /// Called by one whole converged warp, at most once per block.
  __device__ void allocate() const {
    cuda::ptx::tcgen05_alloc(cuda::ptx::cta_group_1, published_, Columns);
    cuda::ptx::tcgen05_relinquish_alloc_permit(cuda::ptx::cta_group_1);
  }

  /// The first column, at lane 0. Any thread, after the barrier that follows `allocate`.
  __device__ uint32_t address() const { return *published_; }

  /// Gives the columns back; a block that ends without it leaves them lost to its multiprocessor.
  ///
  /// Called by the whole converged warp that allocated, after the barrier that follows everybody's last use.
  __device__ void deallocate() const { cuda::ptx::tcgen05_dealloc(cuda::ptx::cta_group_1, address(), Columns); }

 private:
  uint32_t* published_;
};

/// Moves a tensor-memory address.
/// @param lanes, columns  how far; a warp's loads start at lane 32 * (warp index modulo 4), the only lanes it may
/// touch.
__device__ constexpr uint32_t tmem_offset(uint32_t address, uint32_t lanes, uint32_t columns) {
  return address + (lanes << 16) + columns;
}

/// Reads `Count` columns of the calling warp's 32 lanes: thread i gets lane i, `values[j]` its column j, as f32.
///
/// Called by a whole converged warp, after waiting for the MMAs that write there and
/// `tcgen05.fence::after_thread_sync`.
/// @param address  lane 32 * (warp index modulo 4) of the first column, the same in all threads.
/// @tparam Count   1, 2, 4, ..., 128.
/// Source: PTX ISA, "tcgen05.ld" (.32x32b), "tcgen05.wait".
template <int Count>
__device__ void load_tmem_columns(float (&values)[Count], uint32_t address) {
  uint32_t words[Count];
  cuda::ptx::tcgen05_ld_32x32b(words, address);
  cuda::ptx::tcgen05_wait_ld();  // the load is asynchronous
#pragma unroll
  for (int i = 0; i < Count; ++i) values[i] = __uint_as_float(words[i]);
}

}  // namespace stagecraft
