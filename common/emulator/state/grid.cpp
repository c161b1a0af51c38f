#include "emulator/state/grid.hpp"

#include <algorithm>
#include <utility>

namespace stagecraft::emulator::machine {

Extent3 position(uint64_t number, const Extent3& size) {
  return {static_cast<uint32_t>(number % size.x), static_cast<uint32_t>(number / size.x % size.y),
          static_cast<uint32_t>(number / size.x / size.y)};
}

std::optional<Extent3> take_next_cluster(Grid& grid) {
  if (grid.next_cluster >= grid.cluster_count) return std::nullopt;
  const Extent3 &shape = grid.request->cluster, &whole = grid.request->grid;
  const Extent3 index = position(std::exchange(grid.next_cluster, grid.next_cluster + grid.cluster_step),
                                 {whole.x / shape.x, whole.y / shape.y, whole.z / shape.z});
  return Extent3{index.x * shape.x, index.y * shape.y, index.z * shape.z};
}

Cycle time_of(const Cluster& cluster) {
  return cluster.running != nullptr ? std::max(cluster.now, cluster.running->warp->clock) : cluster.now;
}

void Cluster::schedule(Cycle delay, std::function<void()> action) {
  Origin from = origin;
  if (running != nullptr) from = {&running->block(), running->warp->index, running->pc, running->mask};
  events.push({{time_of(*this) + delay, next_sequence++}, std::move(action), from});
}

Block* Cluster::block_of(uint32_t shared_address) const {
  const uint32_t rank = shared_address >> kSharedRankShift;
  return rank < blocks.size() ? blocks[rank].get() : nullptr;
}

}  // namespace stagecraft::emulator::machine
