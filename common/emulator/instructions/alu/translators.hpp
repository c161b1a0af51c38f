// Functions that the translators of arithmetic share: they check operands, and make Ops from the catalog.
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>

#include "emulator/instructions/alu/handlers.hpp"
#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine::alu {

/// Returns the vector of a source whose register must be exactly as wide as the type, as PTX requires of arithmetic.
RegisterOffset exact_source(Translation& t, const ptx::Operand& operand, ptx::Type type);
inline RegisterOffset exact_source(Translation& t, size_t index, ptx::Type type) {
  return exact_source(t, t.operand(index), type);
}
RegisterOffset exact_destination(Translation& t, const ptx::Operand& operand, ptx::Type type);
inline RegisterOffset exact_destination(Translation& t, size_t index, ptx::Type type) {
  return exact_destination(t, t.operand(index), type);
}

/// Returns the handlers. Throws ptx::UnsupportedInstruction when the catalog has none.
Handlers require_handlers(Translation& t, Operation operation, ptx::Type type, unsigned variant = 0);

/// The vectors of one Op.
struct Vectors {
  RegisterOffset destination = kNoRegister, a = kNoRegister, b = kNoRegister, c = kNoRegister;
};
/// Appends an Op. All modifiers must have been taken.
void emit_op(Translation& t, Handlers handlers, const Vectors& vectors, uint64_t immediate = 0);

/// Emits the usual case: destination, then one to three sources, of exactly these types. Throws if there are more
/// operands.
void emit_plain(Translation& t, Handlers handlers, ptx::Type destination, std::initializer_list<ptx::Type> sources,
                uint64_t immediate = 0);

/// Throws ptx::SyntaxError unless the instruction has this many operands.
void require_operands(Translation& t, size_t least, size_t most);

/// Takes .rn, .rz, .rm or .rp.
std::optional<RoundingMode> take_rounding(Translation& t);
/// Returns the bits of the variant, and of the immediate, that a rounding mode sets for f32 and f64.
inline unsigned rounding_variant(RoundingMode mode) { return mode == RoundingMode::nearest ? kPlain : kDirected; }

bool is_integer(ptx::Type type);
bool is_signed(ptx::Type type);
/// Returns u16 for b16 and so on; other types unchanged.
ptx::Type unsigned_for_bits(ptx::Type type);
/// Returns the type of untyped bits with this many bytes (2, 4, 8).
ptx::Type bits_of_size(uint32_t bytes);

/// The traits of an instruction that computes in registers, but is more than one on the chip when it has one of these
/// modifiers: ptxas then makes branches or a call of it.
InstructionTraits arithmetic_traits(const ptx::Instruction& instruction,
                                    std::initializer_list<std::string_view> with_branches);

void add_integer_translators(InstructionSet& set);
void add_bit_translators(InstructionSet& set);
void add_comparison_translators(InstructionSet& set);
void add_floating_translators(InstructionSet& set);
void add_conversion_translators(InstructionSet& set);
void add_video_translators(InstructionSet& set);

// Opcodes that integers and floating point share go to one of these after the type is seen.
void translate_floating_sum(Translation& t, Operation operation);
void translate_floating_product(Translation& t);
/// @param is_fma  not mad, which has fewer types.
void translate_fused(Translation& t, bool is_fma);
void translate_floating_quotient(Translation& t);
void translate_floating_sign(Translation& t, Operation operation);
void translate_floating_extreme(Translation& t, Operation operation, Operation operation3);

}  // namespace stagecraft::emulator::machine::alu
