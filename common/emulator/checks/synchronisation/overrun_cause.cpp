#include "emulator/checks/synchronisation/overrun_cause.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "emulator/checks/ordering/wording.hpp"
#include "emulator/state/mbarrier_table.hpp"

namespace stagecraft::emulator::checks {

namespace {

/// An arrival at another line in the phase that the instruction overran; null: there is none.
const PhaseNote* arrival_elsewhere(const BarrierOrder& barrier, const machine::Fragment& fragment) {
  const PhaseNote* found = nullptr;
  barrier.phases.for_each(barrier.arrival_ends, [&](const PhaseNote& note) {
    const bool arrives = note.kind == PhaseNote::Kind::arrival || note.kind == PhaseNote::Kind::commit;
    if (arrives && note.pc != fragment.pc) found = &note;
  });
  return found;
}

/// Another barrier of the block, for as many arrivals as lanes arrive here, where nobody has arrived: that of the same
/// number in another array, or else one of the same array; empty: there is none.
/// @param of_several  whether it may also be for those of several warps
std::string unused_barrier(const ClusterRecord& cluster, const machine::BarrierEvent& event, const std::string& name,
                           bool of_several = false) {
  const auto lanes = static_cast<uint32_t>(std::popcount(event.fragment->mask));
  const auto number_of = [](const std::string& full) { return full.substr(std::min(full.find('['), full.size())); };
  std::string sibling;
  for (const auto& [place, barrier] : event.block->mbarriers.live) {
    if (place == event.offset || barrier.phase != 0 || barrier.pending != barrier.expected) continue;
    if (barrier.expected != lanes && !(of_several && lanes > 1 && barrier.expected % lanes == 0)) continue;
    std::string other = cluster.kernel().name_of_barrier(place);
    if (number_of(other) == number_of(name)) return other;
    if (sibling.empty() && variable_of(other) == variable_of(name)) sibling = std::move(other);
  }
  return sibling;
}

/// Where a warp arrives at a barrier for which it waits itself, while others arrive there: it may mean another; empty:
/// it is not so.
std::string arrival_of_waiter(const ClusterRecord& cluster, const machine::BarrierEvent& event,
                              const BarrierOrder& barrier) {
  const ClusterOrder& order = cluster.order();
  const auto& waits = order.warp(order.warp_number(*event.fragment)).waits;
  const auto wait = waits.find(order.find_barrier(event.block->rank, event.offset));
  if (wait == waits.end() || wait->second.phases == 0) return {};
  bool by_own_warp = false, by_others = false;
  barrier.phases.for_each(wait->second.phases - 1, [&](const PhaseNote& note) {
    if (note.kind == PhaseNote::Kind::wait) return;
    const bool own = note.block == &event.fragment->block() && note.warp == event.fragment->warp->index;
    (own ? by_own_warp : by_others) = true;
  });
  if (by_own_warp || !by_others) return {};
  const std::string name = name_of(cluster, barrier), other = unused_barrier(cluster, event, name, true);
  return fmt::format(
      "this warp waits for {} itself{}, and others arrive there: is the arrival meant for {}?", name,
      line_of(cluster, wait->second.pc),
      other.empty() ? "another barrier" : fmt::format("another barrier, such as {}, which has got none yet", other));
}

}  // namespace

std::string cause_of_overrun(const ClusterRecord& cluster, const machine::BarrierEvent& event,
                             const BarrierOrder& barrier) {
  const auto live = event.block->mbarriers.live.find(event.offset);
  const auto lanes = static_cast<uint32_t>(std::popcount(event.fragment->mask));
  const std::string name = name_of(cluster, barrier);
  if (std::string waiter = arrival_of_waiter(cluster, event, barrier); !waiter.empty()) return waiter;
  if (live != event.block->mbarriers.live.end() && live->second.expected >= lanes) {
    if (const PhaseNote* other = arrival_elsewhere(barrier, *event.fragment)) {
      return fmt::format(
          "the arrival{} came in the same phase, so that these are too many together: arrive once in "
          "each round, or initialise {}{} for all of them",
          line_of(cluster, other->pc), name, line_of(cluster, barrier.initialised.pc()));
    }
  }
  const std::string usual = fmt::format(
      "every active lane arrives on its own: initialise {} for all that arrive in a phase, or let one elected lane "
      "arrive",
      name);
  if (const std::string other = unused_barrier(cluster, event, name); lanes > 1 && !other.empty()) {
    return fmt::format("{}; or is {} meant, which is initialised for {} arrivals and has got none yet?", usual, other,
                       lanes);
  }
  return usual;
}

}  // namespace stagecraft::emulator::checks
