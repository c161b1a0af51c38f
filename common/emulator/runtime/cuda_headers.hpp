// The toolkit's headers, so that what is implemented here has their signatures. The runtime API is what libcudart
// exports; everything else of the emulator stays hidden.
#pragma once

#pragma GCC visibility push(default)
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>
#pragma GCC visibility pop

// Implemented in libcudart under hidden names; libcuda.so.1 exports them (see driver_forward.cpp).
#include <cuda.h>
