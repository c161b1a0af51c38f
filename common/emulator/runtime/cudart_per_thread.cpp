// The functions that programs call which were compiled with `nvcc --default-stream per-thread` (_ptsz, _ptds): they are
// the plain ones, but a null stream, given or meant, is that of the calling thread.
#include "emulator/runtime/cuda_headers.hpp"
#include "emulator/runtime/other_names.hpp"
#include "emulator/runtime/streams.hpp"

// Deprecated functions have such a form, too.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

extern "C" cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                          size_t shared_bytes, cudaStream_t stream);

namespace stagecraft::emulator::runtime {
namespace {

template <auto Function>
struct WithOwnStream;
template <typename Result, typename... Parameters, Result (*Function)(Parameters...)>
struct WithOwnStream<Function> {
  static Result call(Parameters... parameters) {
    const PerThreadDefault scope;
    return Function(parameters...);
  }
};

}  // namespace
}  // namespace stagecraft::emulator::runtime

#define STAGECRAFT_DEFINED(name)
#define STAGECRAFT_STUB(name)
#define STAGECRAFT_ALIAS(name, target)                                                          \
  extern "C" [[gnu::visibility("hidden"), gnu::used]] void* const stagecraft_of_thread_##name = \
      reinterpret_cast<void*>(&stagecraft::emulator::runtime::WithOwnStream<&target>::call);    \
  STAGECRAFT_DEFINE_JUMP(name, STAGECRAFT_JUMP_THROUGH(stagecraft_of_thread_##name));
#include "emulator/runtime/cudart_exports.inc"
