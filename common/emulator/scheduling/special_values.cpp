#include "emulator/scheduling/special_values.hpp"

#include <stdexcept>

namespace stagecraft::emulator::machine {
namespace {

uint32_t shared_bytes(const Grid& grid) {
  return grid.kernel->static_shared_bytes + grid.request->dynamic_shared_bytes;
}

}  // namespace

uint64_t value_of(const SpecialSlot& slot, const Extent3& threads, uint32_t thread, const Block* block) {
  const uint32_t lane = thread % kWarpSize;
  const LaneMask lane_bit = 1u << lane;
  const Grid* const grid = block != nullptr ? block->cluster->grid : nullptr;
  const LaunchRequest* const request = grid != nullptr ? grid->request : nullptr;
  const Extent3 shape = block != nullptr ? block->cluster->shape : Extent3{1, 1, 1};
  // No default, so that the compiler names a register that is forgotten here.
  switch (slot.special) {
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

    case Special::ntid_x: return threads.x;
    case Special::ntid_y: return threads.y;
    case Special::ntid_z: return threads.z;
    case Special::ctaid_x: return block->index.x;
    case Special::ctaid_y: return block->index.y;
    case Special::ctaid_z: return block->index.z;
    case Special::nctaid_x: return request->grid.x;
    case Special::nctaid_y: return request->grid.y;
    case Special::nctaid_z: return request->grid.z;
    case Special::nwarpid: return grid->architecture->threads_per_multiprocessor / kWarpSize;
    case Special::smid: return block->sm->index;
    case Special::nsmid: return grid->architecture->multiprocessors;
    case Special::gridid: return grid->id;
    case Special::clusterid_x: return block->index.x / shape.x;
    case Special::clusterid_y: return block->index.y / shape.y;
    case Special::clusterid_z: return block->index.z / shape.z;
    case Special::nclusterid_x: return request->grid.x / shape.x;
    case Special::nclusterid_y: return request->grid.y / shape.y;
    case Special::nclusterid_z: return request->grid.z / shape.z;
    case Special::cluster_ctaid_x: return block->index.x % shape.x;
    case Special::cluster_ctaid_y: return block->index.y % shape.y;
    case Special::cluster_ctaid_z: return block->index.z % shape.z;
    case Special::cluster_nctaid_x: return shape.x;
    case Special::cluster_nctaid_y: return shape.y;
    case Special::cluster_nctaid_z: return shape.z;
    case Special::cluster_ctarank: return block->rank;
    case Special::cluster_nctarank: return shape.count();
    case Special::is_explicit_cluster: return request->explicit_cluster;
    case Special::dynamic_smem_size: return request->dynamic_shared_bytes;
    case Special::total_smem_size: return shared_bytes(*grid);
    case Special::aggr_smem_size: return shared_bytes(*grid) + kSharedReservedBytes;
    case Special::reserved_smem_offset: return kSharedReservedBytes;
    case Special::reserved_scratch: return kSharedScratch;
    case Special::workspace_high: return grid->workspace_address >> 32;
    case Special::workspace_low: return static_cast<uint32_t>(grid->workspace_address);
    case Special::shared_address: return block->shared_base() | slot.parameter;
    case Special::zero: return 0;
    case Special::clock:
    case Special::clock_high:
    case Special::clock64:
    case Special::globaltimer:
    case Special::globaltimer_low:
    case Special::globaltimer_high:
    case Special::none: break;
  }
  throw std::logic_error("a special register that has no value when a warp starts");
}

}  // namespace stagecraft::emulator::machine
