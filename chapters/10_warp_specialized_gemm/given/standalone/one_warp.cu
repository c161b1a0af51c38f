// Version 1: one warp loads and multiplies, in turns. All four store.
//
//     nvcc -gencode arch=compute_100a,code=sm_100a -std=c++20 one_warp.cu && ./a.out [M N K]
#include "harness/product_check.hpp"
#include "launch.cuh"
// Last, so that one file has the kernel right above main.
#include "one_warp.cuh"

using namespace stagecraft;
using Element = __nv_bfloat16;

int main(int argc, char** argv) {
  return harness::check_sizes(argc, argv, [](harness::ProductSizes sizes) {
    return harness::check_product<Element>(sizes, [&](const Element* a, const Element* b, Element* c) {
      launch(gemm_one_warp<Element>, make_problem<Element>(a, b, c, sizes.m, sizes.n, sizes.k), kStoreWarps * kWarpSize,
             /*stages=*/1, /*blocks=*/0);
    });
  });
}
