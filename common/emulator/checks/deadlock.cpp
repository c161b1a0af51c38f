#include "emulator/checks/deadlock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "emulator/checks/report.hpp"
#include "emulator/machine/grid.hpp"
#include "emulator/units/mbarrier_table.hpp"

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

std::string name_of_barrier(const Kernel& kernel, uint32_t address) {
  return kernel.name_of_shared(address & kOffsetMask, units::kMbarrierBytes);
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
    case WaitKind::bulk_group: return fmt::format("waits until at most {} of its bulk groups are pending", wait.value);
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

machine::Place place_of(const Fragment& fragment) {
  const Kernel& kernel = *fragment.grid().kernel;
  machine::Place place;
  place.kernel = kernel.display_name;
  place.source_file = kernel.source_file();
  place.has_block = place.has_warp = true;
  place.block_x = fragment.block().index.x;
  place.block_y = fragment.block().index.y;
  place.block_z = fragment.block().index.z;
  place.warp = fragment.warp->index;
  place.lanes = fragment.mask;
  place.source = kernel.describe_source(fragment.pc);
  place.instruction = kernel.describe_instruction(fragment.pc);
  return place;
}

/// What one wait says about the mistake, and how much that is worth: a barrier whose bytes do not add up is to blame
/// itself, while one that nobody has come to may only wait for somebody who waits elsewhere.
struct Cause {
  int worth = 0;
  std::string text;
};

Cause cause_of(const units::Mbarrier& barrier, const std::string& name, uint64_t parity) {
  if (barrier.pending == 0 && barrier.transaction > 0) {
    return {9,
            fmt::format("expect_tx announced {} bytes for {}, and {} of them never came: do the copies that signal it "
                        "bring fewer bytes than were announced?",
                        barrier.announced, name, barrier.transaction)};
  }
  if (barrier.transaction < 0) {
    return {9, fmt::format("copies brought {} bytes to {} that no expect_tx announced", -barrier.transaction, name)};
  }
  if (barrier.pending > 0 && barrier.pending < barrier.expected) {
    return {8,
            fmt::format("{} was initialised for {} arrivals per phase, and {} came: does one thread arrive where all "
                        "of them were counted, or the other way round?",
                        name, barrier.expected, barrier.expected - barrier.pending)};
  }
  if (barrier.phase > 0) {
    return {3,
            fmt::format("{} completed phase {} and nobody has arrived since: does the waiter ask for the parity of a "
                        "phase that is still to come, or did the other side end one round early?",
                        name, barrier.phase - 1)};
  }
  return {
      2, fmt::format("nobody has ever arrived at {}. If this wait is meant to pass at once, as a producer's first wait "
                     "for an empty slot is, it must ask for parity 1, that of the phase before the first; it asks "
                     "for parity {}",
                     name, parity & 1)};
}

Cause cause_of(const Fragment& fragment) {
  const Wait& wait = fragment.wait;
  switch (wait.kind) {
    case WaitKind::mbarrier: {
      const Block* block = fragment.cluster().block_of(wait.address);
      if (block == nullptr) return {};
      const auto found = block->mbarriers.live.find(wait.address & kOffsetMask);
      if (found == block->mbarriers.live.end()) return {};
      return cause_of(found->second, name_of_barrier(*fragment.grid().kernel, wait.address), wait.value);
    }
    case WaitKind::tensor_memory:
      return {7,
              "tensor memory that was allocated earlier has not been freed: is there a tcgen05.dealloc on every way?"};
    case WaitKind::named_barrier:
      return {5,
              fmt::format("not every thread that barrier {} counts comes to it: is a __syncthreads() inside a branch "
                          "that some warps do not take?",
                          wait.address)};
    case WaitKind::warpgroup_mma:
      return {6, "a wgmma.mma_async begins when all four warps of the warpgroup have issued it: does each come to it?"};
    case WaitKind::cluster_barrier: return {4, "a thread of the cluster never arrives at barrier.cluster"};
    case WaitKind::warp_sync:
      return {1, "lanes of one warp took different ways, and an operation of the whole warp stands in one of them"};
    default: return {};
  }
}

/// Fragments of one block that sleep at the same place on the same thing, told in one line.
struct Group {
  const Fragment* first;
  Cause cause;
  std::vector<uint32_t> warps;
  bool whole_warps = true;
};

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

std::vector<Group> group_sleepers(const Cluster& cluster) {
  std::vector<Group> groups;
  for (const auto& block : cluster.blocks) {
    for (const Warp& warp : block->warps) {
      for (const auto& fragment : warp.fragments) {
        if (fragment->state != machine::FragmentState::blocked) continue;
        const auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
          const Fragment& first = *group.first;
          return first.warp->block == block.get() && first.pc == fragment->pc &&
                 first.wait.kind == fragment->wait.kind && first.wait.address == fragment->wait.address &&
                 first.wait.value == fragment->wait.value &&
                 (first.wait.kind != WaitKind::warp_sync || &first == fragment.get());
        });
        if (same == groups.end()) {
          groups.push_back({fragment.get(), cause_of(*fragment), {warp.index}, fragment->mask == machine::kAllLanes});
        } else {
          same->warps.push_back(warp.index);
          same->whole_warps = same->whole_warps && fragment->mask == machine::kAllLanes;
        }
      }
    }
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Group& a, const Group& b) { return a.cause.worth > b.cause.worth; });
  return groups;
}

}  // namespace

void DeadlockCheck::cluster_stuck(Cluster& cluster) {
  const std::vector<Group> groups = group_sleepers(cluster);
  if (groups.empty()) return;
  const Kernel& kernel = *cluster.grid->kernel;
  machine::Diagnostic finding;
  finding.kind = "deadlock";
  finding.place = place_of(*groups.front().first);
  finding.message = describe_wait(*groups.front().first);
  std::set<uint32_t> told;  // shared addresses, with rank
  for (const Group& group : groups) {
    const Wait& wait = group.first->wait;
    if (wait.kind != WaitKind::mbarrier || !told.insert(wait.address).second) continue;
    const Block* block = cluster.block_of(wait.address);
    const auto found = block->mbarriers.live.find(wait.address & kOffsetMask);
    if (found == block->mbarriers.live.end()) continue;
    std::string name = name_of_barrier(kernel, wait.address);
    if (cluster.blocks.size() > 1) name += fmt::format(" of block rank {}", block->rank);
    for (std::string& line : units::describe(found->second, name)) finding.details.push_back(std::move(line));
  }
  for (size_t i = 1; i < groups.size(); ++i) finding.details.push_back(describe_group(groups[i]));
  if (groups.front().warps.size() > 1) {
    finding.details.push_back(fmt::format("{} wait there alike", describe_warps(groups.front())));
  }
  finding.details.push_back("nothing that is still running can complete it");
  finding.likely_cause = groups.front().cause.text;
  findings_.push_back(std::move(finding));
}

std::vector<machine::Diagnostic> DeadlockCheck::findings() { return std::exchange(findings_, {}); }

}  // namespace stagecraft::emulator::checks
