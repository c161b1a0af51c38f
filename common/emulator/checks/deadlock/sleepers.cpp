#include "emulator/checks/deadlock/sleepers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "emulator/checks/deadlock/register_demand.hpp"
#include "emulator/checks/reporting/place.hpp"
#include "emulator/checks/reporting/report.hpp"
#include "emulator/state/tensor_units.hpp"

namespace stagecraft::emulator::checks {

using machine::Block;
using machine::Cluster;
using machine::Fragment;
using machine::Kernel;
using machine::Wait;
using machine::WaitKind;
using machine::Warp;

namespace {

constexpr uint32_t kOffsetMask = machine::kSharedOffsetMask;

/// "its peer, block (1,0,0)": what a fragment waits for.
std::string name_of_peer(const Fragment& fragment) {
  const Block& peer = *machine::peer_of(fragment.block());
  return fmt::format("its peer, block ({},{},{}),", peer.index.x, peer.index.y, peer.index.z);
}

}  // namespace

std::string name_of_barrier(const Kernel& kernel, uint32_t address) {
  return kernel.name_of_shared(address & kOffsetMask, machine::kMbarrierBytes);
}

std::string describe_wait(const Fragment& fragment) {
  const Kernel& kernel = *fragment.grid().kernel;
  const Wait& wait = fragment.wait;
  switch (wait.kind) {
    case WaitKind::mbarrier:
      return fmt::format(
          "waits for {} to complete phase {} (the phase of parity {})", name_of_barrier(kernel, wait.address),
          [&] {
            const Block* block = fragment.cluster().block_of(wait.address);
            const auto found = block->mbarriers.live.find(wait.address & kOffsetMask);
            return found == block->mbarriers.live.end() ? wait.value : found->second.phase;
          }(),
          wait.value & 1);
    case WaitKind::named_barrier: {
      const machine::NamedBarrier& barrier = fragment.block().named_barriers[wait.address];
      return fmt::format("waits at barrier {}, where {} of {} threads have arrived", wait.address, barrier.arrived,
                         barrier.expected == 0 ? std::string("all living") : std::to_string(barrier.expected));
    }
    case WaitKind::warp_sync:
      return fmt::format(
          "waits for {} of its warp to come to the same instruction",
          describe_lanes(static_cast<machine::LaneMask>(wait.value) & fragment.warp->live & ~fragment.mask));
    case WaitKind::cluster_barrier:
      return fmt::format("waits at barrier.cluster, where {} threads have arrived", fragment.cluster().barrier_arrived);
    case WaitKind::tensor_memory: return fmt::format("waits for {} columns of tensor memory", wait.value);
    case WaitKind::block_pair:
      return fmt::format("waits for a warp of {} to come to {} as well (cta_group::2)", name_of_peer(fragment),
                         machine::name_of(static_cast<machine::Tcgen05PairInstruction>(wait.value)));
    case WaitKind::bulk_group: return fmt::format("waits until at most {} of its bulk groups are pending", wait.value);
    case WaitKind::registers: return describe_register_wait(fragment);
    case WaitKind::warpgroup_mma:
      return wait.address == 0
                 ? fmt::format("waits until at most {} groups of its wgmma.mma_async are pending", wait.value)
                 : "waits for the wgmma.mma_async that has its register as an accumulator";
    case WaitKind::grid_dependency: return "waits for the grid before it";
    case WaitKind::sleep:
    case WaitKind::none: break;
  }
  return "sleeps";
}

std::string describe_warps(const Group& group) {
  const Block& block = group.first->block();
  std::string warps;
  for (size_t i = 0; i < group.warps.size(); ++i) {
    size_t last = i;
    while (last + 1 < group.warps.size() && group.warps[last + 1] == group.warps[last] + 1) ++last;
    warps += fmt::format("{}{}", warps.empty() ? "" : ", ", group.warps[i]);
    if (last > i) warps += fmt::format("-{}", group.warps[last]);
    i = last;
  }
  const std::string lanes =
      group.warps.size() == 1 || group.whole_warps ? describe_lanes(group.first->mask) : "some lanes";
  return fmt::format("block ({},{},{}) {} {} [{}]", block.index.x, block.index.y, block.index.z,
                     group.warps.size() == 1 ? "warp" : "warps", warps, lanes);
}

std::string describe_group(const Group& group) {
  const std::string source = group.first->grid().kernel->describe_source(group.first->pc);
  return fmt::format("{} {}{}", describe_warps(group), source.empty() ? std::string() : fmt::format("at {}: ", source),
                     describe_wait(*group.first));
}

Sleepers::Sleepers(const Cluster& cluster, const BarrierHistories& histories)
    : cluster_(cluster), histories_(histories) {
  collect();
  for (Group& group : groups_) find_needs(group);
  find_roots();
  for (Group& group : groups_) group.cause = cause_of(group);
  for (Group& group : groups_) group.needs.clear();
  std::stable_sort(groups_.begin(), groups_.end(), [](const Group& a, const Group& b) {
    return a.is_root != b.is_root ? a.is_root : a.cause.worth > b.cause.worth;
  });
}

std::string Sleepers::name_of(const Fragment& fragment) {
  return name_of_barrier(*fragment.grid().kernel, fragment.wait.address);
}

void Sleepers::collect() {
  for (const auto& block : cluster_.blocks) {
    for (const Warp& warp : block->warps) {
      for (const auto& fragment : warp.fragments) {
        if (fragment->state != machine::FragmentState::blocked) continue;
        const auto same = std::find_if(groups_.begin(), groups_.end(), [&](const Group& group) {
          const Fragment& first = *group.first;
          return first.warp->block == block.get() && first.pc == fragment->pc &&
                 first.wait.kind == fragment->wait.kind && first.wait.address == fragment->wait.address &&
                 first.wait.value == fragment->wait.value &&
                 (first.wait.kind != WaitKind::warp_sync || &first == fragment.get());
        });
        const bool whole = fragment->mask == machine::kAllLanes;
        if (same == groups_.end()) {
          groups_.push_back({fragment.get(), {fragment.get()}, {warp.index}, whole});
        } else {
          same->all.push_back(fragment.get());
          if (same->warps.back() != warp.index) same->warps.push_back(warp.index);
          same->whole_warps = same->whole_warps && whole;
        }
      }
    }
  }
}

const machine::Mbarrier* Sleepers::barrier_of(const Fragment& fragment) const {
  if (fragment.wait.kind != WaitKind::mbarrier) return nullptr;
  const Block* block = cluster_.block_of(fragment.wait.address);
  if (block == nullptr) return nullptr;
  const auto found = block->mbarriers.live.find(fragment.wait.address & kOffsetMask);
  return found == block->mbarriers.live.end() ? nullptr : &found->second;
}

const BarrierHistory& Sleepers::history_of(const Fragment& fragment) const {
  static const BarrierHistory kNone;
  const auto found = histories_.find({cluster_.block_of(fragment.wait.address), fragment.wait.address & kOffsetMask});
  return found == histories_.end() ? kNone : found->second;
}

/// Adds the groups that have a fragment for which `wanted` is true.
template <typename Wanted>
void Sleepers::need(Group& group, const Wanted& wanted) {
  for (size_t index = 0; index < groups_.size(); ++index) {
    const std::vector<const Fragment*>& all = groups_[index].all;
    if (&groups_[index] == &group) continue;
    if (std::any_of(all.begin(), all.end(), [&](const Fragment* each) { return wanted(*each); })) {
      group.needs.push_back(index);
    }
  }
}

void Sleepers::find_needs(Group& group) {
  const Fragment& first = *group.first;
  const Wait& wait = first.wait;
  switch (wait.kind) {
    case WaitKind::mbarrier: {
      // A warp that has arrived here before may do so again; nothing is known about others.
      const machine::Mbarrier* barrier = barrier_of(first);
      const BarrierHistory& history = history_of(first);
      if (barrier == nullptr || history.overrun_lanes != 0) return;
      if (barrier->pending == 0) return need_those_who_brought_bytes(group, *barrier);
      if (!phases_missed(first, *barrier).empty()) return;  // that is itself a mistake
      if (history.arrivers.empty()) {
        need_arrivers_of_siblings(group);
        return need_those_who_have_not_begun(group);
      }
      need_as_many_as_are_missing(group, *barrier);
      return need(group, [&](const Fragment& other) {
        return std::any_of(history.arrivers.begin(), history.arrivers.end(),
                           [&](const BarrierHistory::Arriver& arriver) {
                             return arriver.is_in(other) && arriver.phase < barrier->phase;
                           });
      });
    }
    case WaitKind::named_barrier:
      return need(group, [&](const Fragment& other) {
        return &other.block() == &first.block() &&
               (other.wait.kind != WaitKind::named_barrier || other.wait.address != wait.address);
      });
    case WaitKind::block_pair:
      return need(group, [&](const Fragment& other) { return &other.block() == machine::peer_of(first.block()); });
    case WaitKind::warp_sync:
      return need(group, [&](const Fragment& other) {
        return other.warp == first.warp && (static_cast<machine::LaneMask>(wait.value) & other.mask) != 0;
      });
    case WaitKind::cluster_barrier:
      return need(group, [&](const Fragment& other) {
        const Block& block = other.block();
        bool missing = false;
        machine::for_each_lane(other.mask, [&](uint32_t lane) {
          missing = missing || block.cluster_rounds[machine::thread_of(other, lane)] <= cluster_.barrier_generation;
        });
        return missing;
      });
    default: return;
  }
}

/// For a wait at a barrier of an array where nobody has arrived yet: those who arrived at others of the array may
/// arrive there, too, above all through an operation that they are still to issue.
void Sleepers::need_arrivers_of_siblings(Group& group) {
  const Fragment& first = *group.first;
  const Block* block = cluster_.block_of(first.wait.address);
  const std::string name = name_of(first);
  const size_t bracket = name.find('[');
  if (bracket == std::string::npos) return;
  const std::string array = name.substr(0, bracket + 1);
  for (const auto& [place, history] : histories_) {
    if (place.first != block || !name_of_barrier(*first.grid().kernel, place.second).starts_with(array)) continue;
    if (!history.arrived_by_operation) continue;
    need(group, [&, &arrivers = history.arrivers](const Fragment& other) {
      // One that waits for an arrival which has never come either may wait for this very group.
      const bool also_first = other.wait.kind == WaitKind::mbarrier && history_of(other).arrivers.empty();
      return !also_first && std::any_of(arrivers.begin(), arrivers.end(),
                                        [&](const BarrierHistory::Arriver& arriver) { return arriver.is_in(other); });
    });
  }
}

/// For a producer whose first wait passed at once, and whose slot nobody has released: those who are still at their
/// first wait are to do that, unless somebody waits for the producer and so has come further.
void Sleepers::need_those_who_have_not_begun(Group& group) {
  if (!history_of(*group.first).passed_before_first || is_waited_for(group)) return;
  for (size_t index = 0; index < groups_.size(); ++index) {
    if (&groups_[index] != &group && has_not_begun(groups_[index])) group.needs.push_back(index);
  }
}

void Sleepers::need_as_many_as_are_missing(Group& group, const machine::Mbarrier& barrier) {
  if (barrier.phase != 0 || barrier.pending == 0 || barrier.pending == barrier.expected) return;
  std::vector<size_t> idle;
  size_t threads = 0;
  for (size_t index = 0; index < groups_.size(); ++index) {
    const Group& other = groups_[index];
    if (&other == &group || &other.first->block() != &group.first->block() || !has_not_begun(other)) continue;
    idle.push_back(index);
    for (const Fragment* each : other.all) threads += static_cast<size_t>(std::popcount(each->mask));
  }
  if (threads == static_cast<size_t>(barrier.pending)) group.needs.insert(group.needs.end(), idle.begin(), idle.end());
}

void Sleepers::need_those_who_brought_bytes(Group& group, const machine::Mbarrier& barrier) {
  if (barrier.phase == 0) return;
  const PhaseHistory& phases = history_of(*group.first).phases;
  const auto brought_in = [&](uint64_t phase, const Fragment& other) {
    bool any = false;
    phases.for_each(phase, [&](const PhaseNote& note) {
      const bool same =
          note.block == &other.block() && note.warp == other.warp->index && (note.lanes & other.mask) != 0;
      any = any || (same && note.kind == PhaseNote::Kind::bytes);
    });
    return any;
  };
  need(group, [&](const Fragment& other) {
    return brought_in(barrier.phase - 1, other) && !brought_in(barrier.phase, other);
  });
}

/// A root is a group that is needed in turn by every group that it needs, directly or not. So it needs no group that
/// sleeps, or is part of a ring of groups that wait for each other.
void Sleepers::find_roots() {
  std::vector<std::vector<bool>> reached(groups_.size(), std::vector<bool>(groups_.size(), false));
  for (size_t start = 0; start < groups_.size(); ++start) {
    std::vector<size_t> open{start};
    while (!open.empty()) {
      const size_t at = open.back();
      open.pop_back();
      for (const size_t next : groups_[at].needs) {
        if (reached[start][next]) continue;
        reached[start][next] = true;
        open.push_back(next);
      }
    }
  }
  for (size_t i = 0; i < groups_.size(); ++i) {
    groups_[i].is_root = true;
    for (size_t j = 0; j < groups_.size(); ++j) {
      if (reached[i][j] && !reached[j][i]) groups_[i].is_root = false;
    }
  }
}

Cause Sleepers::cause_of(const Group& group) const {
  const Wait& wait = group.first->wait;
  switch (wait.kind) {
    case WaitKind::mbarrier: {
      const machine::Mbarrier* barrier = barrier_of(*group.first);
      return barrier == nullptr ? Cause{} : cause_at_mbarrier(group, *barrier);
    }
    case WaitKind::tensor_memory:
      return {7,
              "tensor memory that was allocated earlier has not been freed: is there a tcgen05.dealloc on every path?"};
    case WaitKind::block_pair: {
      const char* const instruction = machine::name_of(static_cast<machine::Tcgen05PairInstruction>(wait.value));
      const Block& peer = *machine::peer_of(group.first->block());
      return {7,
              fmt::format("with cta_group::2 {} is executed by one warp of each block of a pair, together: block "
                          "({},{},{}) {} it. Does only one of the two execute it, or does its peer wait for it before?",
                          instruction, peer.index.x, peer.index.y, peer.index.z,
                          peer.exited ? "has ended without" : "does not come to")};
    }
    case WaitKind::named_barrier:
      if (const std::string other = threads_at_another_number(group); !other.empty()) return {6, other};
      if (const std::string ended = warps_that_have_exited(group); !ended.empty()) return {6, ended};
      if (Cause apart = cause_at_barrier_of_lanes(group); !apart.text.empty()) return apart;
      return {3,
              fmt::format("not every thread that barrier {} counts comes to it: is a __syncthreads() inside a branch "
                          "that some warps do not take?",
                          wait.address)};
    case WaitKind::registers: return {9, explain_register_demand(group.first->block())};
    case WaitKind::warpgroup_mma:
      return {4, "a wgmma.mma_async begins when all four warps of the warpgroup have issued it: does each come to it?"};
    case WaitKind::cluster_barrier: return {2, "a thread of the cluster never arrives at barrier.cluster"};
    case WaitKind::warp_sync: return cause_at_warp_operation(group);
    default: return {};
  }
}

}  // namespace stagecraft::emulator::checks
