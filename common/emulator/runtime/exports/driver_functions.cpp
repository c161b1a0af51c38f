// The driver's functions by name, and stubs for those that the emulated GPU does not have.
//
// cuda.h is not included here, because a stub has no parameters and ignores those of its caller. libcudart hides all of
// these functions; programs reach them through libcuda.so.1 or by asking for them by name.
#include "emulator/runtime/exports/driver_functions.hpp"

#include <fmt/format.h>

#include <string>
#include <unordered_map>

#include "emulator/runtime/exports/jumps.hpp"
#include "emulator/runtime/exports/not_supported.hpp"

#define STAGECRAFT_DEFINED(name) extern "C" [[gnu::visibility("hidden")]] int name();
#define STAGECRAFT_STUB(name)                                                    \
  extern "C" [[gnu::visibility("hidden")]] int name() noexcept {                 \
    static bool reported = false;                                                \
    return stagecraft::emulator::runtime::driver_not_supported(#name, reported); \
  }
#define STAGECRAFT_ALIAS(name, target)                 \
  extern "C" [[gnu::visibility("hidden")]] int name(); \
  STAGECRAFT_DEFINE_JUMP(name, STAGECRAFT_JUMP_TO(target));
#define STAGECRAFT_PER_THREAD(name, target) STAGECRAFT_DEFINED(name)  // driver_per_thread_stream.cpp
#include "emulator/runtime/exports/driver_exports.inc"
#undef STAGECRAFT_DEFINED
#undef STAGECRAFT_STUB
#undef STAGECRAFT_ALIAS
#undef STAGECRAFT_PER_THREAD

namespace stagecraft::emulator::runtime {
namespace {

/// A form of a function whose parameters have changed, and the version of CUDA from which on the plain name means it.
struct Revision {
  std::string_view name;
  std::string_view form;
  int since;
};
/// All others have had one form since CUDA has 64-bit device pointers.
constexpr Revision kRevisions[] = {
#define STAGECRAFT_REVISION(name, form, since) {name, form, since},
#include "emulator/runtime/exports/driver_revisions.inc"
#undef STAGECRAFT_REVISION
};

const std::unordered_map<std::string_view, void*>& functions() {
  static const std::unordered_map<std::string_view, void*> table = {
#define STAGECRAFT_DEFINED(name) {#name, reinterpret_cast<void*>(&name)},
#define STAGECRAFT_STUB(name) {#name, reinterpret_cast<void*>(&name)},
#define STAGECRAFT_ALIAS(name, target) {#name, reinterpret_cast<void*>(&name)},
#define STAGECRAFT_PER_THREAD(name, target) {#name, reinterpret_cast<void*>(&name)},
#include "emulator/runtime/exports/driver_exports.inc"
  };
  return table;
}

}  // namespace

void* find_exact_driver_function(std::string_view name) {
  const auto found = functions().find(name);
  return found == functions().end() ? nullptr : found->second;
}

void* find_driver_function(std::string_view name, int version, bool of_thread) {
  const auto find = [of_thread](std::string_view form) {
    for (const std::string_view suffix : {"_ptsz", "_ptds"}) {
      if (!of_thread) break;
      if (void* function = find_exact_driver_function(fmt::format("{}{}", form, suffix))) return function;
    }
    return find_exact_driver_function(form);
  };
  const Revision* newest = nullptr;
  bool is_revised = false;
  for (const Revision& revision : kRevisions) {
    if (revision.name != name) continue;
    is_revised = true;
    if (revision.since <= version) newest = &revision;
  }
  if (is_revised) return newest == nullptr ? nullptr : find(newest->form);
  for (int form = 4; form >= 2; --form) {
    if (void* function = find(fmt::format("{}_v{}", name, form))) return function;
  }
  return find(name);
}

}  // namespace stagecraft::emulator::runtime

/// libcuda.so.1, which has no code of its own, calls this for each function.
extern "C" [[gnu::visibility("default")]] void* stagecraft_driver_function(const char* name) {
  return stagecraft::emulator::runtime::find_exact_driver_function(name);
}
