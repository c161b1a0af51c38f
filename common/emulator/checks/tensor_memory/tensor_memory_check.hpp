// Finds accesses of tensor memory that nothing orders, or that lack a wait or a fence of tcgen05 (tensor_order.hpp).
// It also finds accumulators that nothing has written, addresses in another warp's lanes, and in a kernel that hangs
// operations without a commit.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "emulator/checks/ordering/memory_check.hpp"
#include "emulator/checks/tensor_memory/tensor_order.hpp"

namespace stagecraft::emulator::checks {

class TensorMemoryCheck final : public MemoryCheck {
 public:
  using MemoryCheck::MemoryCheck;

  void cluster_started(ClusterRecord& cluster) override;
  void cluster_stuck(ClusterRecord& cluster) override;
  void operation_issued(ClusterRecord& cluster, const IssuedOperation& operation) override;
  void tensor_memory_changed(ClusterRecord& cluster, const machine::TensorEvent& event) override;

 private:
  /// Operations of a thread since its last commit.
  struct Uncommitted {
    uint32_t operations = 0, pc = 0;  ///< pc: of the latest
  };
  struct State {
    State(uint32_t blocks, uint32_t warps) : accesses(blocks, warps) {}
    TensorOrder accesses;
    std::set<uint32_t> racing;                                         ///< instructions that race for tensor memory
    std::map<std::pair<uint32_t, uint32_t>, Uncommitted> uncommitted;  ///< by warp and lane
    /// What the latest operation of a thread wrote, by warp and lane.
    std::map<std::pair<uint32_t, uint32_t>, machine::TensorRange> written;
    std::vector<machine::TensorRange> accumulators;  ///< the first few different ones
    /// Findings about operations that add to what nobody has written, and where.
    std::vector<std::pair<size_t, machine::TensorRange>> unwritten;
    std::vector<machine::TensorRange> store_races;  ///< where an operation and a store race
  };

  static void note_accumulator(State& state, const machine::TensorRange& range);
  static std::string overlapping_accumulators(const State& state, const machine::TensorRange& at);

  void check_quarter(const ClusterRecord& cluster, const machine::TensorEvent& event);
  void check_lanes(const ClusterRecord& cluster, const machine::TensorEvent& event);
  void report(const ClusterRecord& cluster, State& state, const std::vector<TensorConflict>& conflicts);

  PerCluster<State> states_;
};

}  // namespace stagecraft::emulator::checks
