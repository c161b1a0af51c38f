// The family of mbarrier instructions, and the pieces of their translation that more than one file needs.
#pragma once

#include <initializer_list>
#include <string_view>

#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

void add_mbarrier_operations(InstructionSet& set);

/// Takes an ordering and its scope (.cta or .cluster), which must come together or not at all. True when it is
/// `.relaxed`.
bool take_semantics(Translation& t, std::initializer_list<std::string_view> legal);

/// mbarrier.test_wait and mbarrier.try_wait; `sleeps` for the latter.
void translate_wait(Translation& t, bool sleeps);

/// cp.async.mbarrier.arrive, with its first modifiers already taken.
void translate_copy_arrival(Translation& t);

}  // namespace stagecraft::emulator::machine
