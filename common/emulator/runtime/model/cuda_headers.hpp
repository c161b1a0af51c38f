// The toolkit's headers, so that the functions implemented here have their signatures. libcudart exports the runtime
// API; everything else of the emulator stays hidden.
#pragma once

#pragma GCC visibility push(default)
#include <cuda_runtime_api.h>

// From cuda_profiler_api.h, which NVIDIA ships in a separate wheel; these two functions are not worth fetching it.
extern "C" cudaError_t cudaProfilerStart(void);
extern "C" cudaError_t cudaProfilerStop(void);
#pragma GCC visibility pop

// Implemented in libcudart under hidden names; libcuda.so.1 exports them (see exports/libcuda.cpp).
#include <cuda.h>
