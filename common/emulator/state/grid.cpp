#include "emulator/state/grid.hpp"

#include <algorithm>
#include <utility>

#include "emulator/state/choices.hpp"

namespace stagecraft::emulator::machine {

Extent3 position(uint64_t number, const Extent3& size) {
  return {static_cast<uint32_t>(number % size.x), static_cast<uint32_t>(number / size.x % size.y),
          static_cast<uint32_t>(number / size.x / size.y)};
}

namespace {

bool is_one_cluster(const LaunchRequest& request, uint64_t region) {
  if (request.preferred_cluster.count() == 0) return true;
  switch (request.preferred_clusters) {
    case PreferredClusters::all: return true;
    case PreferredClusters::none: return false;
    case PreferredClusters::some: break;
  }
  return draw(request.seed, region) % 2 == 0;
}

Extent3 divided(const Extent3& whole, const Extent3& part) {
  return {whole.x / part.x, whole.y / part.y, whole.z / part.z};
}

/// The first block of the part of this number.
Extent3 first_block_of(uint64_t number, const Extent3& whole, const Extent3& part) {
  const Extent3 index = position(number, divided(whole, part));
  return {index.x * part.x, index.y * part.y, index.z * part.z};
}

Extent3 take_region(Grid& grid) {
  return first_block_of(std::exchange(grid.next_region, grid.next_region + grid.region_step), grid.request->grid,
                        grid.request->region());
}

Extent3 take_regular_cluster(Grid& grid) {
  if (grid.left_of_region.empty()) {
    const LaunchRequest& request = *grid.request;
    const Extent3 region = take_region(grid);
    for (uint64_t i = 0; i < divided(request.region(), request.cluster).count(); ++i) {
      const Extent3 inside = first_block_of(i, request.region(), request.cluster);
      grid.left_of_region.push_back({region.x + inside.x, region.y + inside.y, region.z + inside.z});
    }
  }
  const Extent3 first_block = grid.left_of_region.front();
  grid.left_of_region.pop_front();
  return first_block;
}

}  // namespace

uint64_t draw(uint64_t seed, uint64_t number) {
  uint64_t bits = seed + (number + 1) * 0x9e3779b97f4a7c15;  // the finaliser of SplitMix64
  bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
  return bits ^ bits >> 31;
}

Extent3 shape_of_next_cluster(const Grid& grid) {
  const bool starts_region = grid.left_of_region.empty();
  return starts_region && is_one_cluster(*grid.request, grid.next_region) ? grid.request->region()
                                                                          : grid.request->cluster;
}

void leave_out_what_is_not_needed(Grid& grid) {
  if (!grid.needs || !grid.has_next_cluster()) return;
  const LaunchRequest& request = *grid.request;
  const Extent3 first = grid.left_of_region.empty() ? first_block_of(grid.next_region, request.grid, request.region())
                                                    : grid.left_of_region.front();
  if (grid.needs((uint64_t{first.z} * request.grid.y + first.y) * request.grid.x + first.x)) return;
  grid.left_of_region.clear();
  grid.next_region = grid.region_count;
}

ClusterPlace take_next_cluster(Grid& grid) {
  const Extent3 shape = shape_of_next_cluster(grid);
  return {*take_cluster_of_shape(grid, shape), shape};
}

std::optional<Extent3> take_cluster_of_shape(Grid& grid, const Extent3& shape) {
  if (shape == grid.request->region()) {
    if (grid.next_region >= grid.region_count) return std::nullopt;
    return take_region(grid);
  }
  if (!grid.has_next_cluster()) return std::nullopt;
  return take_regular_cluster(grid);
}

Cycle time_of(const Cluster& cluster) {
  return cluster.running != nullptr ? std::max(cluster.now, cluster.running->warp->clock) : cluster.now;
}

void Cluster::schedule(Cycle delay, std::function<void()> action, const void* in_order) {
  Origin from = origin;
  if (running != nullptr) from = {&running->block(), running->warp->index, running->pc, running->mask};
  Cycle time = time_of(*this) + delay;
  if (choices != nullptr && running != nullptr) {
    time = time_of(*this) + choices->completion(*running, delay);
    if (in_order != nullptr) {
      Cycle& last = last_in_order[in_order];
      time = last = std::max(time, last);
    }
  }
  events.push({{time, next_sequence++}, std::move(action), from, in_order});
}

Block* Cluster::block_of(uint32_t shared_address) const {
  const uint32_t rank = shared_address >> kSharedRankShift;
  return rank < blocks.size() ? blocks[rank].get() : nullptr;
}

}  // namespace stagecraft::emulator::machine
