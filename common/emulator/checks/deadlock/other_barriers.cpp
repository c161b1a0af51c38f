#include "emulator/checks/deadlock/other_barriers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "emulator/checks/deadlock/wording.hpp"
#include "emulator/checks/reporting/place.hpp"

namespace stagecraft::emulator::checks {

using machine::Block;
using machine::Fragment;
using machine::Kernel;
using machine::WaitKind;

std::vector<OtherBarrier> never_waited_for(const Sleepers& sleepers, const Fragment& waiter) {
  const Block* block = sleepers.block_of_barrier(waiter);
  std::vector<OtherBarrier> found;
  for (const auto& [offset, barrier] : block->mbarriers.live) {
    const BarrierHistory* history = sleepers.history_at(block, offset);
    if (barrier.phase == 0 || history == nullptr || history->was_waited_for) continue;
    found.push_back({offset, name_of_barrier(*waiter.grid().kernel, offset), &barrier, history});
  }
  return found;
}

std::vector<OtherBarrier> unclaimed(const Sleepers& sleepers, const Fragment& waiter) {
  std::vector<OtherBarrier> found = never_waited_for(sleepers, waiter);
  std::erase_if(found, [&](const OtherBarrier& other) {
    return std::any_of(sleepers.groups().begin(), sleepers.groups().end(),
                       [&](const Group& each) { return sleepers.barrier_of(*each.first) == other.barrier; });
  });
  return found;
}

std::vector<OtherBarrier> siblings_of(const Sleepers& sleepers, const Group& group, uint32_t offset) {
  const Block& block = *sleepers.block_of_barrier(*group.first);
  const Kernel& kernel = *group.first->grid().kernel;
  const std::string array = array_of(kernel, offset);
  const auto own = block.mbarriers.live.find(offset);
  std::vector<OtherBarrier> siblings;
  if (array.empty() || own == block.mbarriers.live.end()) return siblings;
  for (const auto& [at, barrier] : block.mbarriers.live) {
    const BarrierHistory* history = sleepers.history_at(&block, at);
    if (at == offset || history == nullptr || barrier.expected != own->second.expected) continue;
    if (array_of(kernel, at) == array) siblings.push_back({at, name_of_barrier(kernel, at), &barrier, history});
  }
  // The nearest slots stand for the same more likely than those at the other end of the array.
  const auto distance = [&](const OtherBarrier& each) {
    return each.offset < offset ? offset - each.offset : each.offset - offset;
  };
  std::stable_sort(siblings.begin(), siblings.end(),
                   [&](const OtherBarrier& a, const OtherBarrier& b) { return distance(a) < distance(b); });
  return siblings;
}

std::string user_of_array(const Sleepers& sleepers, const Group& group, uint32_t offset) {
  const Block& block = *sleepers.block_of_barrier(*group.first);
  const Kernel& kernel = *group.first->grid().kernel;
  const std::vector<OtherBarrier> siblings = siblings_of(sleepers, group, offset);
  for (const OtherBarrier& sibling : siblings) {
    for (const Group& other : sleepers.groups()) {
      const Fragment& there = *other.first;
      if (there.wait.kind != WaitKind::mbarrier || there.warp == group.first->warp) continue;
      if (sleepers.block_of_barrier(there) != &block || offset_of(there) != sibling.offset) continue;
      return fmt::format("{}, which {} for {}{} instead", describe_warps(other),
                         other.warps.size() == 1 ? "waits" : "wait", sibling.name, at_line(kernel, there.pc));
    }
  }
  for (const OtherBarrier& sibling : siblings) {
    for (const BarrierHistory::Waiter& waiter : sibling.history->waiters) {
      if (waiter.phases == 0 || (waiter.block == &block && waiter.warp == group.first->warp->index)) continue;
      return fmt::format("{}, which waited for {}{} last", describe_warp(*waiter.block, waiter.warp), sibling.name,
                         at_line(kernel, waiter.pc));
    }
  }
  return {};
}

std::string filler_that_has_ended(const Sleepers& sleepers, const Group& group) {
  const Block& block = *sleepers.block_of_barrier(*group.first);
  const Kernel& kernel = *group.first->grid().kernel;
  const auto has_ended = [&](const Block* of, uint32_t warp) {
    return of == &block && warp != group.first->warp->index && block.warps[warp].live == 0;
  };
  for (const OtherBarrier& sibling : siblings_of(sleepers, group, offset_of(*group.first))) {
    for (const BarrierHistory::Arriver& arriver : sibling.history->arrivers) {
      if (has_ended(arriver.block, arriver.warp)) {
        return fmt::format("{}, which arrived at {} before, has ended", describe_warp(block, arriver.warp),
                           sibling.name);
      }
    }
    for (const BarrierHistory::Waiter& waiter : sibling.history->waiters) {
      if (waiter.phases == 0 && has_ended(waiter.block, waiter.warp)) {
        return fmt::format("{}, whose wait for {}{} passed at once, as a producer's does, has ended",
                           describe_warp(block, waiter.warp), sibling.name, at_line(kernel, waiter.pc));
      }
    }
  }
  return {};
}

std::optional<uint32_t> full_barrier_of(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const Block* block = sleepers.block_of_barrier(first);
  const auto is_producer = [&](const auto& each) { return is_of_warp(each, first); };
  const auto filled_by_group = [&](const BarrierHistory& history) {
    return std::any_of(history.arrivers.begin(), history.arrivers.end(), is_producer);
  };
  // A consumer waits for a full barrier and arrives at the empty one of the same slot: at a distance that is the same
  // for all slots.
  std::map<int64_t, size_t> slots;  // by that distance
  std::vector<OtherBarrier> empties = siblings_of(sleepers, group, offset_of(first));
  empties.push_back({offset_of(first), {}, sleepers.barrier_of(first), &sleepers.history_of(first)});
  for (const OtherBarrier& empty : empties) {
    for (const auto& each : sleepers.histories()) {
      const auto& place = each.first;
      const BarrierHistory& full = each.second;
      if (place.first != block || place.second == empty.offset || !filled_by_group(full)) continue;
      const bool is_slot =
          std::any_of(empty.history->arrivers.begin(), empty.history->arrivers.end(), [&](const auto& freer) {
            return !is_producer(freer) &&
                   std::any_of(full.waiters.begin(), full.waiters.end(), [&](const auto& waiter) {
                     return waiter.block == freer.block && waiter.warp == freer.warp && waiter.phases > 0;
                   });
          });
      if (is_slot) ++slots[int64_t{place.second} - empty.offset];
    }
  }
  const auto most =
      std::max_element(slots.begin(), slots.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == slots.end()) return std::nullopt;
  const bool is_sure =
      std::count_if(slots.begin(), slots.end(), [&](const auto& each) { return each.second == most->second; }) == 1;
  const int64_t full = int64_t{offset_of(first)} + most->first;
  if (!is_sure || full < 0 || !block->mbarriers.live.contains(static_cast<uint32_t>(full))) return std::nullopt;
  return static_cast<uint32_t>(full);
}

Keeper keeper_of_slot(const Sleepers& sleepers, const Group& group) {
  Keeper keeper;
  const Fragment& first = *group.first;
  const Kernel& kernel = *first.grid().kernel;
  const Block* block = sleepers.block_of_barrier(first);
  const auto is_of_group = [&](const auto& each) { return is_of_warp(each, first); };
  const BarrierHistory& empty = sleepers.history_of(first);
  const auto last = std::find_if(empty.waiters.begin(), empty.waiters.end(), is_of_group);
  if (last == empty.waiters.end()) return {};
  // What the group arrived at first after its last wait for the slot, or where it announced bytes, says that it is
  // full; unless it has released a slot of another ring there, for which a producer waits.
  const BarrierHistory* full = nullptr;
  uint32_t full_at = 0;
  machine::Cycle filled = BarrierHistory::kByOperation;
  for (const auto& [place, history] : sleepers.histories()) {
    const auto own = std::find_if(history.arrivers.begin(), history.arrivers.end(), is_of_group);
    if (place.first != block || &history == &empty || own == history.arrivers.end()) continue;
    if (history.passed_before_first) continue;
    if (own->clock <= last->clock || own->clock >= filled) continue;
    full = &history;
    full_at = place.second;
    filled = own->clock;
  }
  if (full == nullptr) {
    // Commits come when the tensor core has done: the one that follows the wait in the program fills the slot.
    uint32_t nearest = std::numeric_limits<uint32_t>::max();
    for (const auto& each : sleepers.histories()) {
      const auto& place = each.first;
      const BarrierHistory& history = each.second;
      const auto at = block->mbarriers.live.find(place.second);
      if (place.first != block || history.passed_before_first || at == block->mbarriers.live.end()) continue;
      if (at->second.phase == 0) continue;
      history.phases.for_each(at->second.phase - 1, [&](const PhaseNote& note) {
        const bool is_own = note.kind == PhaseNote::Kind::commit && note.block == block && is_of_group(note);
        if (!is_own || note.pc <= last->pc || note.pc > nearest) return;
        full = note.pc == nearest ? nullptr : &history;  // one of several slots: who knows which
        full_at = place.second;
        nearest = note.pc;
      });
    }
  }
  const auto live = block->mbarriers.live.find(full_at);
  if (full == nullptr || live == block->mbarriers.live.end()) return {};
  if (live->second.phase <= sleepers.barrier_of(first)->phase) return {};
  std::vector<uint32_t> readers;
  const BarrierHistory::Waiter* reader = nullptr;
  for (const BarrierHistory::Waiter& each : full->waiters) {
    if (each.block != block || is_of_group(each) || each.phases != live->second.phase) continue;
    readers.push_back(each.warp);
    reader = &each;
  }
  if (reader == nullptr) return {};
  for (const OtherBarrier& sibling : siblings_of(sleepers, group, offset_of(first))) {
    const auto is_reader = [&](const auto& each) { return each.block == reader->block && each.warp == reader->warp; };
    const auto& arrivers = sibling.history->arrivers;
    const auto arrival = std::find_if(arrivers.begin(), arrivers.end(), is_reader);
    if (arrival == arrivers.end() || arrival->clock == BarrierHistory::kByOperation) continue;
    // It may have released that slot because it has read it, too.
    const BarrierHistory* its_full = sleepers.history_at(block, full_at + sibling.offset - offset_of(first));
    const bool has_read = its_full != nullptr && std::any_of(its_full->waiters.begin(), its_full->waiters.end(),
                                                             [&](const BarrierHistory::Waiter& each) {
                                                               return is_reader(each) && each.clock > reader->clock;
                                                             });
    if (arrival->clock > reader->clock && !has_read) keeper.instead = sibling.name;
  }
  std::sort(readers.begin(), readers.end());
  keeper.has_ended =
      std::all_of(readers.begin(), readers.end(), [&](uint32_t warp) { return block->warps[warp].live == 0; });
  keeper.text =
      fmt::format("{}, which waited for {}{}, {} not arrived there since", describe_numbers(readers),
                  name_of_barrier(kernel, full_at), at_line(kernel, reader->pc), readers.size() == 1 ? "has" : "have");
  return keeper;
}

std::string phase_left_behind(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const auto is_alone = [&](const Group& other) { return other.first->warp == first.warp; };
  if (!std::all_of(sleepers.groups().begin(), sleepers.groups().end(), is_alone)) return {};
  const Block* block = sleepers.block_of_barrier(first);
  for (const auto& [offset, barrier] : block->mbarriers.live) {
    const BarrierHistory* history = sleepers.history_at(block, offset);
    if (barrier.phase == 0 || history == nullptr) continue;
    uint64_t seen = 0;
    for (const BarrierHistory::Waiter& waiter : history->waiters) seen = std::max(seen, waiter.phases);
    const auto arrives = [&](const BarrierHistory::Arriver& arriver) { return is_of_warp(arriver, first); };
    if (seen >= barrier.phase || std::none_of(history->arrivers.begin(), history->arrivers.end(), arrives)) continue;
    const std::string user = user_of_array(sleepers, group, offset);
    return fmt::format("{} has completed phase {}, which nobody has waited for{}",
                       name_of_barrier(*first.grid().kernel, offset), barrier.phase - 1,
                       user.empty() ? user : fmt::format(" (is it for {}?)", user));
  }
  return {};
}

std::string describe_completed(const OtherBarrier& other) {
  return fmt::format("{} has completed phase {}", other.name, other.barrier->phase - 1);
}

}  // namespace stagecraft::emulator::checks
