// The kernel that the course ends with, on a small product. The lesson takes one of its warps away.
#include <cstdio>
#include <cstdlib>

#include "harness/kernel_run.hpp"
#include "harness/product_check.hpp"
#include "stagecraft/gemm/launch.cuh"

using namespace stagecraft;
using Element = __nv_bfloat16;
using Types = GemmTypes<GemmConfig{}>;

//! [warps]
constexpr int kWarps = 8;  // one copies, one multiplies, one schedules, one loads what is added, four store
//! [warps]

/// One block computes three tiles of D (m x n) = A (m x k) * B (n x k) transposed. Its argument, a number of warps,
/// takes the place of kWarps.
int main(int argc, char** argv) try {
  const int warps = argc > 1 ? std::atoi(argv[1]) : kWarps;
  constexpr int64_t m = 384, n = 128, k = 256;
  const auto multiply = [&](const Element* a, const Element* b, Element* d) {
    auto parameters = detail::parameters_of<Types>({.problem = {.m = m,
                                                                .n = n,
                                                                .k = k,
                                                                .a = {.pitch = k, .batch_stride = m * k},
                                                                .b = {.pitch = k, .batch_stride = n * k},
                                                                .d = {.type = DataType::bf16, .pitch = n}},
                                                    .arguments = {.a = a, .b = b, .d = d},
                                                    .has_d_map = true});
    LaunchOptions options = detail::launch_options<Types>();
    options.grid = Types::Scheduler::grid(parameters.tiles, /*clusters=*/1);
    options.block = warps * kWarpSize;
    harness::check(launch_kernel(gemm_kernel<Types>, options, parameters), "launch the kernel");
    harness::finish_kernel("the kernel");
  };
  return harness::check_product<Element>({m, n, k}, multiply) ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "finished: %s\n", error.what());
  return 1;
}
