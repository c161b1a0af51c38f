// Pieces of the translation of mbarrier instructions that live in more than one file.
#pragma once

#include <initializer_list>
#include <string_view>

#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

/// Takes an ordering and its scope (.cta or .cluster), which must come together or not at all. True when it is
/// `.relaxed`.
bool take_semantics(Translation& t, std::initializer_list<std::string_view> legal);

/// Translates mbarrier.test_wait, or with `sleeps` mbarrier.try_wait.
void translate_wait(Translation& t, bool sleeps);

/// Translates cp.async.mbarrier.arrive, whose first modifiers are already taken.
void translate_copy_arrival(Translation& t);

}  // namespace stagecraft::emulator::machine
