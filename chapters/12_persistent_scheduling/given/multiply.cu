// Multiplies by the chapter's kernel with one of its schedules, on all multiprocessors, and checks the product. For
// `./stagecraft time build/gemm_schedules panels 3072 3072 512`.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "harness/comparison.hpp"
#include "harness/device.hpp"
#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "harness/random.hpp"
#include "harness/reference_product.hpp"
#include "launch.cuh"
#include "launch_control.hpp"

namespace {

using namespace stagecraft;
using namespace stagecraft::harness;
using Tiles = WholeTiles<>;

void start(std::string_view schedule, const Problem& problem) {
  constexpr RasterOptions kColumns{.order = RasterOrder::along_m, .width = 1};
  constexpr RasterOptions kPanels{.order = RasterOrder::along_m, .width = 12};
  const Tiles in_columns{problem.tiles(), kColumns}, in_panels{problem.tiles(), kPanels};
  const auto blocks = static_cast<uint32_t>(current_device().multiProcessorCount);
  if (schedule == "one_tile") return launch_gemm<StaticScheduler<Tiles>>(problem, in_columns, in_columns.units());
  if (schedule == "columns") return launch_gemm<StaticScheduler<Tiles>>(problem, in_columns, blocks);
  if (schedule == "panels") return launch_gemm<StaticScheduler<Tiles>>(problem, in_panels, blocks);
  if (schedule == "launch_control") {
    return launch_gemm<LaunchControlScheduler<Tiles, kAccumulators + 1>>(problem, in_panels, blocks);
  }
  throw std::runtime_error("there is no such schedule: one_tile, columns, panels, launch_control");
}

bool multiply_and_verify(std::string_view schedule, int m, int n, int k) {
  const std::vector<Element> a = random_values<Element>(size_t(m) * k, 1), b = random_values<Element>(size_t(n) * k, 2);
  const DeviceBuffer<Element> there_a(a, "A"), there_b(b, "B");
  DeviceBuffer<float> there_c(size_t(m) * n, "C");
  there_c.poison();
  start(schedule, make_problem(there_a.data(), there_b.data(), there_c.data(), m, n, k));
  finish_kernel("gemm");
  const ProductTolerance tolerance{.k = static_cast<size_t>(k), .output_epsilon = kRounding<float>};
  return compare<float>(there_c.to_host(), reference_product<Element>(a, b, m, n, k), tolerance).wrong == 0;
}

}  // namespace

int main(int argc, char** argv) try {
  const int m = argc == 5 ? std::atoi(argv[2]) : 0, n = argc == 5 ? std::atoi(argv[3]) : 0;
  const int k = argc == 5 ? std::atoi(argv[4]) : 0;
  if (m < 1 || n < 1 || k < 8 || k % 8 != 0) {
    std::fprintf(stderr,
                 "usage: gemm_schedules one_tile|columns|panels|launch_control M N K\n"
                 "K must be a multiple of 8: rows of A and B begin at multiples of 16 bytes.\n");
    return 2;
  }
  require_tcgen05(current_device());
  const bool right = multiply_and_verify(argv[1], m, n, k);
  std::printf("%s: %d x %d x %d: %s\n", argv[1], m, n, k, right ? "right" : "WRONG");
  return right ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "gemm_schedules: %s\n", error.what());
  return 1;
}
