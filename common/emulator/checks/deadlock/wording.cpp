#include "emulator/checks/deadlock/wording.hpp"

#include <fmt/format.h>

#include "emulator/checks/deadlock/register_demand.hpp"
#include "emulator/checks/reporting/report.hpp"
#include "emulator/state/tensor_units.hpp"

namespace stagecraft::emulator::checks {

using machine::Block;
using machine::Fragment;
using machine::Kernel;
using machine::Wait;
using machine::WaitKind;

namespace {

/// "its peer, block (1,0,0)": what a fragment waits for.
std::string name_of_peer(const Fragment& fragment) {
  const Block& peer = *machine::peer_of(fragment.block());
  return fmt::format("its peer, block ({},{},{}),", peer.index.x, peer.index.y, peer.index.z);
}

}  // namespace

std::string name_of_barrier(const Kernel& kernel, uint32_t address) {
  return kernel.name_of_barrier(address & machine::kSharedOffsetMask);
}

std::string name_of_barrier(const Fragment& waiter) {
  return name_of_barrier(*waiter.grid().kernel, waiter.wait.address);
}

std::string array_of(const Kernel& kernel, uint32_t address) {
  const std::string name = kernel.name_of_shared(address & machine::kSharedOffsetMask, machine::kMbarrierBytes);
  const size_t bracket = name.find('[');
  return bracket == std::string::npos ? std::string() : name.substr(0, bracket);
}

std::string name_of_meeting(const Group& group) {
  const Wait& wait = group.first->wait;
  return wait.kind == WaitKind::cluster_barrier ? std::string("barrier.cluster")
                                                : fmt::format("barrier {}", wait.address);
}

std::string describe_warp(const Block& block, uint32_t warp) {
  return fmt::format("block ({},{},{}) warp {}", block.index.x, block.index.y, block.index.z, warp);
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
            const auto found = block->mbarriers.live.find(wait.address & machine::kSharedOffsetMask);
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

std::string describe_numbers(const std::vector<uint32_t>& warps) {
  std::string text = warps.size() == 1 ? "warp " : "warps ";
  for (size_t i = 0; i < warps.size(); ++i) {
    size_t last = i;
    while (last + 1 < warps.size() && warps[last + 1] == warps[last] + 1) ++last;
    text += fmt::format("{}{}", i == 0 ? "" : ", ", warps[i]);
    if (last > i) text += fmt::format("-{}", warps[last]);
    i = last;
  }
  return text;
}

std::string describe_warps(const Group& group) {
  const Block& block = group.first->block();
  const std::string lanes =
      group.warps.size() == 1 || group.whole_warps ? describe_lanes(group.first->mask) : "some lanes";
  return fmt::format("block ({},{},{}) {} [{}]", block.index.x, block.index.y, block.index.z,
                     describe_numbers(group.warps), lanes);
}

std::string describe_group(const Group& group) {
  const std::string source = group.first->grid().kernel->describe_source(group.first->pc);
  return fmt::format("{} {}{}", describe_warps(group), source.empty() ? std::string() : fmt::format("at {}: ", source),
                     describe_wait(*group.first));
}

}  // namespace stagecraft::emulator::checks
