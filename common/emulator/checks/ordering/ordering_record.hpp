// What the memory checks of a grid share: for each cluster that runs, the order that it has made so far, and who
// accessed its shared memory last.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "emulator/checks/ordering/happens_before.hpp"
#include "emulator/checks/ordering/shadow_memory.hpp"
#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::checks {

class ClusterRecord {
 public:
  const machine::Cluster& cluster() const { return *cluster_; }
  const machine::Kernel& kernel() const { return *cluster_->grid->kernel; }
  /// A number less than the number of clusters that run at once; clusters that run one after the other may share it.
  uint32_t slot() const { return slot_; }
  const ClusterOrder& order() const { return order_; }
  /// Whether the cluster is one block. Only then a barrier of all threads of the block is one of the cluster.
  bool has_one_block() const { return memory.size() == 1; }

  /// Who accessed the shared memory of each block last, by rank. The race check maintains it; other checks only read
  /// it.
  std::vector<ShadowMemory> memory;

 private:
  friend class OrderingRecord;
  ClusterRecord(const machine::Cluster& cluster, uint32_t slot, std::vector<ShadowMemory> empty_memory);

  const machine::Cluster* cluster_;
  uint32_t slot_;
  uint32_t finished_blocks_ = 0;
  ClusterOrder order_;
};

class OrderingRecord {
 public:
  /// Forgets all clusters.
  void clear();
  /// The record of a cluster; null when it does not run.
  ClusterRecord* find(const machine::Cluster& cluster) {
    return latest_ != nullptr && latest_->cluster_ == &cluster ? latest_ : look_up(cluster);
  }
  /// Returns the record of a cluster whose first block starts, null for its other blocks.
  ClusterRecord* start_block(const machine::Block& block);
  /// Returns whether this was the last block of the cluster.
  static bool finish_block(ClusterRecord& cluster) { return ++cluster.finished_blocks_ == cluster.memory.size(); }
  void forget(ClusterRecord& cluster);

  /// The order of a cluster, to be fed with an event.
  static ClusterOrder& order_of(ClusterRecord& cluster) { return cluster.order_; }

 private:
  ClusterRecord* look_up(const machine::Cluster& cluster);

  std::map<const machine::Cluster*, std::unique_ptr<ClusterRecord>> clusters_;
  ClusterRecord* latest_ = nullptr;
  uint32_t slots_ = 0;
  /// Slots of clusters that have ended, with their emptied memory, for the next ones.
  struct Spare {
    uint32_t slot;
    std::vector<ShadowMemory> memory;
  };
  std::vector<Spare> spare_;
};

}  // namespace stagecraft::emulator::checks
