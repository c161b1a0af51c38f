// Products of 16 rows by the tensor core of a single warp, whose operands and sums are in registers. Every GPU since
// Ampere has them; on a Hopper they are for what is too small for the 64 rows of a `wgmma`.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <concepts>
#include <cstdint>

#include "stagecraft/block_scaled_types.hpp"

namespace stagecraft {

/// What `mma.sync` takes here as A and B.
template <typename T>
concept FragmentElement = std::same_as<T, __nv_bfloat16> || std::same_as<T, __half> || std::same_as<T, __nv_fp8_e4m3>;

/// Loads four matrices of 8 x 8 elements of 16 bits from shared memory.
///
/// Called by a whole warp. Lane 8i + j passes the address of row j of matrix i; every lane gets two elements of each
/// matrix, those of row lane / 4 from column lane % 4 * 2 on. Source: PTX ISA, "ldmatrix".
__device__ __forceinline__ void load_matrices(uint32_t row, uint32_t (&matrices)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(row)
               : "memory");
}

/// The same with each matrix transposed: a lane gets those of column lane / 4 from row lane % 4 * 2 on.
/// Source: PTX ISA, "ldmatrix" (`.trans`).
__device__ __forceinline__ void load_matrices_transposed(uint32_t row, uint32_t (&matrices)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(row)
               : "memory");
}

/// Adds A (16 rows) * B (8 columns), over 32 bytes along K, to sums (16 x 8), of which a lane has those of rows lane /
/// 4 and lane / 4 + 8, columns lane % 4 * 2 and the next.
///
/// Called by a whole warp.
/// @param a       the four matrices of A: rows 0 to 7 of the first 16 bytes
///                along K, rows 8 to 15 of these, and both again of the
///                other 16 bytes.
/// @param b0, b1  the two of B, whose rows are contiguous along K: of the first 16 bytes, and of the others.
/// Source: PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type", "... mma.m16n8k32".
template <FragmentElement Element>
__device__ __forceinline__ void multiply_fragments(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (std::same_as<Element, __nv_bfloat16>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else if constexpr (std::same_as<Element, __nv_fp8_e4m3>) {
    asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

/// Which bytes of which lanes' registers an operand's scale factors are.
struct ScaleSelector {
  uint16_t byte;    ///< of the first block: 0 to 3, for two blocks 0 or 2, for four 0
  uint16_t thread;  ///< of A: 0, the lower two lanes of each quad, rows 0 to 7 and 8 to 15, or 1, the upper two; of B:
                    ///< 0 to 3, the lane
};

/// Adds A (16 rows) * B (8 columns), over 32 bytes along K, to sums as `multiply_fragments` does, each block of K
/// multiplied by A's scale factor and B's. sm_120 only.
///
/// Called by a whole warp. The selectors must be known when the kernel is compiled.
/// @tparam Type     Mxfp8 or Nvfp4.
/// @param sfa, sfb  registers with the scale factors of a row, its blocks in ascending bytes: those of row lane / 4 of
///                  the fragment, or of A's row eight below it.
/// Source: PTX ISA, "Block Scaling for mma.sync".
template <typename Type>
__device__ __forceinline__ void multiply_scaled_fragments(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0,
                                                          uint32_t b1, uint32_t sfa, ScaleSelector of_a, uint32_t sfb,
                                                          ScaleSelector of_b) {
  if constexpr (std::same_as<Type, Mxfp8>) {
    asm("mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, %10, {%11, %12}, %13, {%14, %15};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(sfa), "h"(of_a.byte), "h"(of_a.thread),
          "r"(sfb), "h"(of_b.byte), "h"(of_b.thread));
  } else {
    static_assert(std::same_as<Type, Nvfp4>, "multiply_scaled_fragments: Type must be Mxfp8 or Nvfp4");
    asm("mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, %10, {%11, %12}, %13, {%14, %15};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(sfa), "h"(of_a.byte), "h"(of_a.thread),
          "r"(sfb), "h"(of_b.byte), "h"(of_b.thread));
  }
}

}  // namespace stagecraft
