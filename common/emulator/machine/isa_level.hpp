// Which of the compiled variants of the instruction handlers this processor runs best.
//
// Files in `emulator_isa_sources` are compiled once per x86-64 level (1, 3, 4), with STAGECRAFT_ISA_LEVEL defined to
// it. All they define lies in a namespace of its own per level,
//
//     namespace stagecraft::emulator::machine::STAGECRAFT_ISA_NAMESPACE { const Table& table() { ... } }
//
// and they instantiate no inline function of others that the compiler might leave out of line: the linker keeps one
// copy of such a function, and it could be the one with AVX-512. Elsewhere, once, `for_this_processor` picks.
//
// On other processors, and under a sanitizer, there is level 1 alone: the build defines STAGECRAFT_ONE_ISA_LEVEL.
#pragma once

namespace stagecraft::emulator::machine {

/// 4 (AVX-512), 3 (AVX2) or 1 (what every x86-64 has; also other processors). The environment variable
/// STAGECRAFT_ISA_LEVEL lowers it, to test the variants of lesser processors.
int isa_level();

#if !defined(STAGECRAFT_ONE_ISA_LEVEL)
/// The one of three variants that this processor should use.
template <typename Variant>
inline Variant for_this_processor(Variant level1, Variant level3, Variant level4) {
  switch (isa_level()) {
    case 4: return level4;
    case 3: return level3;
    default: return level1;
  }
}
#endif

}  // namespace stagecraft::emulator::machine

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
