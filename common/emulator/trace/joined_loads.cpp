#include "emulator/trace/joined_loads.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "emulator/state/register_writes.hpp"

namespace stagecraft::emulator::trace {
namespace {

using machine::Computation;
using machine::MemoryUse;
using Traits = std::vector<machine::InstructionTraits>;

constexpr uint32_t kWidest = 16;               ///< bytes that a lane can load at once
constexpr uint64_t kMost = uint64_t{1} << 12;  ///< alignments beyond this are all the same

bool has(const ptx::Instruction& instruction, std::string_view modifier) {
  return std::any_of(instruction.modifiers.begin(), instruction.modifiers.end(), [&](const std::string& each) {
    return each == modifier ||
           (each.size() > modifier.size() && each.starts_with(modifier) && each.compare(modifier.size(), 2, "::") == 0);
  });
}

uint64_t alignment_of_number(uint64_t number) { return number == 0 ? kMost : std::min(kMost, number & -number); }

/// A power of two by which the value of each register of a function can be divided.
class Alignments {
 public:
  Alignments(const ptx::Function& function, const Traits& traits) : of_register_(function.registers.size(), 0) {
    // Too much at first, for the sake of loops, then less until nothing changes: 0 is "not written yet".
    bool changes = true;
    while (changes) {
      changes = false;
      for (size_t i = 0; i < function.body.size(); ++i) {
        const ptx::Instruction& instruction = function.body[i];
        if (instruction.operands.empty()) continue;
        const uint64_t result = of_result(instruction, traits[i].computes);
        machine::for_each_written(instruction, [&](ptx::RegisterId id) {
          const uint64_t before = of_register_[id], after = before == 0 ? result : std::min(before, result);
          changes = changes || after != before;
          of_register_[id] = after;
        });
      }
    }
  }
  uint64_t of(const ptx::Operand& operand) const {
    switch (operand.kind) {
      case ptx::OperandKind::reg: return of_register_[operand.reg] == 0 ? kMost : of_register_[operand.reg];
      case ptx::OperandKind::integer: return alignment_of_number(operand.bits);
      case ptx::OperandKind::symbol: return std::min(kMost, alignment_of_number(static_cast<uint64_t>(operand.offset)));
      default: return 1;
    }
  }

