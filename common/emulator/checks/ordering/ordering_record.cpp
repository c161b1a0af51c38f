#include "emulator/checks/ordering/ordering_record.hpp"

#include <utility>

namespace stagecraft::emulator::checks {

namespace {

ClusterOrder order_for(const machine::Cluster& cluster) {
  const auto threads = static_cast<uint32_t>(cluster.grid->request->block.count());
  const auto blocks = static_cast<uint32_t>(cluster.shape.count());
  return {blocks, machine::warps_of(threads), threads};
}

}  // namespace

ClusterRecord::ClusterRecord(const machine::Cluster& cluster, uint32_t slot, std::vector<ShadowMemory> empty_memory)
    : memory(std::move(empty_memory)), cluster_(&cluster), slot_(slot), order_(order_for(cluster)) {}

void OrderingRecord::clear() {
  clusters_.clear();
  spare_.clear();
  slots_ = 0;
  latest_ = nullptr;
}

ClusterRecord* OrderingRecord::look_up(const machine::Cluster& cluster) {
  const auto found = clusters_.find(&cluster);
  latest_ = found == clusters_.end() ? nullptr : found->second.get();
  return latest_;
}

ClusterRecord* OrderingRecord::start_block(const machine::Block& block) {
  if (block.rank != 0) return nullptr;
  const machine::Cluster& cluster = *block.cluster;
  if (spare_.empty()) spare_.push_back({slots_++, std::vector<ShadowMemory>(cluster.grid->request->region().count())});
  Spare spare = std::move(spare_.back());
  spare_.pop_back();
  std::unique_ptr<ClusterRecord> record(new ClusterRecord(cluster, spare.slot, std::move(spare.memory)));
  latest_ = record.get();
  clusters_[&cluster] = std::move(record);
  return latest_;
}

void OrderingRecord::forget(ClusterRecord& cluster) {
  for (ShadowMemory& memory : cluster.memory) memory.clear();
  spare_.push_back({cluster.slot(), std::move(cluster.memory)});
  clusters_.erase(&cluster.cluster());
  latest_ = nullptr;
}

}  // namespace stagecraft::emulator::checks
