// Describes the matrices to the copy engine and launches one block per tile of C.
#include <stdexcept>
#include <string>

#include "gemm.cuh"
#include "gemm.hpp"
#include "harness/cuda_error.hpp"
#include "stagecraft/tensor_map.hpp"

namespace stagecraft {
namespace {

constexpr int kTileM = 128;
constexpr int kTileN = 128;
constexpr int kTileK = 64;
constexpr int kStages = 4;

void require_legal(const char* name, int64_t size) {
  if (size >= 1 && size <= kLargestGemmSize) return;
  throw std::invalid_argument(std::string(name) + " = " + std::to_string(size) + " is too " +
                              (size < 1 ? "small" : "large") + ". Legal are 1 to " + std::to_string(kLargestGemmSize) +
                              ".");
}

}  // namespace

void require_legal_sizes(int64_t m, int64_t n, int64_t k) {
  require_legal("M", m);
  require_legal("N", n);
  require_legal("K", k);
  if (k % 8 != 0) {
    throw std::invalid_argument("K = " + std::to_string(k) +
                                " is not a multiple of 8: a bf16 row would start off a 16-byte boundary, which the "
                                "tensor map cannot address. Pad K to " +
                                std::to_string((k + 7) / 8 * 8) + ".");
  }
}

void launch_gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int64_t m, int64_t n, int64_t k) {
  require_legal_sizes(m, n, k);

  const CUtensorMap a_map = make_matrix_map(a, m, k, kTileM, kTileK, Swizzle::bytes_128);
  const CUtensorMap b_map = make_matrix_map(b, n, k, kTileN, kTileK, Swizzle::bytes_128);
  const auto kernel = gemm<kTileM, kTileN, kTileK, kStages>;
  constexpr int kSharedBytes = sizeof(Tiles<kTileM, kTileN, kTileK, kStages>);
  harness::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
                 "reserve " + std::to_string(kSharedBytes) + " bytes of shared memory for the tiles");

  const dim3 tiles((m + kTileM - 1) / kTileM, (n + kTileN - 1) / kTileN);
  kernel<<<tiles, kThreads, kSharedBytes>>>(a_map, b_map, c, m, n, k);
  harness::check(cudaGetLastError(), "launch the kernel");
}

}  // namespace stagecraft
