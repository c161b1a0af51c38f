// Instructions about the run of a warp itself: nanosleep, griddepcontrol, setmaxnreg.
#include <algorithm>

#include "emulator/instructions/families.hpp"
#include "emulator/state/fragments.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/state/waiting.hpp"
#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

namespace {

Outcome do_nothing(Fragment&, const Op&, LaneMask) { return Outcome::next; }

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
  t.modifiers.require_one_of({"wait", "launch_dependents"});
  t.emit(do_nothing);
}

/// The emulator does not limit the registers of a warp while its block runs.
void translate_setmaxnreg(Translation& t) {
  t.modifiers.require_one_of({"inc", "dec"});
  t.modifiers.require("sync");
  t.modifiers.require("aligned");
  t.modifiers.require("u32");
  const int64_t count = t.integer(t.operand(0), "the register count");
  if (count < 24 || count > 256 || count % 8 != 0) t.illegal("the register count must be 24 to 256, a multiple of 8");
  t.emit(do_nothing);
}

}  // namespace

void add_warp_control(InstructionSet& set) {
  set.add("nanosleep", translate_nanosleep, {.reach = Reach::own_cluster, .proxy = Proxy::generic, .sleeps = true});
  set.add("griddepcontrol", translate_griddepcontrol, kOrdinary);
  set.add("setmaxnreg", translate_setmaxnreg, kOrdinary);
}

}  // namespace stagecraft::emulator::machine
