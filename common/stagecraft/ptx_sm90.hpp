// Instructions of sm_90a that `cuda::ptx` of CUDA 13.0 does not wrap: the tensor core of Hopper, and
// copies and stores as its kernels use them. All other PTX comes from there, or from stagecraft/ptx.hpp.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "stagecraft/ptx.hpp"  // IWYU pragma: export: the registers that warpgroups pass on to each other

namespace stagecraft::ptx {

// An instruction of N columns names the N / 2 accumulator registers of a thread one by one, so macros list them.
#define STAGECRAFT_REGISTERS_32                                            \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define STAGECRAFT_REGISTERS_64                                                      \
  STAGECRAFT_REGISTERS_32                                                            \
  ", "                                                                               \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define STAGECRAFT_REGISTERS_96                                                      \
  STAGECRAFT_REGISTERS_64                                                            \
  ", "                                                                               \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define STAGECRAFT_REGISTERS_128                                                                 \
  STAGECRAFT_REGISTERS_96                                                                        \
  ", "                                                                                           \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define STAGECRAFT_SUMS_8(i)                                                                                  \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define STAGECRAFT_SUMS_32(i) \
  STAGECRAFT_SUMS_8(i), STAGECRAFT_SUMS_8(i + 8), STAGECRAFT_SUMS_8(i + 16), STAGECRAFT_SUMS_8(i + 24)
#define STAGECRAFT_SUMS_64(i) STAGECRAFT_SUMS_32(i), STAGECRAFT_SUMS_32(i + 32)
#define STAGECRAFT_SUMS_96(i) STAGECRAFT_SUMS_64(i), STAGECRAFT_SUMS_32(i + 64)
#define STAGECRAFT_SUMS_128(i) STAGECRAFT_SUMS_64(i), STAGECRAFT_SUMS_64(i + 64)

/// One matrix multiply-add of 64 x N elements and 32 bytes along K, D = A * B (+ D) with f32 sums, asynchronously.
///
/// Called by all four warps of a warpgroup. Until a `wgmma_wait_group` that covers it, D must not be touched and the
/// operands must not change.
/// @tparam Element    `__nv_bfloat16`, `__half` or `__nv_fp8_e4m3`. Sums of the latter keep 13 bits behind the point of
/// the
///                    largest number that is added, fewer than an f32 has (measured on an H200).
/// @param d           the calling thread's N / 2 sums: sum 4i + 2j + h is in row lane / 4 + 8j of the warp's 16, in
///                    column 8i + 2 (lane % 4) + h.
/// @param a, b        descriptors of K-major operands in shared memory.
/// @param accumulate  false: D is overwritten, whatever it held.
/// Source: PTX ISA, "wgmma.mma_async".
template <typename Element, int N>
struct Wgmma;
#define STAGECRAFT_WGMMA(ELEMENT, TYPES, TRANSPOSED, N, COUNT, A, B, ACCUMULATE)                               \
  template <>                                                                                                  \
  struct Wgmma<ELEMENT, N> {                                                                                   \
    static __device__ __forceinline__ void issue(float (&d)[COUNT], uint64_t a, uint64_t b, bool accumulate) { \
      asm volatile(                                                                                            \
          "{\n\t"                                                                                              \
          ".reg .pred accumulate;\n\t"                                                                         \
          "setp.ne.b32 accumulate, " ACCUMULATE                                                                \
          ", 0;\n\t"                                                                                           \
          "wgmma.mma_async.sync.aligned.m64n" #N TYPES " {" STAGECRAFT_REGISTERS_##COUNT                       \
          "}, " A ", " B ", accumulate, 1, 1" TRANSPOSED                                                       \
          ";\n\t"                                                                                              \
          "}"                                                                                                  \
          : STAGECRAFT_SUMS_##COUNT(0)                                                                         \
          : "l"(a), "l"(b), "r"(int32_t{accumulate})                                                           \
          : "memory");                                                                                         \
    }                                                                                                          \
    template <int Pending>                                                                                     \
    static __device__ __forceinline__ void wait(float (&d)[COUNT]) {                                           \
      asm volatile("wgmma.wait_group.sync.aligned %" #COUNT ";"                                                \
                   : STAGECRAFT_SUMS_##COUNT(0)                                                                \
                   : "n"(Pending)                                                                              \
                   : "memory");                                                                                \
    }                                                                                                          \
  };
#define STAGECRAFT_WGMMA_OF(ELEMENT, TYPES, TRANSPOSED)                      \
  STAGECRAFT_WGMMA(ELEMENT, TYPES, TRANSPOSED, 64, 32, "%32", "%33", "%34")  \
  STAGECRAFT_WGMMA(ELEMENT, TYPES, TRANSPOSED, 128, 64, "%64", "%65", "%66") \
  STAGECRAFT_WGMMA(ELEMENT, TYPES, TRANSPOSED, 192, 96, "%96", "%97", "%98") \
  STAGECRAFT_WGMMA(ELEMENT, TYPES, TRANSPOSED, 256, 128, "%128", "%129", "%130")
STAGECRAFT_WGMMA_OF(__nv_bfloat16, "k16.f32.bf16.bf16", ", 0, 0")
STAGECRAFT_WGMMA_OF(__nv_fp8_e4m3, "k32.f32.e4m3.e4m3", "")  // K-major only
STAGECRAFT_WGMMA_OF(__half, "k16.f32.f16.f16", ", 0, 0")
#define STAGECRAFT_REGISTERS_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define STAGECRAFT_REGISTERS_16 STAGECRAFT_REGISTERS_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define STAGECRAFT_SUMS_16(i) STAGECRAFT_SUMS_8(i), STAGECRAFT_SUMS_8(i + 8)
#define STAGECRAFT_REGISTERS_40 STAGECRAFT_REGISTERS_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define STAGECRAFT_SUMS_40(i) STAGECRAFT_SUMS_32(i), STAGECRAFT_SUMS_8(i + 32)
#define STAGECRAFT_REGISTERS_48 \
  STAGECRAFT_REGISTERS_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define STAGECRAFT_SUMS_48(i) STAGECRAFT_SUMS_32(i), STAGECRAFT_SUMS_8(i + 32), STAGECRAFT_SUMS_8(i + 40)
#define STAGECRAFT_REGISTERS_56 STAGECRAFT_REGISTERS_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define STAGECRAFT_SUMS_56(i) STAGECRAFT_SUMS_48(i), STAGECRAFT_SUMS_8(i + 48)
#define STAGECRAFT_REGISTERS_72 STAGECRAFT_REGISTERS_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define STAGECRAFT_SUMS_72(i) STAGECRAFT_SUMS_64(i), STAGECRAFT_SUMS_8(i + 64)
#define STAGECRAFT_REGISTERS_80 \
  STAGECRAFT_REGISTERS_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define STAGECRAFT_SUMS_80(i) STAGECRAFT_SUMS_64(i), STAGECRAFT_SUMS_8(i + 64), STAGECRAFT_SUMS_8(i + 72)
#define STAGECRAFT_REGISTERS_88 STAGECRAFT_REGISTERS_80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define STAGECRAFT_SUMS_88(i) STAGECRAFT_SUMS_80(i), STAGECRAFT_SUMS_8(i + 80)
#define STAGECRAFT_REGISTERS_104 STAGECRAFT_REGISTERS_96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define STAGECRAFT_SUMS_104(i) STAGECRAFT_SUMS_96(i), STAGECRAFT_SUMS_8(i + 96)
#define STAGECRAFT_REGISTERS_112 STAGECRAFT_REGISTERS_104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define STAGECRAFT_SUMS_112(i) STAGECRAFT_SUMS_104(i), STAGECRAFT_SUMS_8(i + 104)
#define STAGECRAFT_SUMS_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define STAGECRAFT_REGISTERS_28 STAGECRAFT_REGISTERS_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27"
#define STAGECRAFT_SUMS_28(i) STAGECRAFT_SUMS_16(i), STAGECRAFT_SUMS_8(i + 16), STAGECRAFT_SUMS_4(i + 24)
#define STAGECRAFT_REGISTERS_36 STAGECRAFT_REGISTERS_32 ", %32, %33, %34, %35"
#define STAGECRAFT_SUMS_36(i) STAGECRAFT_SUMS_32(i), STAGECRAFT_SUMS_4(i + 32)
#define STAGECRAFT_REGISTERS_52 STAGECRAFT_REGISTERS_48 ", %48, %49, %50, %51"
#define STAGECRAFT_SUMS_52(i) STAGECRAFT_SUMS_48(i), STAGECRAFT_SUMS_4(i + 48)
#define STAGECRAFT_REGISTERS_68 STAGECRAFT_REGISTERS_64 ", %64, %65, %66, %67"
#define STAGECRAFT_SUMS_68(i) STAGECRAFT_SUMS_64(i), STAGECRAFT_SUMS_4(i + 64)
#define STAGECRAFT_REGISTERS_100 STAGECRAFT_REGISTERS_96 ", %96, %97, %98, %99"
#define STAGECRAFT_SUMS_100(i) STAGECRAFT_SUMS_96(i), STAGECRAFT_SUMS_4(i + 96)
#define STAGECRAFT_NARROW_WGMMA_OF(ELEMENT, TYPES, TRANSPOSED)                   \
  STAGECRAFT_WGMMA(ELEMENT, TYPES, TRANSPOSED, 16, 8, "%8", "%9", "%10")         \
  STAGECRAFT_WGMMA(ELEMENT, TYPES, TRANSPOSED, 32, 16, "%16", "%17", "%18")      \
  STAGECRAFT_WGMMA(ELEMENT, TYPES, TRANSPOSED, 56, 28, "%28", "%29", "%30")      \
  STAGECRAFT_WGMMA(ELEMENT, TYPES, TRANSPOSED, 72, 36, "%36", "%37", "%38")      \
  STAGECRAFT_WGMMA(ELEMENT, TYPES, TRANSPOSED, 80, 40, "%40", "%41", "%42")      \
  STAGECRAFT_WGMMA(ELEMENT, TYPES, TRANSPOSED, 96, 48, "%48", "%49", "%50")      \
  STAGECRAFT_WGMMA(ELEMENT, TYPES, TRANSPOSED, 104, 52, "%52", "%53", "%54")     \
  STAGECRAFT_WGMMA(ELEMENT, TYPES, TRANSPOSED, 112, 56, "%56", "%57", "%58")     \
  STAGECRAFT_WGMMA(ELEMENT, TYPES, TRANSPOSED, 136, 68, "%68", "%69", "%70")     \
  STAGECRAFT_WGMMA(ELEMENT, TYPES, TRANSPOSED, 144, 72, "%72", "%73", "%74")     \
  STAGECRAFT_WGMMA(ELEMENT, TYPES, TRANSPOSED, 160, 80, "%80", "%81", "%82")     \
  STAGECRAFT_WGMMA(ELEMENT, TYPES, TRANSPOSED, 176, 88, "%88", "%89", "%90")     \
  STAGECRAFT_WGMMA(ELEMENT, TYPES, TRANSPOSED, 200, 100, "%100", "%101", "%102") \
  STAGECRAFT_WGMMA(ELEMENT, TYPES, TRANSPOSED, 208, 104, "%104", "%105", "%106") \
  STAGECRAFT_WGMMA(ELEMENT, TYPES, TRANSPOSED, 224, 112, "%112", "%113", "%114")
STAGECRAFT_NARROW_WGMMA_OF(__nv_bfloat16, "k16.f32.bf16.bf16", ", 0, 0")
STAGECRAFT_NARROW_WGMMA_OF(__nv_fp8_e4m3, "k32.f32.e4m3.e4m3", "")
STAGECRAFT_NARROW_WGMMA_OF(__half, "k16.f32.f16.f16", ", 0, 0")

/// The same of 64 x N x 16 elements with A in registers, and B contiguous along N in shared memory.
///
/// The registers of A must not change either until a wait for the group.
/// @param d, accumulate  as for `Wgmma`.
/// @param a  elements 2i and 2i + 1 along K in the halves of a word, i = lane % 4: of row lane / 4 of the warp's 16, of
///           the row eight below, and of both eight further along K. Two neighbouring groups of eight columns of sums
///           that another multiply-add has left, rounded in pairs, are these.
/// @param b  descriptor of an operand that is contiguous along N.
/// Source: PTX ISA, "wgmma.mma_async" (A in registers, `imm-trans-b`).
template <typename Element, int N>
struct WgmmaOfRegisters;
#define STAGECRAFT_WGMMA_OF_REGISTERS(ELEMENT, TYPES, N, COUNT, A, B, ACCUMULATE)                                     \
  template <>                                                                                                         \
  struct WgmmaOfRegisters<ELEMENT, N> {                                                                               \
    static __device__ __forceinline__ void issue(float (&d)[COUNT], const uint32_t (&a)[4], uint64_t b,               \
                                                 bool accumulate) {                                                   \
      asm volatile(                                                                                                   \
          "{\n\t"                                                                                                     \
          ".reg .pred accumulate;\n\t"                                                                                \
          "setp.ne.b32 accumulate, " ACCUMULATE                                                                       \
          ", 0;\n\t"                                                                                                  \
          "wgmma.mma_async.sync.aligned.m64n" #N TYPES " {" STAGECRAFT_REGISTERS_##COUNT "}, {" A "}, " B             \
                                                                                         ", accumulate, 1, 1, 1;\n\t" \
                                                                                         "}"                          \
          : STAGECRAFT_SUMS_##COUNT(0)                                                                                \
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int32_t{accumulate})                              \
          : "memory");                                                                                                \
    }                                                                                                                 \
  };
