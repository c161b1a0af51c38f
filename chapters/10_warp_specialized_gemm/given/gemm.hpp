// The product as the host calls it.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "stagecraft/element.hpp"
#include "stagecraft/errors.hpp"

namespace stagecraft {

/// The name of a product of this type of operands, and the type of its result. Sums are kept in f32 for all operands.
///
/// C is rounded to the operands' type where the next product takes that type: bf16, f16. Products of tf32 stay f32,
/// because tf32 is not a type to store. Those of fp8 stay f32 too: a matrix that is stored in fp8 is scaled, and only
/// the caller knows by how much; a sum that was rounded before it is scaled cannot be corrected.
template <typename Element>
struct GemmType;
template <>
struct GemmType<__nv_bfloat16> {
  using Operand = __nv_bfloat16;                                         ///< elements of A and B in memory
  using Output = __nv_bfloat16;                                          ///< elements of C
  static constexpr const char *name = "bf16", *with_article = "a bf16";  ///< for people
};
template <>
struct GemmType<__half> {
  using Operand = __half;
  using Output = __half;
  static constexpr const char *name = "f16", *with_article = "an f16";
};
template <>
struct GemmType<tf32> {
  using Operand = float;  // TMA makes tf32 of it
  using Output = float;
  static constexpr const char *name = "tf32", *with_article = "a tf32";
};
template <>
struct GemmType<__nv_fp8_e4m3> {
  using Operand = __nv_fp8_e4m3;
  using Output = float;
  static constexpr const char *name = "e4m3", *with_article = "an e4m3";
};
template <>
struct GemmType<__nv_fp8_e5m2> {
  using Operand = __nv_fp8_e5m2;
  using Output = float;
  static constexpr const char *name = "e5m2", *with_article = "an e5m2";
};

template <typename Element>
using GemmOutput = typename GemmType<Element>::Output;
template <typename Element>
using GemmOperand = typename GemmType<Element>::Operand;

/// The largest M, N and K: 65535 tiles of 128.
inline constexpr int64_t kLargestGemmSize = 65535 * 128;

/// K must be a multiple of this: rows start on 16-byte boundaries then.
template <typename Element>
inline constexpr int64_t kGemmMultipleOfK = 16 / sizeof(Element);

/// Throws IllegalProblem, saying what is legal, for sizes that the kernel cannot take.
/// @param m, n, k  1 to kLargestGemmSize; k a multiple of kGemmMultipleOfK<Element>.
template <typename Element>
void require_legal_sizes(int64_t m, int64_t n, int64_t k) {
  const auto require_legal = [](const char* name, int64_t size) {
    if (size >= 1 && size <= kLargestGemmSize) return;
    throw IllegalProblem("%s = %lld is too %s. Legal are 1 to %lld.", name, static_cast<long long>(size),
                         size < 1 ? "small" : "large", static_cast<long long>(kLargestGemmSize));
  };
  require_legal("M", m);
  require_legal("N", n);
  require_legal("K", k);
  constexpr int64_t kMultiple = kGemmMultipleOfK<Element>;
  if (k % kMultiple != 0) {
    throw IllegalProblem(
        "K = %lld is not a multiple of %lld: %s row would start off a 16-byte boundary, which the tensor map cannot "
        "address. Pad K to %lld.",
        static_cast<long long>(k), static_cast<long long>(kMultiple), GemmType<Element>::with_article,
        static_cast<long long>((k + kMultiple - 1) / kMultiple * kMultiple));
  }
}

/// Starts C = A * B transposed on the current device, in the default stream.
///
/// All matrices are row-major in device memory, A and B 16-byte aligned: A is m x k, B is n x k, C is m x n.
/// @tparam Element  __nv_bfloat16, __half, tf32, __nv_fp8_e4m3 or __nv_fp8_e5m2.
/// @param blocks  how many share the work at most; 0: one for each multiprocessor.
/// @throws IllegalProblem as `require_legal_sizes`, TensorMapError for a misaligned address, harness::CudaError
/// when the launch fails. What goes wrong
///         while the kernel runs, the next synchronising call reports.
template <typename Element>
void launch_gemm(const GemmOperand<Element>* a, const GemmOperand<Element>* b, GemmOutput<Element>* c, int64_t m,
                 int64_t n, int64_t k, int blocks = 0);

}  // namespace stagecraft
