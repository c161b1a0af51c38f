// A program of two units, as `nvcc -rdc=true` builds it from the command line: functions, variables and pointers to
// functions of one unit in the kernels of the other, and the host's copies to them.
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

#include "answer.cuh"

namespace {

__global__ void ask(uint32_t* results) {
  const Operation apply = operation();
  results[threadIdx.x] = apply(answer(threadIdx.x));
}

bool succeeded(cudaError_t error, const char* what) {
  if (error != cudaSuccess) std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  return error == cudaSuccess;
}

}  // namespace

int main() {
  std::vector<uint32_t> added(kAnswers), results(kAnswers);
  for (uint32_t i = 0; i < kAnswers; ++i) added[i] = 1000 + 7 * i;
  const uint32_t changed_factor = 5;
  const size_t bytes = kAnswers * sizeof(uint32_t);
  uint32_t* on_device = nullptr;
  if (!succeeded(cudaMemcpyToSymbol(offsets, added.data(), bytes), "offsets") ||
      !succeeded(cudaMemcpyToSymbol(factor, &changed_factor, sizeof changed_factor), "factor") ||
      !succeeded(cudaMalloc(&on_device, bytes), "cudaMalloc")) {
    return 1;
  }
  ask<<<1, kAnswers>>>(on_device);
  if (!succeeded(cudaGetLastError(), "ask") ||
      !succeeded(cudaMemcpy(results.data(), on_device, bytes, cudaMemcpyDeviceToHost), "results") ||
      !succeeded(cudaFree(on_device), "cudaFree")) {
    return 1;
  }
  for (uint32_t i = 0; i < kAnswers; ++i) {
    const uint32_t answer = changed_factor * i + added[i];
    if (results[i] == answer * answer) continue;
    std::fprintf(stderr, "the answer to %u is %u; expected %u\n", i, results[i], answer * answer);
    return 1;
  }
}
