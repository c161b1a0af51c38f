#include "emulator/instructions/clocks.hpp"

#include <fmt/format.h>

#include <optional>

#include "emulator/state/grid.hpp"
#include "emulator/translation/function_translator.hpp"

namespace stagecraft::emulator::machine {

namespace {

enum class Clock : uint64_t { cycles, nanoseconds };

/// Cycles between two readings of a loop that does little else.
constexpr Cycle kPollCycles = 64;
/// Such a loop waits for the clock. After this time each reading takes a part of what the loop has waited so far, so
/// that a wait of a millisecond is not a million instructions. The wait ends late by that part at most.
constexpr Cycle kPatience = 1024;
constexpr Cycle kPartOfWait = 32;

void take_time(Fragment& fragment) {
  ClockPoll& poll = fragment.clock_poll;
  Cycle& clock = fragment.warp->clock;
  const bool waits =
      poll.pc == fragment.pc && clock - poll.last <= kPollCycles && fragment.idle_poll_pc != Fragment::kEffect;
  if (!waits) poll = {fragment.pc, clock, clock};
  if (const Cycle waited = clock - poll.began; waited >= kPatience) clock += waited / kPartOfWait;
  poll.last = clock;
}

template <typename Element>
Outcome read_clock(Fragment& fragment, const Op& op, LaneMask mask) {
  ++*fragment.effects;  // a loop that reads a clock need not be endless (endless_loop.hpp)
  take_time(fragment);
  const Cycle cycles = fragment.warp->clock;
  // The frequency of the chip makes nanoseconds of virtual cycles; they start with the launch.
  const uint64_t khz = fragment.grid().architecture->clock_khz;
  const uint64_t value = static_cast<Clock>(op.immediate) == Clock::cycles
                             ? cycles + fragment.block().sm->clock_at_start
                             : cycles * 1'000'000 / khz;
  const auto result = static_cast<Element>(op.b == 1 ? value >> 32 : value);
  auto* to = lanes_at<Element>(fragment.registers, op.destination);
  for_each_lane(mask, [&](uint32_t lane) { to[lane] = result; });
  return Outcome::next;
}

/// Which clock a special register reads, and whether its upper half; nullopt for one that is no clock.
struct ClockReading {
  Clock clock;
  bool upper_half = false;
};
std::optional<ClockReading> clock_reading(Special special) {
  switch (special) {
    case Special::clock:
    case Special::clock64: return ClockReading{Clock::cycles};
    case Special::clock_high: return ClockReading{Clock::cycles, true};
    case Special::globaltimer:
    case Special::globaltimer_low: return ClockReading{Clock::nanoseconds};
    case Special::globaltimer_high: return ClockReading{Clock::nanoseconds, true};
    default: return std::nullopt;
  }
}

}  // namespace

bool translate_clock(Translation& t, ptx::Type type) {
  const ptx::Operand& from = t.operand(1);
  if (from.kind != ptx::OperandKind::special) return false;
  const ptx::SpecialRegister* known = ptx::find_special_register(from.name);
  const auto reading = clock_reading(known != nullptr ? known->special : Special::none);
  if (!reading) return false;
  if (8 * ptx::size_of(type) != known->bits) {
    t.illegal(fmt::format("%{} has {} bits; this operand is of type .{}", from.name, known->bits, ptx::name_of(type)));
  }
  t.function().kernel().reads_clock = true;
  const RegisterOffset to = t.destination(0, type);
  Op& op = ptx::size_of(type) == 8 ? t.emit(read_clock<uint64_t>) : t.emit(read_clock<uint32_t>);
  op.destination = to;
  op.immediate = static_cast<uint64_t>(reading->clock);
  op.b = reading->upper_half ? 1 : 0;
  return true;
}

}  // namespace stagecraft::emulator::machine
