// Stubs for the functions that libcudart exports and the emulated GPU does not have. Each says so once.
//
// The toolkit's headers are not included here, because a stub has no parameters and ignores those of its caller.
#include "emulator/runtime/exports/not_supported.hpp"

#define STAGECRAFT_DEFINED(name)
#define STAGECRAFT_STUB(name)                                             \
  extern "C" [[gnu::visibility("default")]] int name() noexcept {         \
    static bool reported = false;                                         \
    return stagecraft::emulator::runtime::not_supported(#name, reported); \
  }
#define STAGECRAFT_ALIAS(name, target)       // cudart_per_thread_stream.cpp
#define STAGECRAFT_PER_THREAD(name, target)  // cudart_per_thread_stream.cpp
#include "emulator/runtime/exports/cudart_exports.inc"
