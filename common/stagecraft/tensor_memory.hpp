// Tensor memory, where tcgen05.mma keeps its accumulators: 128 lanes by 512 columns of 32 bits, allocated and
// deallocated in whole columns; and how threads read it.
#pragma once

#include <bit>
#include <cstdint>
#include <cuda/ptx>

#include "stagecraft/ptx.hpp"
#include "stagecraft/tmem_layout.hpp"

namespace stagecraft {

/// `Columns` columns of tensor memory for one block, or for each block of a pair.
///
/// One warp, always the same, calls `allocate`, `release_lock` and at the end `deallocate`. A barrier must order
/// `allocate` before another warp's `address()`, and every warp's last use before `deallocate`: MmaWarp and
/// EpilogueWarp do so, or a block-wide barrier does.
/// @tparam CtaGroup  2: the same warp of both blocks of a pair calls each of these, and the calls wait for each other.
///                   A kernel uses one of the two throughout.
/// Source: PTX ISA, "tcgen05.alloc, tcgen05.dealloc, tcgen05.relinquish_alloc_permit".
template <int Columns, int CtaGroup = 1>
class TmemAllocation {
  static_assert(Columns >= 32 && Columns <= 512 && std::has_single_bit(static_cast<unsigned>(Columns)),
                "TmemAllocation: tensor memory comes in 32, 64, 128, 256 or 512 columns");
  static_assert(CtaGroup == 1 || CtaGroup == 2, "TmemAllocation: CtaGroup must be 1 or 2, a block or a pair");

 public:
  static constexpr int columns = Columns;     ///< that it allocates
  static constexpr int cta_group = CtaGroup;  ///< blocks that allocate together

  /// @param published  a word in shared memory, through which the address reaches the other warps.
  __device__ explicit TmemAllocation(uint32_t* published) : published_(published) {}

  /// Allocates the columns, waits while other blocks of the same multiprocessor hold them, and writes their address to
  /// the word in shared memory.
  ///
  /// Called by one whole converged warp. A second allocation of a block must not be larger than its first.
  __device__ void allocate() const { cuda::ptx::tcgen05_alloc(ptx::cta_group<CtaGroup>, published_, Columns); }

  /// Lets other blocks of the multiprocessor allocate: this one will allocate no more.
  ///
  /// Called by the whole converged warp that allocated. Without it, blocks that start while this one runs wait for its
  /// end, however much is free.
  __device__ void release_lock() const { cuda::ptx::tcgen05_relinquish_alloc_permit(ptx::cta_group<CtaGroup>); }

  /// The address of the first column, at lane 0. Any thread that knows `allocate` to be done.
  __device__ uint32_t address() const { return *published_; }

  /// Releases the columns; a block that ends without it leaves them lost to its multiprocessor.
  ///
  /// Called by the whole converged warp that allocated, when no thread uses them any more: after a wait for all loads,
  /// and for a commit that covers all MMAs.
  __device__ void deallocate() const { cuda::ptx::tcgen05_dealloc(ptx::cta_group<CtaGroup>, address(), Columns); }

