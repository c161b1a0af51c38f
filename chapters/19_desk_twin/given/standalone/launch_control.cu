// The kernel for an RTX 50, in bf16: launch control hands out the tiles. N and K are multiples of 8.
//
//     nvcc -gencode arch=compute_120a,code=sm_120a -std=c++20 launch_control.cu && ./a.out [M N K]
#include "harness/product_check.hpp"
#include "stagecraft/launch_control.hpp"
// Last, so that one file has the kernel right above main.
#include "gemm_launch.cuh"

using namespace stagecraft;
using Element = __nv_bfloat16;

int main(int argc, char** argv) {
  return harness::check_sizes(argc, argv, [](harness::ProductSizes sizes) {
    return harness::check_product<Element>(sizes, [&](const Element* a, const Element* b, Element* d) {
      start_gemm<Config<Element>, LaunchControlScheduler<WholeTiles<>>>(a, b, Epilogue<>{}, d, sizes.m, sizes.n,
                                                                        sizes.k,
                                                                        /*blocks=*/0);  // the hardware knows
    });
  });
}
