// The functions that programs call when they were compiled with `nvcc --default-stream per-thread`. Their names end in
// _ptsz or _ptds. They are the plain functions, except that a null stream, passed or implied, means that of the calling
// thread.
#pragma once

#include "emulator/runtime/exports/jumps.hpp"
#include "emulator/runtime/model/streams.hpp"

// Deprecated functions have this form, too.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace stagecraft::emulator::runtime {

template <auto Function>
struct WithPerThreadStream;
template <typename Result, typename... Parameters, Result (*Function)(Parameters...)>
struct WithPerThreadStream<Function> {
  static Result call(Parameters... parameters) {
    const PerThreadDefault scope;
    return Function(parameters...);
  }
};

}  // namespace stagecraft::emulator::runtime

/// Defines `name` as `target` with the stream of the calling thread.
#define STAGECRAFT_DEFINE_PER_THREAD(name, target)                                                 \
  extern "C" [[gnu::visibility("hidden"), gnu::used]] void* const stagecraft_per_thread_##name =   \
      reinterpret_cast<void*>(&stagecraft::emulator::runtime::WithPerThreadStream<&target>::call); \
  STAGECRAFT_DEFINE_JUMP(name, STAGECRAFT_JUMP_THROUGH(stagecraft_per_thread_##name))