 private:
  uint32_t* published_;
};

// ---- Loads and stores -----------------------------------------------------------------------------------------------

/// Starts to read cells of the calling warp's lanes into registers.
///
/// The load is asynchronous. An instruction that uses one of the registers waits for it, as PTX guarantees; nothing
/// else does before `wait_for_tmem_loads()`: until then the cells may still be being read, and must not be overwritten.
/// Called by a whole converged warp, after waiting for the MMAs that write there and
/// `tcgen05.fence::after_thread_sync`. `fragment_cell<Shape>()` says which cell each register gets.
/// @param address  the first column, at lane 32 * (warp index modulo 4), or 16 more for shapes of 16 lanes; the same in
///                 all threads.
/// @tparam Count   registers per thread: 1, 2, 4, ..., 128, a multiple of `fragment_registers(Shape)`.
/// Source: PTX ISA, "tcgen05.ld"; "Register dependencies, same thread" in the memory consistency model of tcgen05.
template <FragmentShape Shape = FragmentShape::lanes_32x32b, int Count>
__device__ __forceinline__ void load_tmem(uint32_t (&registers)[Count], uint32_t address) {
  static_assert(Count >= fragment_registers(Shape) && Count <= 128 && (Count & (Count - 1)) == 0,
                "load_tmem: a thread gets 1, 2, 4, ..., 128 registers; no fewer than 2 of 16x128b and 4 of 16x256b");
  if constexpr (Shape == FragmentShape::lanes_32x32b) cuda::ptx::tcgen05_ld_32x32b(registers, address);
  if constexpr (Shape == FragmentShape::lanes_16x64b) cuda::ptx::tcgen05_ld_16x64b(registers, address);
  if constexpr (Shape == FragmentShape::lanes_16x128b) cuda::ptx::tcgen05_ld_16x128b(registers, address);
  if constexpr (Shape == FragmentShape::lanes_16x256b) cuda::ptx::tcgen05_ld_16x256b(registers, address);
}

/// Waits until the calling warp's loads have ended. Called by a whole converged warp, before the cells are freed for
/// others to overwrite. Source: PTX ISA, "tcgen05.wait".
__device__ __forceinline__ void wait_for_tmem_loads() { cuda::ptx::tcgen05_wait_ld(); }

/// Starts to write registers to cells of the calling warp's lanes; they are there after `wait_for_tmem_stores()`.
/// Parameters as for `load_tmem`. Source: PTX ISA, "tcgen05.st".
template <FragmentShape Shape = FragmentShape::lanes_32x32b, int Count>
__device__ __forceinline__ void store_tmem(uint32_t address, const uint32_t (&registers)[Count]) {
  static_assert(Count >= fragment_registers(Shape) && Count <= 128 && (Count & (Count - 1)) == 0,
                "store_tmem: a thread has 1, 2, 4, ..., 128 registers; no fewer than 2 of 16x128b and 4 of 16x256b");
  if constexpr (Shape == FragmentShape::lanes_32x32b) cuda::ptx::tcgen05_st_32x32b(address, registers);
  if constexpr (Shape == FragmentShape::lanes_16x64b) cuda::ptx::tcgen05_st_16x64b(address, registers);
  if constexpr (Shape == FragmentShape::lanes_16x128b) cuda::ptx::tcgen05_st_16x128b(address, registers);
  if constexpr (Shape == FragmentShape::lanes_16x256b) cuda::ptx::tcgen05_st_16x256b(address, registers);
}

/// Waits until the calling warp's stores are done. Called by a whole converged warp. Source: PTX ISA, "tcgen05.wait".
__device__ __forceinline__ void wait_for_tmem_stores() { cuda::ptx::tcgen05_wait_st(); }

/// Reads `Count` columns of the calling warp's 32 lanes and waits for them: thread i gets lane i, `values[j]` its
/// column j, as f32.
///
/// Called by a whole converged warp, after waiting for the MMAs that write there and
/// `tcgen05.fence::after_thread_sync`.
/// @param address  lane 32 * (warp index modulo 4) of the first column, the same in all threads.
/// @tparam Count   1, 2, 4, ..., 128.
template <int Count>
__device__ __forceinline__ void load_tmem_columns(float (&values)[Count], uint32_t address) {
  uint32_t words[Count];
  load_tmem(words, address);
  wait_for_tmem_loads();
#pragma unroll
  for (int i = 0; i < Count; ++i) values[i] = __uint_as_float(words[i]);
}

// ---- Accumulators ---------------------------------------------------------------------------------------------------

/// An accumulator D of M x N f32 elements in tensor memory: its address, and where its elements are.
/// @tparam CtaGroup  2: each block of a pair holds half the rows.
template <int M, int N, int CtaGroup = 1>
class TmemTensor {
  static_assert((CtaGroup == 1 && (M == 64 || M == 128)) || (CtaGroup == 2 && (M == 128 || M == 256)),
                "TmemTensor: M must be 64 or 128 of one block (CtaGroup 1), 128 or 256 of a pair (CtaGroup 2)");
  static_assert(N >= 8 && N <= 256 && N % 8 == 0, "TmemTensor: N must be 8, 16, ..., 256");

 public:
  static constexpr int rows = M;                                                ///< of the matrix
  static constexpr int columns = N;                                             ///< of the matrix
  static constexpr int cta_group = CtaGroup;                                    ///< blocks among which it is spread
  static constexpr AccumulatorLayout layout = accumulator_layout(M, CtaGroup);  ///< how it is spread
  static constexpr int tmem_columns = accumulator_columns(layout, N);           ///< columns that it occupies

  /// @param address  its first column, at lane 0 (of layout f: or lane 16).
  __device__ __forceinline__ explicit TmemTensor(uint32_t address) : address_(address) {}

  /// The address that `tcgen05.mma` takes as D.
  __device__ __forceinline__ uint32_t address() const { return address_; }

  /// The address from which warp number `warp` loads: its first lane of the 32 that it can reach, at `column`.
  /// @param warp    its index in the block; modulo 4, the quarter of the lanes.
  /// @param column  of tensor memory: 0 to tmem_columns - 1.
  __device__ __forceinline__ uint32_t part_of_warp(uint32_t warp, int column = 0) const {
    return tmem_offset(address_, warp % 4 * 32, column);
  }

  /// The row of the matrix that thread `lane` of warp number `warp` loads by `load()`; -1 for none.
  /// @param cta  0, or 1 in the odd block of a pair.
  __host__ __device__ static constexpr int row_of(uint32_t warp, uint32_t lane, uint32_t cta = 0) {
    return accumulator_row(layout, warp % 4 * 32 + lane, cta);
  }

  /// The column of the matrix that warp number `warp` finds in column `column` of tensor memory.
  __host__ __device__ static constexpr int column_of(uint32_t warp, int column) {
    return accumulator_column(layout, warp % 4 * 32, column, N);
  }

  /// Reads `Count` columns from `column` on, of row `row_of(warp, lane)`, and waits for them.
  ///
  /// Called by a whole converged warp, as `load_tmem_columns`.
  template <int Count>
  __device__ __forceinline__ void load(float (&values)[Count], uint32_t warp, int column) const {
    load_tmem_columns(values, part_of_warp(warp, column));
  }

 private:
  uint32_t address_;
};

}  // namespace stagecraft
