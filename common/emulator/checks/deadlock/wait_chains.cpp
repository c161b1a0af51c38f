#include "emulator/checks/deadlock/wait_chains.hpp"

#include <algorithm>
#include <string>

#include "emulator/checks/causes/control_flow.hpp"
#include "emulator/checks/deadlock/causes.hpp"
#include "emulator/checks/deadlock/other_barriers.hpp"
#include "emulator/checks/deadlock/wording.hpp"
#include "emulator/state/tensor_units.hpp"

namespace stagecraft::emulator::checks {

using machine::Block;
using machine::Fragment;
using machine::Wait;
using machine::WaitKind;

namespace {

using Needs = std::vector<size_t>;

/// Adds the groups other than `group` that have a fragment for which `wanted` is true.
template <typename Wanted>
void add(const Sleepers& sleepers, const Group& group, Needs& needs, const Wanted& wanted) {
  const std::vector<Group>& groups = sleepers.groups();
  for (size_t index = 0; index < groups.size(); ++index) {
    const std::vector<const Fragment*>& all = groups[index].all;
    if (&groups[index] == &group) continue;
    if (std::any_of(all.begin(), all.end(), [&](const Fragment* each) { return wanted(*each); })) {
      needs.push_back(index);
    }
  }
}

/// For a wait at a barrier of an array where nobody has arrived yet: those who arrived at others of the array may
/// arrive there, too, above all through an operation that they are still to issue.
void add_arrivers_at_array(const Sleepers& sleepers, const Group& group, Needs& needs) {
  const Fragment& first = *group.first;
  const Block* block = sleepers.block_of_barrier(first);
  const std::string array = array_of(*first.grid().kernel, offset_of(first));
  if (array.empty()) return;
  for (const auto& [place, history] : sleepers.histories()) {
    if (place.first != block || array_of(*first.grid().kernel, place.second) != array) continue;
    if (!history.arrived_by_operation) continue;
    add(sleepers, group, needs, [&, &arrivers = history.arrivers](const Fragment& other) {
      // One that waits for an arrival which has never come either may wait for this very group.
      const bool also_first = other.wait.kind == WaitKind::mbarrier && sleepers.history_of(other).arrivers.empty();
      return !also_first && std::any_of(arrivers.begin(), arrivers.end(),
                                        [&](const BarrierHistory::Arriver& arriver) { return arriver.is_in(other); });
    });
  }
}

/// For a producer whose first wait passed at once, and whose slot nobody has released: those who are still at their
/// first wait are to do that, unless somebody waits for the producer and so has come further.
void add_those_who_have_not_begun(const Sleepers& sleepers, const Group& group, Needs& needs) {
  if (!sleepers.history_of(*group.first).passed_before_first || sleepers.is_waited_for(group)) return;
  if (keeper_of_slot(sleepers, group).has_ended) return;
  const std::vector<Group>& groups = sleepers.groups();
  for (size_t index = 0; index < groups.size(); ++index) {
    if (&groups[index] != &group && sleepers.has_not_begun(groups[index])) needs.push_back(index);
  }
}

/// For a barrier at which some have arrived in its first phase: those who have not begun, if they are as many as miss;
/// or a group of them that is.
void add_as_many_as_are_missing(const Sleepers& sleepers, const Group& group, const machine::Mbarrier& barrier,
                                Needs& needs) {
  if (barrier.phase != 0 || barrier.pending == 0 || barrier.pending == barrier.expected) return;
  const std::vector<Group>& groups = sleepers.groups();
  Needs idle;
  size_t threads = 0;
  for (size_t index = 0; index < groups.size(); ++index) {
    const Group& other = groups[index];
    if (&other == &group || &other.first->block() != &group.first->block() || !sleepers.has_not_begun(other)) continue;
    idle.push_back(index);
    threads += threads_of(other);
  }
  const auto missing = static_cast<size_t>(barrier.pending);
  if (threads != missing) std::erase_if(idle, [&](size_t index) { return threads_of(groups[index]) != missing; });
  needs.insert(needs.end(), idle.begin(), idle.end());
}

/// For a barrier that lacks bytes only: those whose copies brought some in the phase before, and none in this one.
void add_those_who_brought_bytes(const Sleepers& sleepers, const Group& group, const machine::Mbarrier& barrier,
                                 Needs& needs) {
  if (barrier.phase == 0) return;
  const PhaseHistory& phases = sleepers.history_of(*group.first).phases;
  const auto brought_in = [&](uint64_t phase, const Fragment& other) {
    bool any = false;
    phases.for_each(phase, [&](const PhaseNote& note) {
      const bool same = is_of_warp(note, other) && (note.lanes & other.mask) != 0;
      any = any || (same && note.kind == PhaseNote::Kind::bytes);
    });
    return any;
  };
  add(sleepers, group, needs,
      [&](const Fragment& other) { return brought_in(barrier.phase - 1, other) && !brought_in(barrier.phase, other); });
}

/// A warp that has arrived at the mbarrier before may do so again; nothing is known about others.
void add_those_who_may_arrive(const Sleepers& sleepers, const Group& group, Needs& needs) {
  const machine::Mbarrier* barrier = sleepers.barrier_of(*group.first);
  const BarrierHistory& history = sleepers.history_of(*group.first);
  if (barrier == nullptr || history.overrun_lanes != 0) return;
  if (barrier->pending == 0) return add_those_who_brought_bytes(sleepers, group, *barrier, needs);
  if (!waiter_was_lapped(sleepers, group).empty()) return;  // that is itself a mistake
  if (history.arrivers.empty()) {
    add_arrivers_at_array(sleepers, group, needs);
    return add_those_who_have_not_begun(sleepers, group, needs);
  }
  add_as_many_as_are_missing(sleepers, group, *barrier, needs);
  add(sleepers, group, needs, [&](const Fragment& other) {
    return std::any_of(history.arrivers.begin(), history.arrivers.end(), [&](const BarrierHistory::Arriver& arriver) {
      return arriver.is_in(other) && arriver.phase < barrier->phase;
    });
  });
}

}  // namespace

std::vector<size_t> needs_of(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const Wait& wait = first.wait;
  const machine::Cluster& cluster = sleepers.cluster();
  Needs needs;
  switch (wait.kind) {
    case WaitKind::mbarrier: add_those_who_may_arrive(sleepers, group, needs); break;
    case WaitKind::named_barrier:
      add(sleepers, group, needs, [&](const Fragment& other) {
        if (&other.block() != &first.block()) return false;
        if (other.wait.kind == WaitKind::named_barrier && other.wait.address == wait.address) return false;
        // One that counts all is also complete when the others have exited.
        const bool of_all = first.block().named_barriers[wait.address].expected == 0;
        return of_all || may_come_to_barrier(*first.grid().kernel, other.pc, wait.address);
      });
      break;
    case WaitKind::block_pair:
      add(sleepers, group, needs,
          [&](const Fragment& other) { return &other.block() == machine::peer_of(first.block()); });
      break;
    case WaitKind::warp_sync:
      add(sleepers, group, needs, [&](const Fragment& other) {
        return other.warp == first.warp && (static_cast<machine::LaneMask>(wait.value) & other.mask) != 0;
      });
      break;
    case WaitKind::cluster_barrier:
      if (!one_block_meets_once_more(sleepers, group).empty()) break;  // that is itself a mistake
      add(sleepers, group, needs, [&](const Fragment& other) {
        const Block& block = other.block();
        bool missing = false;
        machine::for_each_lane(other.mask, [&](uint32_t lane) {
          missing = missing || block.cluster_rounds[machine::thread_of(other, lane)] <= cluster.barrier_generation;
        });
        return missing;
      });
      break;
    default: break;
  }
  return needs;
}

/// A root is a group that is needed in turn by every group that it needs, directly or not. So it needs no group that
/// sleeps, or is part of a ring of groups that wait for each other.
void find_roots(std::vector<Group>& groups) {
  std::vector<std::vector<bool>> reached(groups.size(), std::vector<bool>(groups.size(), false));
  for (size_t start = 0; start < groups.size(); ++start) {
    std::vector<size_t> open{start};
    while (!open.empty()) {
      const size_t at = open.back();
      open.pop_back();
      for (const size_t next : groups[at].needs) {
        if (reached[start][next]) continue;
        reached[start][next] = true;
        open.push_back(next);
      }
    }
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    groups[i].is_root = true;
    for (size_t j = 0; j < groups.size(); ++j) {
      if (reached[i][j] && !reached[j][i]) groups[i].is_root = false;
    }
  }
}

}  // namespace stagecraft::emulator::checks
