// libcuda.so.1: every function of the driver jumps to the function of the same name in libcudart.so.13, which owns the
// emulated GPU. So a process that loads both has one emulated GPU.
#include "emulator/runtime/exports/jumps.hpp"

extern "C" void* stagecraft_driver_function(const char* name);

// One pointer for each function, filled in when the library is loaded.
#define STAGECRAFT_SLOT(name)                                                      \
  extern "C" {                                                                     \
  [[gnu::visibility("hidden"), gnu::used]] void* stagecraft_slot_##name = nullptr; \
  }                                                                                \
  STAGECRAFT_DEFINE_JUMP(name, STAGECRAFT_JUMP_THROUGH(stagecraft_slot_##name));
#define STAGECRAFT_DEFINED(name) STAGECRAFT_SLOT(name)
#define STAGECRAFT_STUB(name) STAGECRAFT_SLOT(name)
#define STAGECRAFT_ALIAS(name, target) STAGECRAFT_SLOT(name)
#define STAGECRAFT_PER_THREAD(name, target) STAGECRAFT_SLOT(name)
#include "emulator/runtime/exports/driver_exports.inc"
#undef STAGECRAFT_DEFINED
#undef STAGECRAFT_STUB
#undef STAGECRAFT_ALIAS
#undef STAGECRAFT_PER_THREAD

namespace {

[[gnu::constructor]] void fill_slots() {
#define STAGECRAFT_FILL(name) stagecraft_slot_##name = stagecraft_driver_function(#name);
#define STAGECRAFT_DEFINED(name) STAGECRAFT_FILL(name)
#define STAGECRAFT_STUB(name) STAGECRAFT_FILL(name)
#define STAGECRAFT_ALIAS(name, target) STAGECRAFT_FILL(name)
#define STAGECRAFT_PER_THREAD(name, target) STAGECRAFT_FILL(name)
#include "emulator/runtime/exports/driver_exports.inc"
}

}  // namespace
