// Part two: the complete kernel, in pairs of blocks that share tiles, dealt out by launch control. K is a multiple
// of 8.
//
//     nvcc -gencode arch=compute_100a,code=sm_100a -std=c++20 complete.cu && ./a.out [M N K]
#include <stdexcept>

#include "harness/product_check.hpp"
#include "stagecraft/gemm/host_launch.cuh"
// Last, so that one file has the kernel right above main.
#include "complete_gemm.cuh"

using namespace stagecraft;
using Element = __nv_bfloat16;

/// What the kernel is compiled for: more is in GemmConfig.
constexpr GemmConfig kConfig{
    .tile_m = 256, .tile_n = 256, .cta_group = 2, .cluster_m = 2, .cluster_n = 1, .launch_control = true};

int main(int argc, char** argv) {
  return harness::check_sizes(argc, argv, [](harness::ProductSizes sizes) {
    const int64_t m = sizes.m, n = sizes.n, k = sizes.k;
    return harness::check_product<Element>(sizes, [&](const Element* a, const Element* b, Element* d) {
      const GemmLaunch launch{.problem = {.m = m,
                                          .n = n,
                                          .k = k,
                                          .a = {.pitch = k, .batch_stride = m * k},
                                          .b = {.pitch = k, .batch_stride = n * k},
                                          .d = {.type = DataType::bf16, .pitch = n, .batch_stride = m * n}},
                              .arguments = {.a = a, .b = b, .d = d},
                              .has_d_map = n % 8 == 0};
      if (const auto error = launch_gemm<kConfig>(launch)) throw std::runtime_error(error->message);
    });
  });
}
