// The first CUDA program everybody writes: sums of two vectors, in single precision and in integers.
#include "report.hpp"

using namespace stagecraft::conformance;

template <typename T>
__global__ void add(const T* a, const T* b, T* sum, int size) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < size) sum[i] = a[i] + b[i];
}

template <typename T>
void run_add(Report& report, const char* name, int size, int threads, T (*value)(Random&)) {
  Random random(report.seed() * 1000003 + size);
  std::vector<T> a, b;
  for (int i = 0; i < size; ++i) {
    a.push_back(value(random));
    b.push_back(value(random));
  }
  const DeviceBuffer<T> device_a(a, "a"), device_b(b, "b");
  DeviceBuffer<T> sum(size, "the sum");
  sum.poison();
  add<<<(size + threads - 1) / threads, threads>>>(device_a.data(), device_b.data(), sum.data(), size);
  finish_kernel(name);
  report.section(name, sum.to_host());
}

int main(int argc, char** argv) {
  return run(argc, argv, [](Report& report) {
    const auto real = [](Random& random) { return random.uniform() * 1000.0f; };
    const auto integer = [](Random& random) { return static_cast<int>(random.bits()); };
    const auto wide = [](Random& random) { return static_cast<double>(random.uniform()) * 1e-3 + random.uniform(); };
    run_add<float>(report, "float, whole blocks", 4096, 256, real);
    run_add<float>(report, "float, a last block that is cut short", 1000, 192, real);
    run_add<float>(report, "float, one element", 1, 32, real);
    run_add<int>(report, "int, an odd block size", 777, 33, integer);
    run_add<double>(report, "double, blocks of 1024", 5000, 1024, wide);
  });
}