#define STAGECRAFT_WGMMAS_OF_REGISTERS(ELEMENT, TYPES)                                      \
  STAGECRAFT_WGMMA_OF_REGISTERS(ELEMENT, TYPES, 64, 32, "%32, %33, %34, %35", "%36", "%37") \
  STAGECRAFT_WGMMA_OF_REGISTERS(ELEMENT, TYPES, 128, 64, "%64, %65, %66, %67", "%68", "%69")
STAGECRAFT_WGMMAS_OF_REGISTERS(__nv_bfloat16, "k16.f32.bf16.bf16")
STAGECRAFT_WGMMAS_OF_REGISTERS(__half, "k16.f32.f16.f16")
#undef STAGECRAFT_WGMMAS_OF_REGISTERS
#undef STAGECRAFT_WGMMA_OF_REGISTERS
#undef STAGECRAFT_NARROW_WGMMA_OF
#undef STAGECRAFT_WGMMA_OF
#undef STAGECRAFT_WGMMA
#undef STAGECRAFT_SUMS_4
#undef STAGECRAFT_SUMS_8
#undef STAGECRAFT_SUMS_32
#undef STAGECRAFT_SUMS_64
#undef STAGECRAFT_SUMS_96
#undef STAGECRAFT_SUMS_128
#undef STAGECRAFT_REGISTERS_32
#undef STAGECRAFT_REGISTERS_64
#undef STAGECRAFT_REGISTERS_96
#undef STAGECRAFT_REGISTERS_128

