// A product on Hopper's tensor cores from a program outside of this repository:
//   g++ hopper_gemm.cpp $(pkg-config --cflags --libs stagecraft_hopper)
// and then ./a.out on a machine with an H100 or H200, or stagecraft run --device h200 ./a.out on any.
#include <cstdio>
#include <exception>
#include <vector>

#include "stagecraft/hopper_gemm/twin.hpp"

using namespace stagecraft;

int report(const char* message) {
  std::fprintf(stderr, "%s\n", message);
  return 1;
}

int main() try {
  // C (m x n) = A (m x k) * B (n x k) transposed, in bf16.
  const int64_t m = 300, n = 200, k = 512;
  const std::vector<__nv_bfloat16> ones(m * k, __nv_bfloat16(1.0f));
  void *a = nullptr, *b = nullptr, *c = nullptr;
  if (cudaMalloc(&a, m * k * 2) || cudaMalloc(&b, n * k * 2) || cudaMalloc(&c, m * n * 2)) {
    return report("there is not enough memory on the device");
  }
  cudaMemcpy(a, ones.data(), m * k * 2, cudaMemcpyHostToDevice);
  cudaMemcpy(b, ones.data(), n * k * 2, cudaMemcpyHostToDevice);

  const MatrixProduct product{
      .type = OperandType::bf16, .a = a, .b = b, .c = static_cast<__nv_bfloat16*>(c), .m = m, .n = n, .k = k};
  const TwinChoice choice = choose_twin(product);
  std::printf("configuration: %s\n", name_of(choice.kind));
  const Launch launch = prepare_twin(choice, product);  // once
  launch(/*stream=*/nullptr);                           // as often as needed

  std::vector<__nv_bfloat16> result(m * n);
  if (cudaMemcpy(result.data(), c, m * n * 2, cudaMemcpyDeviceToHost)) return report("the kernel failed");
  for (const __nv_bfloat16 element : result) {
    if (static_cast<float>(element) != static_cast<float>(k)) return report("an element is wrong");
  }
  std::printf("%zu elements are %d\n", result.size(), static_cast<int>(k));
} catch (const std::exception& error) {
  return report(error.what());
}
