// For functions that programs call which were compiled with `nvcc --default-stream per-thread` (_ptsz, _ptds): they are
// the plain ones, but a null stream, given or meant, is that of the calling thread.
#pragma once

#include "emulator/runtime/exports/jumps.hpp"
#include "emulator/runtime/model/streams.hpp"

// Deprecated functions have such a form, too.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace stagecraft::emulator::runtime {

template <auto Function>
struct WithOwnStream;
template <typename Result, typename... Parameters, Result (*Function)(Parameters...)>
struct WithOwnStream<Function> {
  static Result call(Parameters... parameters) {
    const PerThreadDefault scope;
    return Function(parameters...);
  }
};

}  // namespace stagecraft::emulator::runtime

/// Defines `name` as `target` with the stream of the calling thread.
#define STAGECRAFT_DEFINE_PER_THREAD(name, target)                                              \
  extern "C" [[gnu::visibility("hidden"), gnu::used]] void* const stagecraft_of_thread_##name = \
      reinterpret_cast<void*>(&stagecraft::emulator::runtime::WithOwnStream<&target>::call);    \
  STAGECRAFT_DEFINE_JUMP(name, STAGECRAFT_JUMP_THROUGH(stagecraft_of_thread_##name))
