// What a translator has at hand to turn one PTX instruction into Ops:
//
//     void translate_popc(Translation& t) {
//       const ptx::Type type = t.modifiers.require_type({ptx::Type::b32, ptx::Type::b64});
//       Op& op = t.emit(handlers_for(type));
//       op.a = t.source(1, type);
//       op.destination = ...
//     }
//
// CONTRIBUTING.md lists what else a new instruction needs.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/ptx/modifiers.hpp"
#include "emulator/ptx/module.hpp"
#include "emulator/state/kernel.hpp"
#include "emulator/state/op.hpp"
#include "emulator/translation/registration.hpp"

namespace stagecraft::emulator::machine {

/// `[base + offset]`, resolved as far as it can be before the run. The address of lane l is
/// `offset + base[l]`, where the base vector has 8-byte lanes if `wide`, else 4-byte (zero-extended);
/// without a base (kNoRegister) the address is `offset` in every lane.
struct MemoryOperand {
  RegisterOffset base = kNoRegister;
  bool wide = false;
  int64_t offset = 0;
  /// What the symbol in the operand was, if there was one; `none` when the base is a register.
  ptx::Space space = ptx::Space::none;
  /// space == param: an entry's parameter (`offset` counts in the launch's parameter buffer), or else a parameter of
  /// a call, in the register file: lane l's bytes begin at `call_area + l * call_stride + offset`.
  bool kernel_parameter = false;
  RegisterOffset call_area = kNoRegister;
  uint32_t call_stride = 0;
};

class FunctionTranslator;

/// The handler of an instruction that has no effect here, such as a hint.
inline Outcome do_nothing(Fragment&, const Op&, LaneMask) { return Outcome::next; }

/// One instruction under translation: what a translator may ask, and what it must produce.
class Translation {
 public:
  Translation(FunctionTranslator& owner, const ptx::Instruction& instruction);

  const ptx::Instruction& instruction;
  ptx::Modifiers modifiers;  ///< take what is understood; `emit` refuses what is left over

  const Architecture& architecture() const;
  size_t operand_count() const { return instruction.operands.size(); }
  const ptx::Operand& operand(size_t index) const;  ///< throws ptx::SyntaxError when there are fewer

  /// Appends an Op with these handlers. Checks that every modifier was taken (so take them first).
  Op& emit(Handler full, Handler masked);
  Op& emit(Handler both) { return emit(both, both); }
  /// Hands a detail over to the kernel, which keeps it alive.
  template <typename Detail>
  const Detail* keep(std::unique_ptr<Detail> detail) {
    const Detail* result = detail.get();
    keep_detail(std::move(detail));
    return result;
  }

  /// Vector of a source operand: register, constant, special register or address of a symbol, with lanes of
  /// `size_of(type)` bytes (8-bit types: 2). A register must be at least as wide as the type; when it is wider, the
  /// vector has the lanes of the register: ask `register_type` where that matters (cvt, ld, st). Type::pred gives a
  /// mask.
  RegisterOffset source(const ptx::Operand& operand, ptx::Type type);
  RegisterOffset source(size_t index, ptx::Type type) { return source(operand(index), type); }
  /// As `source`, but kNoRegister when there is no such operand.
  RegisterOffset optional_source(size_t index, ptx::Type type);
  /// Vector of a destination: a register at least as wide as the type, or a scratch vector for `_`.
  RegisterOffset destination(const ptx::Operand& operand, ptx::Type type);
  RegisterOffset destination(size_t index, ptx::Type type) { return destination(operand(index), type); }
  /// Declared type of a register operand; Type::none when the operand is not a register.
  ptx::Type register_type(const ptx::Operand& operand) const;
  /// A predicate source, with `!p` resolved: mask = *offset ^ flip. A constant is a predicate vector.
  struct Predicate {
    RegisterOffset offset;
    LaneMask flip;
  };
  Predicate predicate(const ptx::Operand& operand);
  /// Value of an operand that must be an integer constant; throws with `what` in the message otherwise.
  int64_t integer(const ptx::Operand& operand, std::string_view what) const;
  MemoryOperand address(const ptx::Operand& operand);
  MemoryOperand address(size_t index) { return address(operand(index)); }
  /// Vector of the addresses themselves, 8-byte lanes if `wide` else 4-byte; emits an addition when needed (call it
  /// before `emit`). For instructions that take an address or two and do not need a fast path.
  RegisterOffset address_vector(const ptx::Operand& operand, bool& wide);
  /// A fresh vector for an intermediate result.
  RegisterOffset scratch(uint32_t bytes_per_lane);
  /// A constant vector.
  RegisterOffset constant(uint64_t value, uint32_t bytes_per_lane);

  /// The mask in which `add.cc` and the like leave the carry for `addc`; one per function.
  RegisterOffset carry_flag();

  InstructionTraits traits() const;

  /// Throws ptx::UnsupportedInstruction at this instruction.
  [[noreturn]] void unsupported(std::string message) const;
  /// Throws ptx::UnsupportedInstruction, because the chip does not have it. `needs` begins the sentence ("wgmma needs
  /// an sm_90a"); `instead` is what a program for an RTX 50 or a DGX Spark does in its place, as an order.
  [[noreturn]] void not_on_this_chip(std::string_view needs, std::string_view instead) const;
  /// Throws ptx::SyntaxError: operands that PTX does not allow.
  [[noreturn]] void illegal(std::string message) const;
  /// The translator of the function that the instruction is in.
  FunctionTranslator& function() { return owner_; }

 private:
  void keep_detail(std::unique_ptr<OpDetail> detail);
  RegisterOffset symbol_source(const ptx::Operand& operand, uint32_t bytes);
  RegisterOffset local_address(const ptx::Operand& operand, uint32_t bytes);
  /// Appends an unguarded Op that prepares an operand of the instruction.
  Op& prepare(Handler handler);
  FunctionTranslator& owner_;
};

}  // namespace stagecraft::emulator::machine
