#include "emulator/machine/warp_start.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace stagecraft::emulator::machine {

namespace {

/// Value of a special register in one lane.
uint64_t value_of(const SpecialSlot& slot, const Warp& warp, uint32_t lane) {
  const Block& block = *warp.block;
  const Grid& grid = *block.cluster->grid;
  const LaunchRequest& request = *grid.request;
  const uint32_t thread = warp.index * kWarpSize + lane;
  const Extent3& threads = request.block;
  const Extent3& shape = request.cluster;
  const Extent3 inside{block.index.x % shape.x, block.index.y % shape.y, block.index.z % shape.z};
  const LaneMask lane_bit = 1u << lane;
  const uint32_t shared_bytes = grid.kernel->static_shared_bytes + request.dynamic_shared_bytes;
  switch (slot.special) {
    case Special::tid_x: return thread % threads.x;
    case Special::tid_y: return thread / threads.x % threads.y;
    case Special::tid_z: return thread / threads.x / threads.y;
    case Special::ntid_x: return threads.x;
    case Special::ntid_y: return threads.y;
    case Special::ntid_z: return threads.z;
    case Special::ctaid_x: return block.index.x;
    case Special::ctaid_y: return block.index.y;
    case Special::ctaid_z: return block.index.z;
    case Special::nctaid_x: return request.grid.x;
    case Special::nctaid_y: return request.grid.y;
    case Special::nctaid_z: return request.grid.z;
    case Special::laneid: return lane;
    case Special::warpid: return warp.index;
    case Special::nwarpid: return grid.architecture->threads_per_multiprocessor / kWarpSize;
    case Special::smid: return block.sm->index;
    case Special::nsmid: return grid.architecture->multiprocessors;
    case Special::gridid: return grid.id;
    case Special::clusterid_x: return block.index.x / shape.x;
    case Special::clusterid_y: return block.index.y / shape.y;
    case Special::clusterid_z: return block.index.z / shape.z;
    case Special::nclusterid_x: return request.grid.x / shape.x;
    case Special::nclusterid_y: return request.grid.y / shape.y;
    case Special::nclusterid_z: return request.grid.z / shape.z;
    case Special::cluster_ctaid_x: return inside.x;
    case Special::cluster_ctaid_y: return inside.y;
    case Special::cluster_ctaid_z: return inside.z;
    case Special::cluster_nctaid_x: return shape.x;
    case Special::cluster_nctaid_y: return shape.y;
    case Special::cluster_nctaid_z: return shape.z;
    case Special::cluster_ctarank: return block.rank;
    case Special::cluster_nctarank: return shape.count();
    case Special::is_explicit_cluster: return request.explicit_cluster;
    case Special::lanemask_eq: return lane_bit;
    case Special::lanemask_lt: return lane_bit - 1;
    case Special::lanemask_le: return lane_bit | (lane_bit - 1);
    case Special::lanemask_gt: return ~(lane_bit | (lane_bit - 1));
    case Special::lanemask_ge: return ~(lane_bit - 1);
    case Special::dynamic_smem_size: return request.dynamic_shared_bytes;
    case Special::total_smem_size: return shared_bytes;
    case Special::aggr_smem_size: return shared_bytes + kSharedReservedBytes;
    case Special::reserved_smem_offset: return kSharedReservedBytes;
    case Special::reserved_scratch: return kSharedScratch;
    case Special::workspace_high: return grid.workspace_address >> 32;
    case Special::workspace_low: return static_cast<uint32_t>(grid.workspace_address);
    case Special::shared_address: return block.shared_base() | slot.parameter;
    case Special::zero: return 0;
  }
  return 0;
}

}  // namespace

void fill_constants(const Kernel& kernel, std::byte* registers) {
  for (const ConstantSlot& slot : kernel.constants) {
    std::byte* to = registers + slot.offset;
    if (slot.element_bytes == 0) {
      const LaneMask mask = slot.low != 0 ? kAllLanes : 0;
      std::memcpy(to, &mask, sizeof mask);
      continue;
    }
    const std::array<uint64_t, 2> value{slot.low, slot.high};
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      std::memcpy(to + lane * slot.element_bytes, value.data(), slot.element_bytes);
    }
  }
}

void start_warp(Warp& warp) {
  const Block& block = *warp.block;
  const Kernel& kernel = *block.cluster->grid->kernel;
  for (const SpecialSlot& slot : kernel.specials) {
    std::byte* to = warp.registers + slot.offset;
    LaneMask mask = 0;
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      const uint64_t value = value_of(slot, warp, lane);
      if (slot.element_bytes == 0) {
        mask |= (value != 0 ? 1u : 0u) << lane;
      } else {
        std::memcpy(to + lane * slot.element_bytes, &value, std::min<size_t>(slot.element_bytes, sizeof value));
      }
    }
    if (slot.element_bytes == 0) std::memcpy(to, &mask, sizeof mask);
  }
  const uint64_t threads = block.cluster->grid->request->block.count();
  const uint64_t first = uint64_t{warp.index} * kWarpSize;
  const auto present = static_cast<uint32_t>(std::min<uint64_t>(kWarpSize, threads - first));
  warp.live = present == kWarpSize ? kAllLanes : (1u << present) - 1;
  warp.fragments.clear();
  auto fragment = std::make_unique<Fragment>();
  fragment->registers = warp.registers;
  fragment->warp = &warp;
  fragment->effects = &block.cluster->grid->effects;
  fragment->mask = warp.live;
  fragment->sequence = block.cluster->next_sequence++;
  warp.fragments.push_back(std::move(fragment));
}

}  // namespace stagecraft::emulator::machine
