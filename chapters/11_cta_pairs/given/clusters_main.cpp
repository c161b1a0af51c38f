// Runs the kernel in one cluster, where every block has the same number of multiplications to do, and checks the
// product. For looking at: STAGECRAFT_TIMELINE=text build/gemm_clusters pair
#include <cstdio>
#include <exception>
#include <string_view>
#include <vector>

#include "clusters.hpp"
#include "harness/comparison.hpp"
#include "harness/device.hpp"
#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "harness/random.hpp"
#include "harness/reference_product.hpp"

namespace {

using namespace stagecraft;
using namespace stagecraft::harness;
using Element = __nv_bfloat16;

constexpr int kBadOptions = 2;
constexpr int kK = 512;
constexpr struct {
  std::string_view name;
  ClusterKind kind;
} kClusters[] = {{"one_block", ClusterKind::one_block},
                 {"two_down", ClusterKind::two_down},
                 {"two_across", ClusterKind::two_across},
                 {"square", ClusterKind::square},
                 {"pair", ClusterKind::pair},
                 {"two_pairs", ClusterKind::two_pairs},
                 {"four_pairs", ClusterKind::four_pairs}};

/// Columns of C for which each block computes four times 128 x 128 elements.
int columns(const ClusterWork& work) { return 4 * 128 * 128 * work.blocks / work.rows_of_c; }

bool multiply_and_verify(ClusterKind kind) {
  const ClusterWork work = work_of(kind);
  const int m = work.rows_of_c, n = columns(work);
  const std::vector<Element> a = random_values<Element>(m * kK, 1), b = random_values<Element>(n * kK, 2);
  const DeviceBuffer<Element> there_a(a, "A"), there_b(b, "B");
  DeviceBuffer<float> there_c(m * n, "C");
  there_c.poison();
  launch_by_one_cluster(kind, there_a.data(), there_b.data(), there_c.data(), m, n, kK);
  finish_kernel("the kernel");
  const std::vector<float> c = there_c.to_host();
  return compare<float>(c, reference_product<Element>(a, b, m, n, kK), {.k = kK, .output_epsilon = 0x1p-24}).wrong == 0;
}

void print_table() {
  std::printf(
      "            blocks   tile of C   a block, for a k-tile:  loads  holds   multiply-adds for each byte loaded\n");
  for (const auto& [name, kind] : kClusters) {
    const ClusterWork work = work_of(kind);
    const int multiply_adds = work.rows_of_c * work.columns_of_c / work.blocks * 64;
    std::printf("%-10.*s %7d %5d x %4d %28d KiB %3d KiB %18d\n", static_cast<int>(name.size()), name.data(),
                work.blocks, work.rows_of_c, work.columns_of_c, work.loaded / 1024, work.held / 1024,
                multiply_adds / work.loaded);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc == 1) {
    print_table();
    return 0;
  }
  for (const auto& [name, kind] : kClusters) {
    if (argc != 2 || name != argv[1]) continue;
    require_tcgen05(current_device());
    const bool right = multiply_and_verify(kind);
    const ClusterWork work = work_of(kind);
    std::printf("%s: %d x %d elements of C, of eight k-tiles each, by %d block%s: %s\n", argv[1], work.rows_of_c,
                columns(work), work.blocks, work.blocks == 1 ? "" : "s", right ? "right" : "WRONG");
    return right ? 0 : 1;
  }
  std::fprintf(stderr, "usage: gemm_clusters [one_block|two_down|two_across|square|pair|two_pairs|four_pairs]\n");
  return kBadOptions;
} catch (const std::exception& error) {
  std::fprintf(stderr, "gemm_clusters: %s\n", error.what());
  return 1;
}
