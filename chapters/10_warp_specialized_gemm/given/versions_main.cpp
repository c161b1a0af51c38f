// Runs one version of the kernel, on one block that computes several tiles of C, and checks the product. For looking
// at: STAGECRAFT_TIMELINE=text build/gemm_versions two_warps. With sizes, on all multiprocessors:
// ./stagecraft time build/gemm_versions two_warps 2048 2048 1024
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <vector>

#include "gemm.hpp"
#include "harness/comparison.hpp"
#include "harness/device.hpp"
#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "harness/reference_product.hpp"
#include "verification.hpp"
#include "versions.hpp"

namespace {

using namespace stagecraft;
using namespace stagecraft::harness;
using Element = __nv_bfloat16;

constexpr int kBadOptions = 2;
constexpr struct {
  std::string_view name;
  GemmVersion version;
} kVersions[] = {{"one_warp", GemmVersion::one_warp},
                 {"two_warps", GemmVersion::two_warps},
                 {"store_warps", GemmVersion::store_warps},
                 {"two_accumulators", GemmVersion::two_accumulators}};

/// @param blocks  at most; 0: as many as there are multiprocessors.
bool multiply_and_verify(GemmVersion version, int64_t m, int64_t n, int64_t k, int blocks) {
  const std::vector<Element> a = random_operand<Element>(m * k, 1), b = random_operand<Element>(n * k, 2);
  const DeviceBuffer<Element> there_a(a, "A"), there_b(b, "B");
  DeviceBuffer<Element> there_c(m * n, "C");
  there_c.poison();
  launch_version(version, there_a.data(), there_b.data(), there_c.data(), m, n, k, blocks);
  finish_kernel("the kernel");
  const std::vector<Element> c = there_c.to_host();
  return compare<Element>(c, reference_product<Element>(a, b, m, n, k), gemm_tolerance<Element>(k)).wrong == 0;
}

}  // namespace

int main(int argc, char** argv) try {
  for (const auto& [name, version] : kVersions) {
    if ((argc != 2 && argc != 5) || name != argv[1]) continue;
    require_tcgen05(current_device());
    if (argc == 2) {
      const bool right = multiply_and_verify(version, 3 * 128, 128, 512, /*blocks=*/1);
      std::printf("%s: three tiles of C, of eight k-tiles each, by one block: %s\n", argv[1],
                  right ? "right" : "WRONG");
      return right ? 0 : 1;
    }
    const int64_t m = std::atoi(argv[2]), n = std::atoi(argv[3]), k = std::atoi(argv[4]);
    if (m < 1 || n < 1 || k < 8 || k % 8 != 0) break;
    const bool right = multiply_and_verify(version, m, n, k, /*blocks=*/0);
    std::printf("%s: %s x %s x %s: %s\n", argv[1], argv[2], argv[3], argv[4], right ? "right" : "WRONG");
    return right ? 0 : 1;
  }
  std::fprintf(stderr,
               "usage: gemm_versions one_warp|two_warps|store_warps|two_accumulators [M N K]\n"
               "K must be a multiple of 8: rows of A and B begin at multiples of 16 bytes.\n");
  return kBadOptions;
} catch (const std::exception& error) {
  std::fprintf(stderr, "gemm_versions: %s\n", error.what());
  return 1;
}