/// Orders what a thread did with its accumulator registers before the multiply-adds that follow.
///
/// Called by all four warps of a warpgroup, before the first multiply-add on registers that anything else has touched.
/// Source: PTX ISA, "wgmma.fence".
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

/// Makes a group of the multiply-adds that the warpgroup has issued since the last one. Called by all four warps.
/// Source: PTX ISA, "wgmma.commit_group".
__device__ __forceinline__ void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

/// Waits until no more than the newest `Pending` groups of the warpgroup are still being computed: the operands of all
/// others have been read. Their sums may be read after the form that takes them.
/// Source: PTX ISA, "wgmma.wait_group".
template <int Pending>
__device__ __forceinline__ void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(Pending) : "memory");
}

/// Stores four matrices of 8 x 8 elements of 16 bits, whose row lane / 4 a thread holds in columns 2 (lane % 4) and the
/// next, in shared memory.
///
/// Called by a whole warp.
/// @param row      in shared memory, 16-byte aligned: of lane 8i + j, where row j of matrix i goes.
/// @param matrix0  to matrix3: the thread's two elements of each, lower column in the lower half.
/// Source: PTX ISA, "stmatrix".
__device__ __forceinline__ void store_matrices(uint32_t row, uint32_t matrix0, uint32_t matrix1, uint32_t matrix2,
                                               uint32_t matrix3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               :
               : "r"(row), "r"(matrix0), "r"(matrix1), "r"(matrix2), "r"(matrix3)
               : "memory");
}

