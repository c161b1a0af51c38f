// The family of mbarrier instructions, and the pieces of their translation that more than one file needs.
#pragma once

#include <initializer_list>
#include <string_view>

#include "emulator/engines/lane_operand.hpp"
#include "emulator/state/observer.hpp"
#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

void add_mbarrier_operations(InstructionSet& set);

/// Takes an ordering and its scope (.cta or .cluster), which must come together or not at all.
BarrierSemantics take_semantics(Translation& t, std::initializer_list<std::string_view> legal);

/// The operand that names an mbarrier. Refuses a register of 32 bits as a generic address.
SharedOperand barrier_operand(Translation& t, size_t index, SharedScope scope);

/// Translates mbarrier.test_wait, or with `sleeps` mbarrier.try_wait.
void translate_wait(Translation& t, bool sleeps);

/// Translates cp.async.mbarrier.arrive, whose first modifiers are already taken.
void translate_copy_arrival(Translation& t);

}  // namespace stagecraft::emulator::machine
