#include "emulator/checks/deadlock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
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
    case WaitKind::grid_dependency: return "waits for the grid before it";
    case WaitKind::sleep:
    case WaitKind::none: break;
  }
  return "sleeps";
}

std::string describe_fragment(const Fragment& fragment) {
  const Block& block = fragment.block();
  const std::string source = fragment.grid().kernel->describe_source(fragment.pc);
  return fmt::format("block ({},{},{}) warp {} [{}] {}{}", block.index.x, block.index.y, block.index.z,
                     fragment.warp->index, describe_lanes(fragment.mask),
                     source.empty() ? std::string() : fmt::format("at {}: ", source), describe_wait(fragment));
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

/// What the state of one barrier says about the mistake; empty when it says nothing.
std::string cause_of(const units::Mbarrier& barrier, const std::string& name, uint64_t parity) {
  if (barrier.pending == 0 && barrier.transaction > 0) {
    return fmt::format(
        "{} has all its arrivals, but {} of the {} bytes that expect_tx announced never came: do the copies that "
        "signal "
        "it bring fewer bytes than were announced?",
        name, barrier.transaction, barrier.announced);
  }
  if (barrier.pending == 0 && barrier.transaction < 0) {
    return fmt::format("{} has all its arrivals, but copies brought {} bytes that no expect_tx announced", name,
                       -barrier.transaction);
  }
  if (barrier.transaction < 0) {
    return fmt::format("{} bytes came to {} that no expect_tx announced", -barrier.transaction, name);
  }
  if (barrier.pending == barrier.expected && barrier.phase == 0 && barrier.transaction == 0) {
    return fmt::format(
        "nobody has ever arrived at {}. If this wait is meant to pass at once, as a producer's first wait for an empty "
        "slot is, it must wait for parity 1, the phase before the first; it waits for parity {}",
        name, parity & 1);
  }
  if (barrier.pending > 0 && barrier.pending < barrier.expected) {
    return fmt::format(
        "{} was initialised for {} arrivals per phase, and {} came: does one thread arrive where all of them were "
        "counted, or the other way round?",
        name, barrier.expected, barrier.expected - barrier.pending);
  }
  if (barrier.pending == barrier.expected) {
    return fmt::format(
        "{} completed phase {} and nobody has arrived since: does the waiter use the parity of a phase that is still "
        "to "
        "come, or did the other side end one round early?",
        name, barrier.phase - 1);
  }
  return {};
}

std::string cause_of(const Fragment& fragment) {
  const Wait& wait = fragment.wait;
  if (wait.kind == WaitKind::mbarrier) {
    const Block* block = fragment.cluster().block_of(wait.address);
    if (block == nullptr) return {};
    const auto found = block->mbarriers.live.find(wait.address & kOffsetMask);
    if (found == block->mbarriers.live.end()) return {};
    return cause_of(found->second, name_of_barrier(*fragment.grid().kernel, wait.address), wait.value);
  }
  if (wait.kind == WaitKind::named_barrier) {
    return fmt::format(
        "not every thread that barrier {} counts comes to it: is a __syncthreads() inside a branch that "
        "some warps do not take?",
        wait.address);
  }
  if (wait.kind == WaitKind::warp_sync) {
    return "lanes of one warp took different ways, and an operation of the whole warp stands in one of them";
  }
  if (wait.kind == WaitKind::tensor_memory) {
    return "tensor memory that was allocated earlier has not been freed: is there a tcgen05.dealloc on every way?";
  }
  if (wait.kind == WaitKind::cluster_barrier) return "a thread of the cluster never arrives at barrier.cluster";
  return {};
}

/// The wait to blame first: barriers in memory say most, and what waits for others' waiting says least.
int weight(const Fragment& fragment) {
  switch (fragment.wait.kind) {
    case WaitKind::mbarrier: return 0;
    case WaitKind::tensor_memory: return 1;
    case WaitKind::bulk_group: return 2;
    case WaitKind::warp_sync: return 3;
    case WaitKind::named_barrier: return 4;
    default: return 5;
  }
}

}  // namespace

void DeadlockCheck::cluster_stuck(Cluster& cluster) {
  std::vector<const Fragment*> sleepers;
  std::set<std::pair<uint32_t, uint32_t>> barriers;  // rank and offset of those waited for
  for (const auto& block : cluster.blocks) {
    for (const Warp& warp : block->warps) {
      for (const auto& fragment : warp.fragments) {
        if (fragment->state != machine::FragmentState::blocked) continue;
        sleepers.push_back(fragment.get());
        if (fragment->wait.kind == WaitKind::mbarrier) {
          barriers.emplace(fragment->wait.address >> machine::kSharedRankShift, fragment->wait.address & kOffsetMask);
        }
      }
    }
  }
  std::stable_sort(sleepers.begin(), sleepers.end(),
                   [](const Fragment* a, const Fragment* b) { return weight(*a) < weight(*b); });
  if (sleepers.empty()) return;
  const Kernel& kernel = *cluster.grid->kernel;
  machine::Diagnostic finding;
  finding.kind = "deadlock";
  finding.place = place_of(*sleepers.front());
  finding.message = describe_wait(*sleepers.front());
  for (const auto& [rank, offset] : barriers) {
    const Block& block = *cluster.blocks.at(rank);
    const auto found = block.mbarriers.live.find(offset);
    if (found == block.mbarriers.live.end()) continue;
    const std::string name = kernel.name_of_shared(offset, units::kMbarrierBytes);
    for (std::string& line : units::describe(
             found->second, cluster.blocks.size() == 1 ? name : fmt::format("{} of block rank {}", name, rank))) {
      finding.details.push_back(std::move(line));
    }
  }
  for (size_t i = 1; i < sleepers.size(); ++i) finding.details.push_back(describe_fragment(*sleepers[i]));
  finding.details.push_back("nothing that is still running can complete it");
  for (const Fragment* fragment : sleepers) {
    finding.likely_cause = cause_of(*fragment);
    if (!finding.likely_cause.empty()) break;
  }
  findings_.push_back(std::move(finding));
}

std::vector<machine::Diagnostic> DeadlockCheck::findings() { return std::exchange(findings_, {}); }

}  // namespace stagecraft::emulator::checks