/// Stores the first two matrices only: of `store_matrices`, rows of lanes 0 to 15. Source: PTX ISA, "stmatrix" (`.x2`).
__device__ __forceinline__ void store_two_matrices(uint32_t row, uint32_t matrix0, uint32_t matrix1) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};"
               :
               : "r"(row), "r"(matrix0), "r"(matrix1)
               : "memory");
}

/// Counts one arrival on the same barrier of another block of the cluster, or of the own one, without a fence for the
/// cluster: for threads that say that they have read something, and have written nothing that the other block reads.
///
/// `arrive_at_block` releases for the cluster, which on an H200 contains a fence of about 300 cycles; where a warpgroup
/// does that for each k-tile, products took 1.35 times as long, and 1.5 to 1.6 times with the waits that belong to it.
/// CUTLASS arrives so too (cutlass/arch/barrier.h). Source: PTX ISA, "mapa", "mbarrier.arrive" (`.shared::cluster`;
/// neither `.sem` nor `.scope`: release, block).
__device__ __forceinline__ void arrive_in_cluster(uint64_t* barrier, uint32_t rank) {
  asm volatile(
      "{\n\t"
      ".reg .b32 there;\n\t"
      "mapa.shared::cluster.u32 there, %0, %1;\n\t"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n\t"
      "}"
      :
      : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(barrier))), "r"(rank)
      : "memory");
}

