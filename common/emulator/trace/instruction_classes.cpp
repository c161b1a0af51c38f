#include "emulator/trace/instruction_classes.hpp"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "emulator/trace/joined_loads.hpp"
#include "emulator/trace/merged_instructions.hpp"

namespace stagecraft::emulator::trace {
namespace {

using timing::InstructionClass;

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool has(const ptx::Instruction& instruction, std::initializer_list<std::string_view> modifiers) {
  return std::any_of(instruction.modifiers.begin(), instruction.modifiers.end(),
                     [&](const std::string& modifier) { return is_one_of(modifier, modifiers); });
}

bool is_f64(const ptx::Instruction& instruction) { return has(instruction, {"f64"}); }
bool is_half(const ptx::Instruction& instruction) { return has(instruction, {"f16", "f16x2", "bf16", "bf16x2"}); }
bool is_float(const ptx::Instruction& instruction) { return has(instruction, {"f32", "f32x2"}); }
bool is_wide(const ptx::Instruction& instruction) { return has(instruction, {"s64", "u64", "b64"}); }

InstructionClass class_of_arithmetic(const ptx::Instruction& instruction, InstructionClass narrow,
                                     InstructionClass wide) {
  if (is_f64(instruction)) return InstructionClass::float64;
  if (is_half(instruction)) return InstructionClass::half;
  if (is_float(instruction)) return InstructionClass::float32;
  return is_wide(instruction) || has(instruction, {"wide"}) ? wide : narrow;
}

InstructionClass class_of_conversion(const ptx::Instruction& instruction) {
  if (has(instruction, {"e4m3x2", "e5m2x2"})) return InstructionClass::convert;
  const bool half = is_half(instruction), floats = is_float(instruction) || is_f64(instruction);
  if (half) return InstructionClass::convert_half;
  const bool to_float = instruction.modifiers.size() > 1 && instruction.modifiers.back() != "f32" &&
                        instruction.modifiers.back() != "f64" && !is_wide(instruction) && !is_f64(instruction);
  if (floats && to_float) return InstructionClass::convert_to_float;
  return floats ? InstructionClass::convert : InstructionClass::free;  // between integers: a part of what uses them
}

/// Quotients and remainders. By a constant that is no register's they are a product and shifts.
InstructionClass class_of_division(const ptx::Instruction& instruction) {
  if (is_f64(instruction)) return InstructionClass::divide_double;
  if (is_float(instruction)) {
    if (has(instruction, {"rn", "rz", "rm", "rp"})) return InstructionClass::divide_float;
    if (has(instruction, {"full"})) return InstructionClass::divide_full;
    return InstructionClass::special_product;
  }
  if (instruction.operands.back().kind == ptx::OperandKind::integer) {
    const uint64_t divisor = instruction.operands.back().bits;
    return (divisor & (divisor - 1)) == 0 ? InstructionClass::logic : InstructionClass::multiply_wide;
  }
  const bool is_signed = has(instruction, {"s16", "s32", "s64"});
  if (is_wide(instruction)) return is_signed ? InstructionClass::divide_wide_signed : InstructionClass::divide_wide;
  return is_signed ? InstructionClass::divide_signed : InstructionClass::divide;
}

/// Roots, reciprocals, exponentials, logarithms and sines.
InstructionClass class_of_function(const ptx::Instruction& instruction) {
  const std::string_view name = instruction.opcode;
  const bool exact = has(instruction, {"rn", "rz", "rm", "rp"});
  if (is_f64(instruction)) {
    if (name == "rcp") return exact ? InstructionClass::reciprocal_double : InstructionClass::special;
    return InstructionClass::root_double;
  }
  if (exact) return name == "rcp" ? InstructionClass::reciprocal_float : InstructionClass::root_float;
  if (is_one_of(name, {"sin", "cos"})) return InstructionClass::special_product;
  const bool scales = is_one_of(name, {"ex2", "lg2", "rcp", "sqrt", "rsqrt"}) && is_float(instruction);
  return scales && !has(instruction, {"ftz"}) ? InstructionClass::special_scaled : InstructionClass::special;
}

bool is_shared(const ptx::Instruction& instruction) {
  return has(instruction, {"shared", "shared::cta", "shared::cluster"}) || instruction.opcode == "ldmatrix" ||
         instruction.opcode == "stmatrix";
}

/// Whether the first operand is written.
bool has_result(const ptx::Instruction& instruction) {
  if (is_one_of(instruction.opcode, {"st",
                                     "red",
                                     "bra",
                                     "brx",
                                     "ret",
                                     "exit",
                                     "bar",
                                     "barrier",
                                     "fence",
                                     "membar",
                                     "cp",
                                     "prefetch",
                                     "prefetchu",
                                     "setmaxnreg",
                                     "trap",
                                     "nanosleep",
                                     "stmatrix",
                                     "wgmma",
                                     "griddepcontrol",
                                     "discard",
                                     "multimem",
                                     "call"})) {
    return false;
  }
  if (instruction.opcode == "mbarrier") {
    return has(instruction, {"try_wait", "test_wait"}) ||
           (!instruction.operands.empty() && instruction.operands[0].kind == ptx::OperandKind::reg);
  }
  if (instruction.opcode == "tcgen05") return has(instruction, {"ld"});
  return true;
}

}  // namespace

InstructionClass class_of(const ptx::Instruction& instruction) {
  const std::string_view name = instruction.opcode;
  if (is_one_of(name, {"mov", "cvta", "mapa", "isspacep"})) {
    const bool is_special = instruction.operands.back().kind == ptx::OperandKind::special;
    return is_special ? InstructionClass::other : InstructionClass::free;
  }
  if (is_one_of(name, {"ld", "ldu", "st", "atom", "red", "ldmatrix", "stmatrix", "tex", "suld", "sust"})) {
    if (!has(instruction, {"param", "param::entry", "param::func"})) return InstructionClass::memory;
    return name == "ld" ? InstructionClass::other : InstructionClass::free;
  }
  if (is_one_of(name, {"add", "sub", "neg", "addc", "subc"})) {
    return class_of_arithmetic(instruction, InstructionClass::add, InstructionClass::add_wide);
  }
  if (is_one_of(name, {"mul", "mad", "fma", "mul24", "mad24", "madc"})) {
    return class_of_arithmetic(instruction, InstructionClass::multiply, InstructionClass::multiply_wide);
  }
  if (is_one_of(name,
                {"and", "or",   "xor",  "not", "lop3", "shl", "shr",      "shf",  "prmt",  "bfi",  "bfe",  "setp",
                 "set", "selp", "slct", "min", "max",  "abs", "copysign", "bmsk", "szext", "dp4a", "dp2a", "sad"})) {
    return is_f64(instruction) ? InstructionClass::float64 : InstructionClass::logic;
  }
  if (is_one_of(name, {"div", "rem"})) return class_of_division(instruction);
  if (is_one_of(name, {"ex2", "lg2", "rcp", "sqrt", "rsqrt", "sin", "cos", "tanh"})) {
    return class_of_function(instruction);
  }
  if (is_one_of(name, {"popc", "clz", "bfind", "brev", "fns"})) return InstructionClass::special;
  if (name == "cvt") return class_of_conversion(instruction);
  if (name == "shfl") return InstructionClass::shuffle;
  if (is_one_of(name, {"vote", "elect", "activemask"})) return InstructionClass::vote;
  if (name == "match") return InstructionClass::match;
  if (name == "redux") return InstructionClass::reduce;
  if (is_one_of(name, {"mma", "wmma"})) return InstructionClass::warp_matrix;
  if (is_one_of(name, {"bra", "brx", "call", "ret", "exit"})) return InstructionClass::control;
  if (name == "setmaxnreg") {
    return has(instruction, {"inc"}) ? InstructionClass::more_registers : InstructionClass::fewer_registers;
  }
  if (is_one_of(name, {"fence", "membar"})) return InstructionClass::fence;
  if (is_one_of(name, {"mbarrier", "bar", "barrier", "cp", "tcgen05", "wgmma", "clusterlaunchcontrol"})) {
    return InstructionClass::barrier;
  }
  return InstructionClass::other;
}

timing::Code describe_code(const machine::Kernel& kernel) {
  timing::Code code(kernel.code.size());
  const std::vector<PlaceInCode> straight = places_in_code(kernel);
  std::unordered_map<const ptx::Function*, uint32_t> first_register;
  std::unordered_map<const ptx::Function*, std::vector<bool>> merged;
  uint32_t registers = 0;
  for (size_t pc = 0; pc < code.size(); ++pc) {
    timing::Instruction& described = code[pc];
    const machine::OpPlace& place = kernel.places[pc];
    described.kind = InstructionClass::free;
    described.begin = static_cast<uint32_t>(pc);
    described.first = straight[pc].first;
    if (place.function == nullptr || place.instruction >= place.function->body.size()) continue;
    const auto [base, is_new] = first_register.emplace(place.function, registers);
    if (is_new) {
      registers += static_cast<uint32_t>(place.function->registers.size());
      merged.emplace(place.function, merged_instructions(*place.function));
    }
    const bool repeated = pc > 0 && kernel.places[pc - 1].function == place.function &&
                          kernel.places[pc - 1].instruction == place.instruction;
    const ptx::Instruction& instruction = place.function->body[place.instruction];
    if (repeated) described.begin = code[pc - 1].begin;
    const bool is_own = !repeated && !straight[pc].predicated && !merged.at(place.function)[place.instruction];
    if (is_own) described.kind = class_of(instruction);
    if (instruction.opcode == "wmma") {
      // A product of 16 x 16 is two machine instructions of 16 x 8. A fragment's words are loaded and stored one by
      // one.
      if (has(instruction, {"mma"}))
        described.times = 2;
      else if (repeated)
        described.kind = InstructionClass::memory;
      else
        described.kind = InstructionClass::free;
    }
    described.shared = is_shared(instruction);
    // ptxas makes it ATOMS.POPC.INC, which serves the lanes of a word at once.
    described.counts = is_one_of(instruction.opcode, {"atom", "red"}) && has(instruction, {"add"}) &&
                       instruction.operands.back().kind == ptx::OperandKind::integer &&
                       instruction.operands.back().bits == 1;
    described.floating = is_float(instruction) || is_half(instruction) || is_f64(instruction);
    described.depends = instruction.opcode == "griddepcontrol" && has(instruction, {"wait"});
    described.joined = straight[pc].joined;
    described.absorbed = straight[pc].leader != PlaceInCode::kNone;
    if (described.absorbed) described.kind = InstructionClass::free;
    described.plain_load =
        (instruction.opcode == "ld" || instruction.opcode == "ldmatrix") &&
        !has(instruction, {"volatile", "relaxed", "acquire", "mmio", "param", "param::entry", "param::func"});
    const uint32_t offset = base->second;
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      const ptx::Operand& operand = instruction.operands[i];
      // The sums of a wgmma are ready when it is waited for.
      if (i == 0 && instruction.opcode == "wgmma") continue;
      const bool written = i == 0 && has_result(instruction) && operand.kind != ptx::OperandKind::address;
      ptx::visit_registers(
          operand, [&](ptx::RegisterId id) { (written ? described.writes : described.reads).push_back(offset + id); });
    }
    if (instruction.guarded) described.reads.push_back(offset + instruction.guard);
    if (described.absorbed) {
      std::vector<uint32_t>& of_leader = code[straight[pc].leader].writes;
      of_leader.insert(of_leader.end(), described.writes.begin(), described.writes.end());
      described.writes.clear();
    }
  }
  std::unordered_set<uint32_t> read;
  for (const timing::Instruction& each : code) read.insert(each.reads.begin(), each.reads.end());
  for (timing::Instruction& each : code) {
    each.returns =
        std::any_of(each.writes.begin(), each.writes.end(), [&](uint32_t result) { return read.contains(result); });
  }
  return code;
}

}  // namespace stagecraft::emulator::trace