 private:
  uint64_t of_result(const ptx::Instruction& instruction, Computation computes) const {
    const auto& operands = instruction.operands;
    const auto at = [&](size_t i) { return i < operands.size() ? of(operands[i]) : 1; };
    switch (computes) {
      case Computation::copy:
      case Computation::address:
      case Computation::conversion: return at(1);
      case Computation::sum:
      case Computation::difference:
      case Computation::disjunction:
      case Computation::exclusive_disjunction:
      case Computation::extreme:
      case Computation::selection: return std::min(at(1), at(2));
      case Computation::conjunction: return std::max(at(1), at(2));
      case Computation::product: return has(instruction, "hi") ? 1 : std::min(kMost, at(1) * at(2));
      case Computation::product_sum: return has(instruction, "hi") ? 1 : std::min({kMost, at(1) * at(2), at(3)});
      case Computation::left_shift:
        if (operands.size() < 3 || operands[2].kind != ptx::OperandKind::integer) return 1;
        return std::min(kMost, at(1) << std::min<uint64_t>(operands[2].bits, 12));
      default: return 1;
    }
  }
  std::vector<uint64_t> of_register_;
};

constexpr uint32_t kMostPredicated = 4;

/// Whether an instruction stays a place of its own: nothing moves over it, and no guard takes its place.
bool parts_code(const ptx::Instruction& instruction, const machine::InstructionTraits& traits) {
  using machine::InstructionClass;
  if (traits.takes_over_clusters) return false;  // what reads the answer computes in registers
  const InstructionClass kind = traits.timing.of(instruction);
  return kind == InstructionClass::control || kind == InstructionClass::barrier || kind == InstructionClass::fence;
}

/// The branches of a function that ptxas replaces by guards, by their number.
std::unordered_set<uint32_t> predicated_branches(const ptx::Function& function, const Traits& traits) {
  std::unordered_set<uint32_t> branches;
  for (uint32_t i = 0; i < function.body.size(); ++i) {
    const ptx::Instruction& branch = function.body[i];
    if (!branch.guarded || branch.operands.empty() || branch.operands[0].kind != ptx::OperandKind::label) continue;
    const uint32_t target = branch.operands[0].label;
    if (target <= i || target - i - 1 > kMostPredicated) continue;
    bool parted = false;
    for (uint32_t at = i + 1; at < target; ++at) parted = parted || parts_code(function.body[at], traits[at]);
    if (!parted) branches.insert(i);
  }
  return branches;
}

/// Where the other branches go.
std::unordered_set<uint32_t> targets_of(const ptx::Function& function, const std::unordered_set<uint32_t>& predicated) {
  std::unordered_set<uint32_t> targets;
  bool has_table = false;
  for (uint32_t i = 0; i < function.body.size(); ++i) {
    if (predicated.contains(i)) continue;
    for (const ptx::Operand& operand : function.body[i].operands) {
      has_table =
          has_table || (operand.kind == ptx::OperandKind::symbol && operand.symbol_kind == ptx::SymbolKind::table);
      if (operand.kind == ptx::OperandKind::label) targets.insert(operand.label);
    }
  }
  if (has_table) {
    for (const auto& [name, label] : function.labels) targets.insert(label);
  }
  return targets;
}

struct KnownFunction {
  Alignments alignments;
  std::unordered_set<uint32_t> predicated, targets;
  KnownFunction(const ptx::Function& function, const Traits& traits)
      : alignments(function, traits),
        predicated(predicated_branches(function, traits)),
        targets(targets_of(function, predicated)) {}
};

/// Loads that may be joined, of a piece of straight code.
class Candidates {
 public:
  explicit Candidates(std::vector<PlaceInCode>& places) : places_(places) {}

  void add(uint32_t pc, const ptx::Instruction& load, uint64_t alignment, uint32_t width) {
    const ptx::Operand& address = load.operands[1];
    const ptx::Operand& base = address.list[0];
    const bool is_register = base.kind == ptx::OperandKind::reg;
    if (!is_register && base.kind != ptx::OperandKind::symbol) return;
    const uint64_t id = is_register ? base.reg : (uint64_t{1} << 32 | uint64_t(base.symbol_kind) << 33 | base.symbol);
    Group& group = groups_[{id, width}];
    group.alignment = alignment;
    group.pcs.emplace(address.offset + (is_register ? 0 : base.offset), pc);
  }
  /// The register changes: what was loaded from it is no neighbour of what will be.
  void forget(uint64_t id) {
    for (const uint32_t width : {4u, 8u}) {
      const auto found = groups_.find({id, width});
      if (found == groups_.end()) continue;
      join(found->second, width);
      groups_.erase(found);
    }
  }
  void end() {
    for (auto& [key, group] : groups_) join(group, key.second);
    groups_.clear();
  }

