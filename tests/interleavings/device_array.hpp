// Device memory of the programs here, which end before anything would have to be freed.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>

/// Returns device memory for so many zeros. Ends the program where there is none.
template <typename Element>
Element* zeros(size_t count) {
  Element* array = nullptr;
  if (cudaMalloc(&array, count * sizeof(Element)) != cudaSuccess ||
      cudaMemset(array, 0, count * sizeof(Element)) != cudaSuccess) {
    std::fprintf(stderr, "no device memory for %zu elements\n", count);
    std::exit(2);
  }
  return array;
}

/// Returns the exit status of a program that has started its kernels.
inline int finish() {
  const cudaError_t error = cudaDeviceSynchronize();
  if (error != cudaSuccess) std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  return error == cudaSuccess ? 0 : 1;
}
