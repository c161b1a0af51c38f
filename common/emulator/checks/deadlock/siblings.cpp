// What the other barriers of an array, such as the slots of a ring, say about one at which nobody arrives.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "emulator/checks/deadlock/sleepers.hpp"
#include "emulator/checks/reporting/place.hpp"
#include "emulator/checks/reporting/report.hpp"

namespace stagecraft::emulator::checks {

using machine::Block;
using machine::Kernel;
using machine::WaitKind;

namespace {

/// "full[": what the names of an array's barriers begin with; empty where there is no array.
std::string array_of(const std::string& name) {
  const size_t bracket = name.find('[');
  return bracket == std::string::npos ? std::string() : name.substr(0, bracket + 1);
}

std::string spell_warp(const Block& block, uint32_t warp) {
  return fmt::format("block ({},{},{}) warp {}", block.index.x, block.index.y, block.index.z, warp);
}

}  // namespace

std::vector<Sleepers::Sibling> Sleepers::siblings_of(const Group& group, uint32_t offset) const {
  const Block& block = *cluster_.block_of(group.first->wait.address);
  const Kernel& kernel = *group.first->grid().kernel;
  const std::string array = array_of(name_of_barrier(kernel, offset));
  const auto own = block.mbarriers.live.find(offset);
  std::vector<Sibling> siblings;
  if (array.empty() || own == block.mbarriers.live.end()) return siblings;
  for (const auto& [at, barrier] : block.mbarriers.live) {
    const auto history = histories_.find({&block, at});
    if (at == offset || history == histories_.end() || barrier.expected != own->second.expected) continue;
    std::string name = name_of_barrier(kernel, at);
    if (name.starts_with(array)) siblings.push_back({at, std::move(name), &barrier, &history->second});
  }
  // The nearest slots stand for the same more likely than those at the other end of the array.
  const auto distance = [&](const Sibling& each) {
    return each.offset < offset ? offset - each.offset : each.offset - offset;
  };
  std::stable_sort(siblings.begin(), siblings.end(),
                   [&](const Sibling& a, const Sibling& b) { return distance(a) < distance(b); });
  return siblings;
}

std::string Sleepers::user_of_siblings(const Group& group, uint32_t offset) const {
  const Block& block = *cluster_.block_of(group.first->wait.address);
  const Kernel& kernel = *group.first->grid().kernel;
  const std::vector<Sibling> siblings = siblings_of(group, offset);
  for (const Sibling& sibling : siblings) {
    for (const Group& other : groups_) {
      const machine::Fragment& there = *other.first;
      if (there.wait.kind != WaitKind::mbarrier || there.warp == group.first->warp) continue;
      if (cluster_.block_of(there.wait.address) != &block) continue;
      if ((there.wait.address & machine::kSharedOffsetMask) != sibling.offset) continue;
      return fmt::format("{}, which {} for {}{} instead", describe_warps(other),
                         other.warps.size() == 1 ? "waits" : "wait", sibling.name, at_line(kernel, there.pc));
    }
  }
  for (const Sibling& sibling : siblings) {
    for (const BarrierHistory::Waiter& waiter : sibling.history->waiters) {
      if (waiter.phases == 0 || (waiter.block == &block && waiter.warp == group.first->warp->index)) continue;
      return fmt::format("{}, which waited for {}{} last", spell_warp(*waiter.block, waiter.warp), sibling.name,
                         at_line(kernel, waiter.pc));
    }
  }
  return {};
}

std::string Sleepers::unseen_and_by_whom(const Group& group) const {
  const std::string unseen = phase_that_nobody_waits_for(group);
  if (unseen.empty()) return {};
  std::string by_whom;
  for (const Unseen& each : never_waited_for(*group.first)) {
    if (!unseen.starts_with(each.name + " ")) continue;
    by_whom = user_of_siblings(group, each.offset);
  }
  return by_whom.empty()
             ? fmt::format(" {}, and nobody has ever waited for that", unseen)
             : fmt::format(
                   " {}, and nobody has ever waited for that: is it for {}, and does that side take fewer rounds, or "
                   "not step to the next slot?",
                   unseen, by_whom);
}

std::string Sleepers::filler_that_has_ended(const Group& group) const {
  const Block& block = *cluster_.block_of(group.first->wait.address);
  const Kernel& kernel = *group.first->grid().kernel;
  const uint32_t offset = group.first->wait.address & machine::kSharedOffsetMask;
  const auto has_ended = [&](const Block* of, uint32_t warp) {
    return of == &block && warp != group.first->warp->index && block.warps[warp].live == 0;
  };
  for (const Sibling& sibling : siblings_of(group, offset)) {
    for (const BarrierHistory::Arriver& arriver : sibling.history->arrivers) {
      if (has_ended(arriver.block, arriver.warp)) {
        return fmt::format("{}, which arrived at {} before, has ended", spell_warp(block, arriver.warp), sibling.name);
      }
    }
    for (const BarrierHistory::Waiter& waiter : sibling.history->waiters) {
      if (waiter.phases == 0 && has_ended(waiter.block, waiter.warp)) {
        return fmt::format("{}, whose wait for {}{} passed at once, as a producer's does, has ended",
                           spell_warp(block, waiter.warp), sibling.name, at_line(kernel, waiter.pc));
      }
    }
  }
  return {};
}

std::string Sleepers::array_without_arrivals(const Group& group) const {
  const Kernel& kernel = *group.first->grid().kernel;
  const std::vector<Sibling> siblings = siblings_of(group, group.first->wait.address & machine::kSharedOffsetMask);
  if (siblings.empty()) return {};
  std::string waiter;
  for (const Sibling& sibling : siblings) {
    if (!sibling.history->arrivers.empty() || sibling.barrier->phase > 0) return {};
    for (const BarrierHistory::Waiter& each : sibling.history->waiters) {
      if (!waiter.empty() || each.phases != 0 || each.block->warps[each.warp].live != 0) continue;
      waiter = fmt::format("{}, whose wait for {}{} passed at once, has ended", spell_warp(*each.block, each.warp),
                           sibling.name, at_line(kernel, each.pc));
    }
  }
  if (waiter.empty()) return {};
  return fmt::format(
      "nobody has ever arrived at {}, nor at any other barrier of that array: {}. Is its arrival missing?",
      name_of(*group.first), waiter);
}

std::string Sleepers::sibling_seen_by_nobody(const Group& group) const {
  for (const Sibling& sibling : siblings_of(group, group.first->wait.address & machine::kSharedOffsetMask)) {
    const auto& waiters = sibling.history->waiters;
    const bool seen = std::any_of(waiters.begin(), waiters.end(), [](const auto& each) { return each.phases > 0; });
    // Somebody has waited for the phase before the first, so that the array has two sides which take turns.
    if (sibling.barrier->phase == 0 || seen || waiters.empty()) continue;
    return fmt::format(
        "nobody has ever arrived at {}, while {} has completed phase {}, which nobody has waited for: is this wait "
        "meant for {}?",
        name_of(*group.first), sibling.name, sibling.barrier->phase - 1, sibling.name);
  }
  return {};
}

}  // namespace stagecraft::emulator::checks
