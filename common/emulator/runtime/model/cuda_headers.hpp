// The toolkit's headers, so that what is implemented here has their signatures. The runtime API is what libcudart
// exports; everything else of the emulator stays hidden.
#pragma once

#pragma GCC visibility push(default)
#include <cuda_runtime_api.h>

// From cuda_profiler_api.h, which NVIDIA ships in a wheel of its own: not worth fetching for these two.
extern "C" cudaError_t cudaProfilerStart(void);
extern "C" cudaError_t cudaProfilerStop(void);
#pragma GCC visibility pop

// Implemented in libcudart under hidden names; libcuda.so.1 exports them (see exports/libcuda.cpp).
#include <cuda.h>
