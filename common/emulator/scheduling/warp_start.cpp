#include "emulator/scheduling/warp_start.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace stagecraft::emulator::machine {

namespace {

/// Whether a special register differs between the threads of a block, and then is the same in all blocks.
bool is_of_the_thread(Special special) {
  switch (special) {
    case Special::tid_x:
    case Special::tid_y:
    case Special::tid_z:
    case Special::laneid:
    case Special::warpid:
    case Special::lanemask_eq:
    case Special::lanemask_lt:
    case Special::lanemask_le:
    case Special::lanemask_gt:
    case Special::lanemask_ge: return true;
    default: return false;
  }
}

uint64_t value_of_thread(Special special, const Extent3& threads, uint32_t thread) {
  const uint32_t lane = thread % kWarpSize;
  const LaneMask lane_bit = 1u << lane;
  switch (special) {
    case Special::tid_x: return thread % threads.x;
    case Special::tid_y: return thread / threads.x % threads.y;
    case Special::tid_z: return thread / threads.x / threads.y;
    case Special::laneid: return lane;
    case Special::warpid: return thread / kWarpSize;
    case Special::lanemask_eq: return lane_bit;
    case Special::lanemask_lt: return lane_bit - 1;
    case Special::lanemask_le: return lane_bit | (lane_bit - 1);
    case Special::lanemask_gt: return static_cast<LaneMask>(~(lane_bit | (lane_bit - 1)));
    case Special::lanemask_ge: return static_cast<LaneMask>(~(lane_bit - 1));
    default: return 0;
  }
}

uint64_t value_of_block(const SpecialSlot& slot, const Block& block) {
  const Grid& grid = *block.cluster->grid;
  const LaunchRequest& request = *grid.request;
  const Extent3 &threads = request.block, &shape = request.cluster;
  const uint32_t shared_bytes = grid.kernel->static_shared_bytes + request.dynamic_shared_bytes;
  switch (slot.special) {
    case Special::ntid_x: return threads.x;
    case Special::ntid_y: return threads.y;
    case Special::ntid_z: return threads.z;
    case Special::ctaid_x: return block.index.x;
    case Special::ctaid_y: return block.index.y;
    case Special::ctaid_z: return block.index.z;
    case Special::nctaid_x: return request.grid.x;
    case Special::nctaid_y: return request.grid.y;
    case Special::nctaid_z: return request.grid.z;
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
    case Special::cluster_ctaid_x: return block.index.x % shape.x;
    case Special::cluster_ctaid_y: return block.index.y % shape.y;
    case Special::cluster_ctaid_z: return block.index.z % shape.z;
    case Special::cluster_nctaid_x: return shape.x;
    case Special::cluster_nctaid_y: return shape.y;
    case Special::cluster_nctaid_z: return shape.z;
    case Special::cluster_ctarank: return block.rank;
    case Special::cluster_nctarank: return shape.count();
    case Special::is_explicit_cluster: return request.explicit_cluster;
    case Special::dynamic_smem_size: return request.dynamic_shared_bytes;
    case Special::total_smem_size: return shared_bytes;
    case Special::aggr_smem_size: return shared_bytes + kSharedReservedBytes;
    case Special::reserved_smem_offset: return kSharedReservedBytes;
    case Special::reserved_scratch: return kSharedScratch;
    case Special::workspace_high: return grid.workspace_address >> 32;
    case Special::workspace_low: return static_cast<uint32_t>(grid.workspace_address);
    case Special::shared_address: return block.shared_base() | slot.parameter;
    default: return 0;
  }
}

/// Writes `value_of(lane)` to all lanes of a vector.
template <typename ValueOf>
void fill_lanes(std::byte* to, uint32_t element_bytes, ValueOf value_of) {
  const auto fill = [&]<typename Element>(Element*) {
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      const auto value = static_cast<Element>(value_of(lane));
      std::memcpy(to + lane * sizeof value, &value, sizeof value);
    }
  };
  switch (element_bytes) {
    case 0: {  // a predicate
      LaneMask mask = 0;
      for (uint32_t lane = 0; lane < kWarpSize; ++lane) mask |= (value_of(lane) != 0 ? 1u : 0u) << lane;
      std::memcpy(to, &mask, sizeof mask);
      return;
    }
    case 2: return fill(static_cast<uint16_t*>(nullptr));
    case 4: return fill(static_cast<uint32_t*>(nullptr));
    default: return fill(static_cast<uint64_t*>(nullptr));
  }
}

}  // namespace

void fill_constants(const Kernel& kernel, const Extent3& threads, uint32_t warp, std::byte* registers) {
  for (const ConstantSlot& slot : kernel.constants) {
    std::byte* to = registers + slot.offset;
    if (slot.element_bytes <= sizeof slot.low) {
      fill_lanes(to, slot.element_bytes, [&](uint32_t) { return slot.low; });
      continue;
    }
    const std::array<uint64_t, 2> value{slot.low, slot.high};
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) std::memcpy(to + lane * sizeof value, value.data(), sizeof value);
  }
  for (const SpecialSlot& slot : kernel.specials) {
    if (!is_of_the_thread(slot.special)) continue;
    fill_lanes(registers + slot.offset, slot.element_bytes,
               [&](uint32_t lane) { return value_of_thread(slot.special, threads, warp * kWarpSize + lane); });
  }
}

void start_warp(Warp& warp) {
  const Block& block = *warp.block;
  const Kernel& kernel = *block.cluster->grid->kernel;
  for (const SpecialSlot& slot : kernel.specials) {
    if (is_of_the_thread(slot.special)) continue;
    fill_lanes(warp.registers + slot.offset, slot.element_bytes,
               [value = value_of_block(slot, block)](uint32_t) { return value; });
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
