// Version 2: a warp loads and a warp multiplies, with a ring of tiles between them. All four store.
//
//     nvcc -gencode arch=compute_100a,code=sm_100a -std=c++20 two_warps.cu && ./a.out [M N K]
#include "harness/product_check.hpp"
#include "launch.cuh"
// Last, so that one file has the kernel right above main.
#include "two_warps.cuh"

using namespace stagecraft;
using Element = __nv_bfloat16;

int main(int argc, char** argv) {
  return harness::check_sizes(argc, argv, [](harness::ProductSizes sizes) {
    return harness::check_product<Element>(sizes, [&](const Element* a, const Element* b, Element* c) {
      launch(gemm_two_warps<Element, /*Stages=*/4>, make_problem<Element>(a, b, c, sizes.m, sizes.n, sizes.k),
             kStoreWarps * kWarpSize, /*stages=*/4, /*blocks=*/0);
    });
  });
}