/// The address, in the window of the cluster's shared memory, of what another block, or the own one, has at the same
/// place as this one. Any thread. Source: PTX ISA, "mapa".
__device__ __forceinline__ uint32_t address_in_block(const void* here, uint32_t rank) {
  uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(there)
      : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(here))), "r"(rank));
  return there;
}

/// Writes a word to shared memory of another block, asynchronously: its four bytes count at a barrier of that block.
/// `cuda::ptx::st_async` takes generic addresses, and computes these again for each store. Called by one thread.
/// @param to, barrier  by `address_in_block`.
/// Source: PTX ISA, "st.async".
__device__ __forceinline__ void store_async(uint32_t to, uint32_t value, uint32_t barrier) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];"
               :
               : "r"(to), "r"(value), "r"(barrier)
               : "memory");
}

/// How long L2 keeps what a copy brings, as the word that `.L2::cache_hint` takes.
/// Source: CUTLASS, cute/arch/copy_sm90_desc.hpp (TMA::CacheHintSm90).
enum class CacheHint : uint64_t {
  evict_normal = 0x1000000000000000,
  evict_first = 0x12f0000000000000,
  evict_last = 0x14f0000000000000,
};

/// Asks for a box of a matrix, for all `blocks` (a mask) of the cluster. Called by one thread.
/// Source: PTX ISA, "cp.async.bulk.tensor" (`.multicast::cluster`, `.L2::cache_hint`).
__device__ __forceinline__ void copy_box(void* to, const void* map, int32_t column, int32_t row, uint64_t* barrier,
                                         uint16_t blocks, CacheHint hint) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
      ".L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5, %6;"
      :
      : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))), "l"(map), "r"(column), "r"(row),
        "r"(static_cast<uint32_t>(__cvta_generic_to_shared(barrier))), "h"(blocks), "l"(static_cast<uint64_t>(hint))
      : "memory");
}

/// The same for the own block.
__device__ __forceinline__ void copy_box(void* to, const void* map, int32_t column, int32_t row, uint64_t* barrier,
                                         CacheHint hint) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1, {%2, %3}], [%4], %5;"
      :
      : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))), "l"(map), "r"(column), "r"(row),
        "r"(static_cast<uint32_t>(__cvta_generic_to_shared(barrier))), "l"(static_cast<uint64_t>(hint))
      : "memory");
}

/// Asks for a box to be written to a matrix; `cp.async.bulk.commit_group` makes a group of it. Called by one thread.
/// Source: PTX ISA, "cp.async.bulk.tensor" (`.bulk_group`, `.L2::cache_hint`).
__device__ __forceinline__ void store_box(const void* map, int32_t column, int32_t row, const void* from,
                                          CacheHint hint) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group.L2::cache_hint [%0, {%1, %2}], [%3], %4;"
               :
               : "l"(map), "r"(column), "r"(row), "r"(static_cast<uint32_t>(__cvta_generic_to_shared(from))),
                 "l"(static_cast<uint64_t>(hint))
               : "memory");
}

/// Writes four words to shared memory of another block of the cluster. Any thread.
/// @param to  by `address_in_block`; 16-byte aligned.
/// Source: PTX ISA, "st" (`.shared::cluster`).
__device__ __forceinline__ void store_in_block(uint32_t to, float4 values) {
  asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};"
               :
               : "r"(to), "f"(values.x), "f"(values.y), "f"(values.z), "f"(values.w)
               : "memory");
}

/// `store_matrices` with each matrix transposed: `row` of lane 8i + j is where column j of matrix i goes.
/// Source: PTX ISA, "stmatrix" (`.trans`).
__device__ __forceinline__ void store_matrices_transposed(uint32_t row, uint32_t matrix0, uint32_t matrix1,
                                                          uint32_t matrix2, uint32_t matrix3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
               :
               : "r"(row), "r"(matrix0), "r"(matrix1), "r"(matrix2), "r"(matrix3)
               : "memory");
}

/// The same for the first two.
__device__ __forceinline__ void store_two_matrices_transposed(uint32_t row, uint32_t matrix0, uint32_t matrix1) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};"
               :
               : "r"(row), "r"(matrix0), "r"(matrix1)
               : "memory");
}

}  // namespace stagecraft::ptx
