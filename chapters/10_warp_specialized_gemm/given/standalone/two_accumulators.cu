// Version 4: as version 3, but one accumulator is summed while the other is stored.
//
//     nvcc -gencode arch=compute_100a,code=sm_100a -std=c++20 two_accumulators.cu && ./a.out [M N K]
#include "harness/product_check.hpp"
#include "launch.cuh"
// Last, so that one file has the kernel right above main.
#include "gemm.cuh"

using namespace stagecraft;
using Element = __nv_bfloat16;

int main(int argc, char** argv) {
  return harness::check_sizes(argc, argv, [](harness::ProductSizes sizes) {
    return harness::check_product<Element>(sizes, [&](const Element* a, const Element* b, Element* c) {
      launch(gemm<Element, /*Stages=*/4, /*Accumulators=*/2>, make_problem<Element>(a, b, c, sizes.m, sizes.n, sizes.k),
             kGemmThreads, /*stages=*/4, /*blocks=*/0);
    });
  });
}
