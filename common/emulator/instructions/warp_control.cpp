// Instructions about the run of a warp itself: nanosleep, griddepcontrol, setmaxnreg.
#include <algorithm>
#include <memory>
#include <utility>

#include "emulator/instructions/families.hpp"
#include "emulator/state/fragments.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/state/waiting.hpp"
#include "emulator/translation/function_translator.hpp"
#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

namespace {

Outcome sleep_nanoseconds(Fragment& fragment, const Op& op, LaneMask mask) {
  if (fragment.timed_out) {
    fragment.timed_out = false;
    return Outcome::next;
  }
  uint64_t longest = 0;
  const auto* nanoseconds = lanes_at<uint32_t>(fragment.registers, op.a);
  for_each_lane(mask, [&](uint32_t lane) { longest = std::max<uint64_t>(longest, nanoseconds[lane]); });
  if (const LaneMask others = fragment.mask & ~mask; others != 0) split_off(fragment, others, fragment.pc + 1);
  sleep_at_most(fragment, {WaitKind::sleep, 0, longest},
                1 + longest * fragment.grid().architecture->clock_khz / 1'000'000);
  return Outcome::blocked;
}

void translate_nanosleep(Translation& t) {
  t.modifiers.require("u32");
  const RegisterOffset time = t.source(0, ptx::Type::u32);
  t.emit(sleep_nanoseconds).a = time;
}

/// Programmatic dependent launch: grids run one after the other here, so what they wait for has happened.
void translate_griddepcontrol(Translation& t) {
  const bool lets_start = t.modifiers.require_one_of({"wait", "launch_dependents"}) == "launch_dependents";
  if (lets_start) t.function().kernel().lets_next_grid_start = true;
  t.emit(do_nothing);
}

struct RegisterDetail : OpDetail {
  bool increases = false;
  uint32_t count = 0;  ///< registers per thread
};

RegisterPool& pool_of(const Fragment& fragment) {
  Block& block = fragment.block();
  RegisterPool& pool = block.register_pool;
  if (pool.shares.empty()) {
    const auto warps = static_cast<uint32_t>(block.warps.size());
    pool.at_launch = fragment.grid().kernel->launch_registers();
    pool.shares.resize(warps, {.count = pool.at_launch});
    // ptxas 13.0 divides the registers of a multiprocessor among warps in fours. What the missing warps of the last
    // four would have counts as free, so that no wait is reported that may end on the chip.
    constexpr uint32_t kWarps = 4;
    pool.available = (warps + kWarps - 1) / kWarps * kWarps * pool.at_launch - warps * pool.at_launch;
    pool.total = warps * pool.at_launch + pool.available;
  }
  return pool;
}

/// Changes how many registers the warp has. It computes with as many as it needs either way.
Outcome change_registers(Fragment& fragment, const Op& op, LaneMask mask) {
  if (converge_warp(fragment, mask) == 0) return Outcome::blocked;
  const auto& detail = *static_cast<const RegisterDetail*>(op.detail);
  RegisterPool& pool = pool_of(fragment);
  RegisterPool::WarpShare& mine = pool.shares[fragment.warp->index];
  if (!mine.asked) {
    const RegisterChange event{&fragment, detail.increases, detail.count, mine.count};
    for (Observer* observer : fragment.grid().observers) observer->registers_changed(event);
  }
  mine.asked = mine.changed = true;
  mine.changed_at = fragment.pc;
  if (pool.at_launch != 0) {
    if (detail.count > mine.count + pool.available && detail.increases) {
      pool.waiting.push_back(&fragment);
      sleep(fragment, {WaitKind::registers, 0, detail.count});
      return Outcome::blocked;
    }
    if ((detail.count > mine.count) == detail.increases) {  // the other direction is undefined: it changes nothing here
      pool.available += mine.count - detail.count;
      mine.count = detail.count;
    }
    if (!detail.increases) {
      note_effect(fragment);
      for (Fragment* waiting : std::exchange(pool.waiting, {})) wake(*waiting);
    }
  }
  mine.asked = false;
  return Outcome::next;
}

void translate_setmaxnreg(Translation& t) {
  auto detail = std::make_unique<RegisterDetail>();
  detail->increases = t.modifiers.require_one_of({"inc", "dec"}) == "inc";
  t.modifiers.require("sync");
  t.modifiers.require("aligned");
  t.modifiers.require("u32");
  const int64_t count = t.integer(t.operand(0), "the register count");
  if (count < 24 || count > 256 || count % 8 != 0) t.illegal("the register count must be 24 to 256, a multiple of 8");
  detail->count = static_cast<uint32_t>(count);
  t.emit(change_registers).detail = t.keep(std::move(detail));
}

InstructionClass class_of_register_change(const ptx::Instruction& instruction) {
  return ptx::has_modifier(instruction, "inc") ? InstructionClass::more_registers : InstructionClass::fewer_registers;
}

}  // namespace

void add_warp_control(InstructionSet& set) {
  InstructionTraits sleeps = kOrdinary;
  sleeps.sleeps = sleeps.reads_first = true;
  InstructionTraits sets_registers = kOrdinary;
  sets_registers.sets_register_count = true;
  set.add("nanosleep", translate_nanosleep, sleeps, InstructionClass::other);
  set.add(
      "griddepcontrol", translate_griddepcontrol,
      [](const ptx::Instruction& instruction) {
        InstructionTraits traits = kOrdinary;
        if (ptx::has_modifier(instruction, "wait")) traits.fence = FenceKind::grid_dependencies;
        return traits;
      },
      InstructionClass::other);
  set.add("setmaxnreg", translate_setmaxnreg, sets_registers, class_of_register_change);
}

}  // namespace stagecraft::emulator::machine
