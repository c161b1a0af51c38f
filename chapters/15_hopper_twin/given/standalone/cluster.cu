// Version 3: as version 1, by clusters of two blocks that share tiles of B. N and K are multiples of 8.
//
//     nvcc -gencode arch=compute_90a,code=sm_90a -std=c++20 cluster.cu && ./a.out [M N K]
#include "harness/device.hpp"
#include "harness/product_check.hpp"
// Last, so that one file has the kernel right above main.
#include "gemm_launch.cuh"

using namespace stagecraft;
using Element = __nv_bfloat16;

int main(int argc, char** argv) {
  return harness::check_sizes(argc, argv, [](harness::ProductSizes sizes) {
    return harness::check_product<Element>(sizes, [&](const Element* a, const Element* b, Element* d) {
      start_gemm<Config<Consumers::cooperative, 128, ClusterShape<2, 1>>>(
          a, b, Epilogue<>{}, d, sizes.m, sizes.n, sizes.k,
          /*clusters=*/harness::current_device().multiProcessorCount / 2);
    });
  });
}
