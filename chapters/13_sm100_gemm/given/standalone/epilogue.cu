// Part one: an epilogue adds a bias and rounds, slice by slice, and TMA stores. N and K are multiples of 8.
//
//     nvcc -gencode arch=compute_100a,code=sm_100a -std=c++20 epilogue.cu && ./a.out [M N K]
#include "harness/device.hpp"
#include "harness/product_check.hpp"
// Last, so that one file has the kernel right above main.
#include "gemm_launch.cuh"

using namespace stagecraft;

int main(int argc, char** argv) {
  return harness::check_sizes(argc, argv, [](harness::ProductSizes sizes) {
    const std::vector<float> bias = harness::random_values<float>(sizes.n, 4);
    const harness::DeviceBuffer<float> there(bias, "the bias");
    const auto launch = [&](const Operand* a, const Operand* b, Operand* d) {
      start_gemm</*TileN=*/128>(a, b, Epilogue{AddPerColumn<float>{{there.data()}}}, d, sizes.m, sizes.n, sizes.k,
                                /*blocks=*/harness::current_device().multiProcessorCount);
    };
    return harness::check_product<Operand>(sizes, launch,
                                           [&](double sum, size_t column) { return sum + bias[column]; });
  });
}
