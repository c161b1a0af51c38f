// A tile of A in tensor memory, which threads put there from registers: for operands that are computed, or converted to
// a type that the tensor core has, without a way through shared memory; and the MMAs that read it.
#pragma once

#include <cstdint>
#include <cuda/ptx>

#include "stagecraft/element.hpp"
#include "stagecraft/mma.hpp"
#include "stagecraft/mma_instruction.hpp"
#include "stagecraft/ptx.hpp"
#include "stagecraft/tensor_memory.hpp"
#include "stagecraft/tile.hpp"
#include "stagecraft/tmem_layout.hpp"
#include "stagecraft/umma_descriptors.hpp"

namespace stagecraft {

/// What a block has of a tile of A in tensor memory: `Rows` x `Columns` elements, `Columns` along K.
///
/// A cell holds 32 bits of a row: 1, 2 or 4 elements along K, the first in the lowest bits. A row is in the lanes in
/// which its row of D is: with 128 rows one lane for each. With 64 rows of one block it is in the first 16 of every 32
/// lanes. With 64 rows of a pair, M = 128, where D's right half is in lanes 64 to 127, both halves need all rows of A,
/// so that each row is there twice.
///
/// The columns are part of an allocation, beside the accumulators. A warp that has stored its part calls
/// `wait_for_tmem_stores()` and `tcgen05.fence::before_thread_sync`, and signals the thread that issues the MMAs; that
/// one waits, and executes `tcgen05.fence::after_thread_sync`. The cells may be overwritten when a commit that covers
/// the MMAs has arrived.
/// @tparam Element   __half, __nv_bfloat16, tf32, __nv_fp8_e4m3 or __nv_fp8_e5m2.
/// @tparam Rows      128, or 64; of a pair, those of one of its blocks.
/// @tparam CtaGroup  2: the tensor cores of a pair of blocks multiply, and each has its own rows.
/// Source: PTX ISA, "tcgen05.mma" (A in tensor memory is always contiguous along K); CUTLASS,
/// cute/atom/mma_traits_sm100_frag.hpp (tmem_frg, Duplicated).
template <TileElement Element, int Rows, int Columns, int CtaGroup = 1>
class TmemOperand {
  static_assert(detail::is_one_of<Element, __half, __nv_bfloat16, tf32, __nv_fp8_e4m3, __nv_fp8_e5m2>,
                "TmemOperand: A in tensor memory must be of __half, __nv_bfloat16, tf32, __nv_fp8_e4m3 or "
                "__nv_fp8_e5m2; convert others in registers");
  static_assert(CtaGroup == 1 || CtaGroup == 2, "TmemOperand: CtaGroup must be 1 or 2, a block or a pair");
  static_assert(Rows == 64 || Rows == 128,
                "TmemOperand: Rows must be 64 or 128: M of one block, half of M of a pair of blocks");
  static_assert(Columns >= 1 && Columns * element_bits<Element> % 256 == 0,
                "TmemOperand: Columns must be a multiple of the 32 bytes along K that one MMA takes: 16 elements of 16 "
                "bits, 8 of tf32, 32 of 8 bits");

 public:
  using element_type = Element;                                         ///< what it holds
  static constexpr int rows = Rows;                                     ///< that a block holds
  static constexpr int columns = Columns;                               ///< along K
  static constexpr Major major = Major::k;                              ///< the only one in tensor memory
  static constexpr int cta_group = CtaGroup;                            ///< blocks that multiply together
  static constexpr int elements_per_cell = 32 / element_bits<Element>;  ///< neighbours along K
  static constexpr int tmem_columns = Columns / elements_per_cell;      ///< that it occupies
  static constexpr AccumulatorLayout layout = accumulator_layout(Rows * CtaGroup, CtaGroup);  ///< of the rows
  static_assert(tmem_columns <= kTmemColumns, "TmemOperand: tensor memory has 512 columns of 32 bits");

  /// @param address  its first column, at lane 0; the accumulator must be at lane 0 too.
  __device__ __forceinline__ explicit TmemOperand(uint32_t address) : address_(address) {}

  /// The address that `tcgen05.mma` takes as A.
  __device__ __forceinline__ uint32_t address() const { return address_; }

  /// The row of the block that thread `lane` of warp number `warp` stores; -1 for none.
  __host__ __device__ static constexpr int row_of(uint32_t warp, uint32_t lane) {
    return accumulator_row(layout, warp % 4 * 32 + lane);
  }

  /// Starts to store `Count` cells of row `row_of(warp, lane)`, from elements `column` on.
  ///
  /// Called by a whole converged warp of four that cover all lanes. Cells of lanes without a row are overwritten, too.
  /// They are there after `wait_for_tmem_stores()`.
  /// @param cells   each with `elements_per_cell` elements; 1, 2, 4, ..., 128 of them.
  /// @param warp    its index in the block; modulo 4, the quarter of the lanes.
  /// @param column  the first of the elements: a multiple of `elements_per_cell`.
  template <int Count>
  __device__ __forceinline__ void store(const uint32_t (&cells)[Count], uint32_t warp, int column) const {
    store_tmem(tmem_offset(address_, warp % 4 * 32, column / elements_per_cell), cells);
  }

