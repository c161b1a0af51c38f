// Branches and exits. Calls and returns belong to the same family: function_calls.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "emulator/instructions/exit_lanes.hpp"
#include "emulator/instructions/families.hpp"
#include "emulator/instructions/function_calls.hpp"
#include "emulator/state/fragments.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/translation/function_translator.hpp"

namespace stagecraft::emulator::machine {

namespace {

Outcome branch(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto target = static_cast<uint32_t>(op.immediate);
  // The side that comes first in the code runs first, so that the two meet where the code joins again.
  if (mask == fragment.mask) {
    fragment.pc = target;
  } else if (target <= fragment.pc) {
    split_off(fragment, fragment.mask & ~mask, fragment.pc + 1);
    fragment.pc = target;
  } else {
    split_off(fragment, mask, target);
    fragment.pc += 1;
  }
  return Outcome::jump;
}

void translate_bra(Translation& t) {
  t.modifiers.take("uni");
  const ptx::Operand& target = t.operand(0);
  if (target.kind != ptx::OperandKind::label) t.illegal("the target of a branch must be a label");
  const uint32_t pc = t.function().next_pc();
  t.emit(branch);
  t.function().patch_to_label(pc, target.label);
}

struct BranchTableDetail : OpDetail {
  std::vector<uint32_t> targets;
};

Outcome branch_indexed(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& table = static_cast<const BranchTableDetail*>(op.detail)->targets;
  const auto* indices = lanes_at<uint32_t>(fragment.registers, op.a);
  if (mask != fragment.mask) split_off(fragment, fragment.mask & ~mask, fragment.pc + 1);
  const uint32_t index = indices[first_lane(mask)];
  if (index >= table.size()) {
    throw Fault(FaultKind::invalid_pc,
                fmt::format("brx.idx with index {} in a table of {} targets", index, table.size()));
  }
  LaneMask same = 0;
  for_each_lane(mask, [&](uint32_t lane) { same |= (indices[lane] == index ? 1u : 0u) << lane; });
  if (same != mask) split_off(fragment, mask & ~same, fragment.pc);
  fragment.pc = table[index];
  return Outcome::jump;
}

void translate_brx(Translation& t) {
  t.modifiers.take("uni");
  t.modifiers.require("idx");
  const RegisterOffset index = t.source(0, ptx::Type::u32);
  const ptx::Operand& table = t.operand(1);
  if (table.kind != ptx::OperandKind::symbol || table.symbol_kind != ptx::SymbolKind::table) {
    t.illegal("the second operand must name a .branchtargets list");
  }
  auto detail = std::make_unique<BranchTableDetail>();
  FunctionTranslator& function = t.function();
  // Labels after this instruction have no place yet, so each label gets an Op of its own that branches there.
  const std::vector<uint32_t>& labels = function.function().branch_tables.at(table.symbol).targets;
  const uint32_t first = function.next_pc() + 1;
  for (size_t i = 0; i < labels.size(); ++i) detail->targets.push_back(first + static_cast<uint32_t>(i));
  const auto* kept = t.keep(std::move(detail));
  Op& op = t.emit(branch_indexed);
  op.a = index;
  op.detail = kept;
  const RegisterOffset guard = op.guard;
  if (guard != kNoRegister) {
    // Lanes for which the guard does not hold would run into the table of branches.
    t.unsupported("a guarded brx.idx is not implemented");
  }
  for (const uint32_t label : labels) {
    Op jump;
    jump.full = jump.masked = branch;
    const uint32_t pc = function.next_pc();
    function.append(jump);
    function.patch_to_label(pc, label);
  }
}

Outcome exit_thread(Fragment& fragment, const Op&, LaneMask mask) {
  exit_lanes(fragment, mask);
  return fragment.state == FragmentState::exited ? Outcome::jump : Outcome::next;
}

Outcome trap(Fragment&, const Op&, LaneMask mask) {
  throw Fault(FaultKind::launch_failure, "trap: the program stopped itself",
              {"`__trap()`, or code that the compiler knows cannot be reached"}, mask);
}

/// An instruction without operands, such as `exit`.
template <auto Handler>
void translate_alone(Translation& t) {
  if (t.operand_count() != 0) t.illegal("it has no operands");
  t.emit(Handler);
}

void translate_pmevent(Translation& t) {
  t.modifiers.take("mask");
  t.emit(do_nothing);
}

}  // namespace

void add_control_flow(InstructionSet& set) {
  constexpr InstructionTraits kLeaves{.reach = Reach::own_cluster, .proxy = Proxy::generic, .flow = Flow::leaves};
  InstructionTraits ends = kLeaves;
  ends.ends_polling = true;
  InstructionTraits chooses = ends;
  chooses.reads_first = true;
  InstructionTraits calls = chooses;
  calls.flow = Flow::calls;
  set.add("bra", translate_bra, kLeaves, InstructionClass::control);
  set.add("brx", translate_brx, chooses, InstructionClass::control);
  set.add("call", translate_call, calls, InstructionClass::control);
  set.add("ret", translate_return, ends, InstructionClass::control);
  set.add("exit", translate_alone<exit_thread>, ends, InstructionClass::control);
  set.add("trap", translate_alone<trap>, kLeaves, InstructionClass::other);
  set.add("brkpt", translate_alone<do_nothing>, kOrdinary, InstructionClass::other);
  set.add("pmevent", translate_pmevent, kOrdinary, InstructionClass::other);
}

}  // namespace stagecraft::emulator::machine
