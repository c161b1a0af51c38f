// What the state of an mbarrier says without its phases.
#include <fmt/format.h>

#include <bit>

#include "emulator/checks/deadlock/causes.hpp"
#include "emulator/checks/deadlock/wording.hpp"
#include "emulator/checks/reporting/place.hpp"

namespace stagecraft::emulator::checks {

std::string two_barriers_at_one_address(const Sleepers& sleepers, const Group& group) {
  const machine::Kernel& kernel = *group.first->grid().kernel;
  const BarrierHistory& history = sleepers.history_of(*group.first);
  const auto& one = history.initialisations.front();
  const auto& other = history.initialisations.back();
  return fmt::format("{} is initialised{} for {} arrival{}, and then{} for {}: do two barriers share one address?",
                     name_of_barrier(*group.first), at_line(kernel, one.pc), one.count, one.count == 1 ? "" : "s",
                     at_line(kernel, other.pc), other.count);
}

std::string lanes_end_phases_alone(const Sleepers& sleepers, const Group& group) {
  const machine::Mbarrier& barrier = *sleepers.barrier_of(*group.first);
  const BarrierHistory& history = sleepers.history_of(*group.first);
  return fmt::format(
      "{} lanes arrived at {} in one instruction{}, which ended {} of its phases at once, because each takes {} "
      "arrival{}: initialise it for all that arrive in a phase, or let one elected lane arrive",
      std::popcount(history.overrun_lanes), name_of_barrier(*group.first),
      at_line(*group.first->grid().kernel, history.overrun_pc), history.overrun_phases, barrier.expected,
      barrier.expected == 1 ? "" : "s");
}

}  // namespace stagecraft::emulator::checks
