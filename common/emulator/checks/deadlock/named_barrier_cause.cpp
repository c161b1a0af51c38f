// Which warps a barrier of the block counts although they have exited.
#include <fmt/format.h>

#include <bit>

#include "emulator/checks/deadlock/sleepers.hpp"

namespace stagecraft::emulator::checks {

using machine::Block;
using machine::Fragment;
using machine::Warp;

std::string Sleepers::warps_that_have_exited(const Group& group) {
  const Fragment& first = *group.first;
  const Block& block = first.block();
  const machine::NamedBarrier& barrier = block.named_barriers[first.wait.address];
  if (barrier.expected <= barrier.arrived) return {};
  uint32_t living = 0, gone = 0;
  std::string names;
  for (const Warp& warp : block.warps) {
    living += static_cast<uint32_t>(std::popcount(warp.live));
    if (warp.live != 0) continue;
    names += fmt::format("{}{}", gone == 0 ? "" : ", ", warp.index);
    ++gone;
  }
  // Those who arrived by barrier.arrive may still live; they only make this silent.
  uint32_t here = 0;
  for (const Fragment* each : barrier.waiting) here += static_cast<uint32_t>(std::popcount(each->mask));
  const uint32_t missing = barrier.expected - barrier.arrived;
  if (gone == 0 || living - here >= missing) return {};
  return fmt::format(
      "barrier {} counts {} threads, and {} of them are still to come, but warp{} {} {} exited: does a return, or a "
      "branch that skips the barrier, stand before it? Every warp that it counts must come before it leaves",
      first.wait.address, barrier.expected, missing, gone == 1 ? "" : "s", names, gone == 1 ? "has" : "have");
}

}  // namespace stagecraft::emulator::checks
