// Chooses the variant of the compiled instruction handlers that this processor runs best.
//
// Files in `emulator_isa_sources` are compiled once per level of x86-64 that the build is for (meson option
// isa_levels), with STAGECRAFT_ISA_LEVEL defined to it. All their definitions are in one namespace per level,
//
//     namespace stagecraft::emulator::machine::STAGECRAFT_ISA_NAMESPACE { const Table& table() { ... } }
//
// and they instantiate no inline function of other files that the compiler might not inline: the linker keeps one
// copy of such a function, and it could be the one with AVX-512. Elsewhere, STAGECRAFT_DECLARE_ISA declares a function
// for all levels that are built, and STAGECRAFT_CALL_ISA calls the one for this processor.
#pragma once

#include <stdexcept>

namespace stagecraft::emulator::machine {

/// Returns the highest level that is built and that this processor has: 4 (AVX-512), 3 (AVX2) or 1 (every x86-64, and
/// any other processor). The environment variable STAGECRAFT_ISA_LEVEL lowers it, to test the variants for older
/// processors. Ends the process with a message when this processor has none of the levels.
int isa_level();

}  // namespace stagecraft::emulator::machine

// The build defines STAGECRAFT_HAS_ISA1, 3 and 4 for the levels that it builds.
#if defined(STAGECRAFT_HAS_ISA1)
#define STAGECRAFT_IF_ISA1(...) __VA_ARGS__
#else
#define STAGECRAFT_IF_ISA1(...)
#endif
#if defined(STAGECRAFT_HAS_ISA3)
#define STAGECRAFT_IF_ISA3(...) __VA_ARGS__
#else
#define STAGECRAFT_IF_ISA3(...)
#endif
#if defined(STAGECRAFT_HAS_ISA4)
#define STAGECRAFT_IF_ISA4(...) __VA_ARGS__
#else
#define STAGECRAFT_IF_ISA4(...)
#endif
/// Expands DO(level, namespace, ...) for each level that is built, the lowest first.
#define STAGECRAFT_EACH_ISA(DO, ...)           \
  STAGECRAFT_IF_ISA1(DO(1, isa1, __VA_ARGS__)) \
  STAGECRAFT_IF_ISA3(DO(3, isa3, __VA_ARGS__)) \
  STAGECRAFT_IF_ISA4(DO(4, isa4, __VA_ARGS__))

#define STAGECRAFT_DECLARE_ONE_ISA(level, isa, ...) \
  namespace isa {                                   \
  __VA_ARGS__;                                      \
  }
#define STAGECRAFT_DECLARE_ISA(...) STAGECRAFT_EACH_ISA(STAGECRAFT_DECLARE_ONE_ISA, __VA_ARGS__)

// The formatter mistakes the colon for that of a label.
// clang-format off
#define STAGECRAFT_CALL_ONE_ISA(level, isa, function) isa_level() == level ? isa::function() :
// clang-format on
#define STAGECRAFT_CALL_ISA(function) \
  (STAGECRAFT_EACH_ISA(STAGECRAFT_CALL_ONE_ISA, function) throw std::logic_error("no such x86-64 level is built"))

#ifndef STAGECRAFT_ISA_LEVEL
#define STAGECRAFT_ISA_LEVEL 1
#endif
#if STAGECRAFT_ISA_LEVEL == 4
#define STAGECRAFT_ISA_NAMESPACE isa4
#elif STAGECRAFT_ISA_LEVEL == 3
#define STAGECRAFT_ISA_NAMESPACE isa3
#else
#define STAGECRAFT_ISA_NAMESPACE isa1
#endif
