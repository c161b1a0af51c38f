// Measures how fast the emulated GPU executes ordinary instructions, and the same product in C++ on the same core.
#include <benchmark/benchmark.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "emulator_counters.hpp"
#include "matrix_product.cuh"

namespace {

constexpr int kSize = 256;
constexpr int kTile = 16;

void require(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(EXIT_FAILURE);
}

std::vector<float> random_matrix(unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> matrix(kSize * kSize);
  for (float& element : matrix) element = uniform(random);
  return matrix;
}

void multiply_on_host(const std::vector<float>& a, const std::vector<float>& b, std::vector<float>& c) {
  for (int row = 0; row < kSize; ++row) {
    for (int column = 0; column < kSize; ++column) {
      float sum = 0;
      for (int k = 0; k < kSize; ++k) sum = std::fma(a[row * kSize + k], b[k * kSize + column], sum);
      c[row * kSize + column] = sum;
    }
  }
}

double rate = 0;

void emulated_product(benchmark::State& state) {
  const std::vector<float> a = random_matrix(1), b = random_matrix(2);
  std::vector<float> expected(kSize * kSize), result(kSize * kSize);
  multiply_on_host(a, b, expected);
  const size_t bytes = sizeof(float) * kSize * kSize;
  float *device_a = nullptr, *device_b = nullptr, *device_c = nullptr;
  require(cudaMalloc(&device_a, bytes), "cudaMalloc");
  require(cudaMalloc(&device_b, bytes), "cudaMalloc");
  require(cudaMalloc(&device_c, bytes), "cudaMalloc");
  require(cudaMemcpy(device_a, a.data(), bytes, cudaMemcpyDefault), "cudaMemcpy");
  require(cudaMemcpy(device_b, b.data(), bytes, cudaMemcpyDefault), "cudaMemcpy");
  const dim3 block(kTile, kTile), grid(kSize / kTile, kSize / kTile);

  double instructions = 0, seconds = 0;
  for (auto iteration : state) {
    const EmulatorCounters before = emulator_counters();
    matrix_product<<<grid, block>>>(device_a, device_b, device_c, kSize);
    require(cudaDeviceSynchronize(), "matrix_product");
    const EmulatorCounters after = emulator_counters();
    const auto executed = static_cast<double>(after.thread_instructions - before.thread_instructions);
    const double time = after.seconds_in_kernels - before.seconds_in_kernels;
    instructions += executed;
    seconds += time;
  }
  rate = instructions / seconds;
  state.counters["thread instructions/s"] = rate;

  require(cudaMemcpy(result.data(), device_c, bytes, cudaMemcpyDefault), "cudaMemcpy");
  if (result != expected) state.SkipWithError("the product is wrong");
  cudaFree(device_a);
  cudaFree(device_b);
  cudaFree(device_c);
}

void host_product(benchmark::State& state) {
  const std::vector<float> a = random_matrix(1), b = random_matrix(2);
  std::vector<float> c(kSize * kSize);
  for (auto iteration : state) {
    multiply_on_host(a, b, c);
    benchmark::DoNotOptimize(c.data());
  }
}

BENCHMARK(emulated_product)->Unit(benchmark::kMillisecond)->MinTime(2);
BENCHMARK(host_product)->Unit(benchmark::kMillisecond);

}  // namespace

int main(int argc, char** argv) {
  setenv("STAGECRAFT_THREADS", "1", 1);  // the rate is that of one core
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return EXIT_FAILURE;
  if (benchmark::RunSpecifiedBenchmarks() == 0 || rate == 0) return EXIT_FAILURE;
  std::printf("thread instructions per second: %.0f\n", rate);
}
