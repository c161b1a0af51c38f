// Pieces of the translation of mbarrier instructions that live in more than one file.
#pragma once

#include <initializer_list>
#include <string_view>

#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

/// Takes an ordering and its scope (.cta or .cluster), which must come together or not at all. True when it is
/// `.relaxed`.
bool take_semantics(Translation& t, std::initializer_list<std::string_view> legal);

/// mbarrier.test_wait and mbarrier.try_wait; `sleeps` for the latter.
void translate_wait(Translation& t, bool sleeps);

/// cp.async.mbarrier.arrive, with its first modifiers already taken.
void translate_copy_arrival(Translation& t);

}  // namespace stagecraft::emulator::machine