 private:
  struct Group {
    uint64_t alignment = 1;
    std::map<int64_t, uint32_t> pcs;  ///< by offset
  };
  void join(const Group& group, uint32_t width) {
    for (auto each = group.pcs.begin(); each != group.pcs.end();) {
      uint32_t joined = 0;
      for (uint32_t bytes = kWidest; bytes > width && joined == 0; bytes /= 2) {
        if (group.alignment < bytes || each->first % bytes != 0) continue;
        auto last = each;
        uint32_t found = 1;
        while (found < bytes / width && ++last != group.pcs.end() &&
               last->first == each->first + found * int64_t{width})
          ++found;
        if (found == bytes / width) joined = bytes;
      }
      const uint32_t count = std::max(joined / width, 1u);
      uint32_t leader = each->second;
      for (auto [member, i] = std::pair(each, 0u); i < count; ++i, ++member) leader = std::min(leader, member->second);
      if (joined != 0) places_[leader].joined = joined;
      for (uint32_t i = 0; i < count; ++i, ++each) {
        if (each->second != leader) places_[each->second].leader = leader;
      }
    }
  }
  std::vector<PlaceInCode>& places_;
  std::map<std::pair<uint64_t, uint32_t>, Group> groups_;  ///< by base and width
};

/// Bytes of a plain load of one value from shared memory; 0 for other instructions.
uint32_t width_of_load(const ptx::Instruction& instruction, MemoryUse use) {
  if (use != MemoryUse::loads || instruction.guarded || instruction.operands.size() < 2) return 0;
  if (!has(instruction, "shared") || has(instruction, "volatile") || has(instruction, "relaxed") ||
      has(instruction, "acquire")) {
    return 0;
  }
  const ptx::Operand& address = instruction.operands[1];
  if (instruction.operands[0].kind != ptx::OperandKind::reg || address.kind != ptx::OperandKind::address ||
      address.list.size() != 1) {
    return 0;
  }
  for (const char* type : {"f32", "b32", "u32", "s32"})
    if (has(instruction, type)) return 4;
  for (const char* type : {"f64", "b64", "u64", "s64"})
    if (has(instruction, type)) return 8;
  return 0;
}

/// Whether loads of shared memory stay on their side of it.
bool separates(const ptx::Instruction& instruction, const machine::InstructionTraits& traits) {
  if (traits.memory == MemoryUse::stores) {
    return !has(instruction, "global") && !has(instruction, "local") && !has(instruction, "param");
  }
  return traits.memory == MemoryUse::updates || parts_code(instruction, traits);
}

}  // namespace

std::vector<PlaceInCode> places_in_code(const machine::Kernel& kernel) {
  std::vector<PlaceInCode> places(kernel.code.size());
  std::unordered_map<const ptx::Function*, KnownFunction> functions;
  Candidates candidates(places);
  const ptx::Function* function = nullptr;
  const KnownFunction* known = nullptr;
  for (uint32_t pc = 0; pc < places.size(); ++pc) {
    const machine::OpPlace& place = kernel.places[pc];
    const bool is_known = place.function != nullptr && place.instruction < place.function->body.size();
    if (!is_known || place.function != function) {
      candidates.end();
      places[pc].first = true;
      function = is_known ? place.function : nullptr;
      if (!is_known) continue;
      known = &functions.try_emplace(function, *function, kernel.traits.at(function)).first->second;
    }
    const machine::OpPlace* const before = pc > 0 ? &kernel.places[pc - 1] : nullptr;
    if (before != nullptr && before->function == function && before->instruction == place.instruction) continue;
    const ptx::Instruction& instruction = function->body[place.instruction];
    if (known->targets.contains(place.instruction)) {
      candidates.end();
      places[pc].first = true;
    }
    places[pc].predicated = known->predicated.contains(place.instruction);
    if (places[pc].predicated) continue;
    const machine::InstructionTraits& traits = kernel.traits_at(pc);
    if (separates(instruction, traits)) candidates.end();
    if (const uint32_t width = width_of_load(instruction, traits.memory); width != 0) {
      candidates.add(pc, instruction, known->alignments.of(instruction.operands[1].list[0]), width);
    }
    if (!instruction.operands.empty() && instruction.operands[0].kind != ptx::OperandKind::address) {
      ptx::visit_registers(instruction.operands[0], [&](ptx::RegisterId id) { candidates.forget(id); });
    }
    const bool jumps = traits.flow == machine::Flow::leaves && !instruction.operands.empty();
    if ((jumps || traits.flow == machine::Flow::calls) && pc + 1 < places.size()) places[pc + 1].first = true;
  }
  candidates.end();
  return places;
}

}  // namespace stagecraft::emulator::trace