  /// The same for elements. @tparam Count  their number, a power of 2 of cells.
  template <int Count>
  __device__ __forceinline__ void store(const Element (&elements)[Count], uint32_t warp, int column) const {
    static_assert(Count % elements_per_cell == 0, "TmemOperand: elements are stored in whole cells of 32 bits");
    uint32_t cells[Count / elements_per_cell];
#pragma unroll
    for (int cell = 0; cell < Count / elements_per_cell; ++cell) {
      uint32_t bits = 0;
#pragma unroll
      for (int i = elements_per_cell - 1; i >= 0; --i) {
        bits = static_cast<uint32_t>(uint64_t{bits} << element_bits<Element>) |
               bits_of_element(elements[cell * elements_per_cell + i]);
      }
      cells[cell] = bits;
    }
    store(cells, warp, column);
  }

 private:
  __device__ __forceinline__ static uint32_t bits_of_element(const Element& element) {
    if constexpr (element_bits<Element> == 8) return element.__x;
    if constexpr (element_bits<Element> == 16) return __builtin_bit_cast(uint16_t, element);
    if constexpr (element_bits<Element> == 32) return __builtin_bit_cast(uint32_t, element);
  }

  uint32_t address_;
};

/// Issues one MMA with A in tensor memory, as `issue_mma`.
/// @param a  address of A's 32 bytes along K in tensor memory: 8 columns. See TmemOperand.
/// Source: PTX ISA, "tcgen05.mma"; for a pair CUTLASS asks for N in multiples of 32 (cute/arch/mma_sm100_umma.hpp,
/// SM100_MMA_F16BF16_2x1SM_TS).
template <Mma Instruction>
__device__ __forceinline__ void issue_mma_from_tmem(uint32_t d, uint32_t a, uint64_t b, bool accumulate) {
  static_assert(!Instruction.is_scaled(), "issue_mma_from_tmem: kinds f16, tf32 and f8f6f4 only");
  static_assert(Instruction.a_major == Major::k, "issue_mma_from_tmem: A in tensor memory is contiguous along K");
  static_assert(Instruction.cta_group == 1 || Instruction.n % 32 == 0,
                "issue_mma_from_tmem: with A in tensor memory, N of a pair of CTAs must be 32, 64, ..., 256");
  constexpr uint32_t descriptor = instruction_descriptor<Instruction>();
  constexpr auto group = ptx::cta_group<Instruction.cta_group>;
  if constexpr (Instruction.kind == MmaKind::f16) {
    cuda::ptx::tcgen05_mma_tmem_a(cuda::ptx::kind_f16, group, d, a, b, descriptor, accumulate);
  } else if constexpr (Instruction.kind == MmaKind::tf32) {
    cuda::ptx::tcgen05_mma_tmem_a(cuda::ptx::kind_tf32, group, d, a, b, descriptor, accumulate);
  } else {
    cuda::ptx::tcgen05_mma_tmem_a(cuda::ptx::kind_f8f6f4, group, d, a, b, descriptor, accumulate);
  }
}

/// Issues the MMAs that multiply a tile of A in tensor memory with a tile of B, as `multiply_tiles` of mma.hpp, over a
/// part of their K: for operands that are stored piece by piece.
///
/// Called by one thread, which has waited for the warps that stored this part of A, and has executed
/// `tcgen05.fence::after_thread_sync`.
/// @tparam First, Count  columns of A: multiples of the 32 bytes along K that one MMA takes.
template <int First, int Count, int M, int N, int CtaGroup, TileElement Element, int Rows, int Columns,
          OperandTile BTile>
__device__ __forceinline__ void multiply_columns(const TmemTensor<M, N, CtaGroup>& d,
                                                 const TmemOperand<Element, Rows, Columns, CtaGroup>& a, const BTile& b,
                                                 bool accumulate) {
  using ATile = TmemOperand<Element, Rows, Columns, CtaGroup>;
  constexpr Mma mma = mma_of<ATile, BTile, CtaGroup>();
  static_assert(mma.m == M && mma.n == N,
                "multiply_tiles: the accumulator must have as many rows as the tile of A and as many columns as the "
                "tile of B has rows; for a pair of blocks, twice as many of both");
  static_assert(First >= 0 && Count >= 1 && First + Count <= Columns && First % mma.k() == 0 && Count % mma.k() == 0,
                "multiply_columns: First and Count must be multiples of what one MMA takes along K, and in the tile");
  constexpr int kColumnsOfMma = mma.k() / ATile::elements_per_cell;
  const uint64_t b_descriptor = describe_tile(b);
#pragma unroll
  for (int slice = First / mma.k(); slice < (First + Count) / mma.k(); ++slice) {
    issue_mma_from_tmem<mma>(d.address(), tmem_offset(a.address(), 0, slice * kColumnsOfMma),
                             advance_descriptor(b_descriptor, slice_offset<BTile>(slice)),
                             accumulate || slice > First / mma.k());
  }
}

/// Issues the MMAs that multiply a tile of A in tensor memory with a tile of B, as `multiply_tiles` of mma.hpp.
///
/// Called by one thread, as `multiply_columns`.
template <int M, int N, int CtaGroup, TileElement Element, int Rows, int Columns, OperandTile BTile>
__device__ __forceinline__ void multiply_tiles(const TmemTensor<M, N, CtaGroup>& d,
                                               const TmemOperand<Element, Rows, Columns, CtaGroup>& a, const BTile& b,
                                               bool accumulate) {
  multiply_columns<0, Columns>(d, a, b, accumulate);
}

}  // namespace stagecraft
