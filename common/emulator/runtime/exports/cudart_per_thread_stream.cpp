// The functions of the runtime API for programs with a default stream per thread (per_thread_stream.hpp).
#include "emulator/runtime/exports/per_thread_stream.hpp"
#include "emulator/runtime/model/cuda_headers.hpp"

extern "C" cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                          size_t shared_bytes, cudaStream_t stream);

#define STAGECRAFT_DEFINED(name)
#define STAGECRAFT_STUB(name)
#define STAGECRAFT_ALIAS(name, target) STAGECRAFT_DEFINE_JUMP(name, STAGECRAFT_JUMP_TO(target));
#define STAGECRAFT_PER_THREAD(name, target) STAGECRAFT_DEFINE_PER_THREAD(name, target);
#include "emulator/runtime/exports/cudart_exports.inc"
