// Finds tensor maps that a kernel changes and uses without the order that this needs. A tensor copy reads its map in
// global memory through a proxy of its own:
//
//   - a map may be changed once the copies that use it have ended for the thread that changes it (race);
//   - what the kernel has changed may be used after fence.proxy.tensormap::generic.acquire of these 128 bytes, by a
//     thread of the block that uses it, and if tensormap.cp_fenceproxy has not done so, after the other fence,
//     .release, on the side of the change (missing proxy fence).
//
// Maps that the host has made, and parameters, need nothing. Changes by plain stores are known where accesses of global
// memory are announced, and where the address is known to be a map's by then.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "emulator/checks/ordering/memory_check.hpp"

namespace stagecraft::emulator::checks {

class TensorMapCheck final : public MemoryCheck {
 public:
  using MemoryCheck::MemoryCheck;

  void cluster_started(ClusterRecord& cluster) override { states_.start(cluster, ++clusters_); }
  void cluster_finished(ClusterRecord& cluster) override;
  void memory_accessed(ClusterRecord& cluster, const RecordedAccess& recorded) override {
    if (!maps_.empty() && recorded.event.global != nullptr && recorded.event.kind != machine::AccessKind::read) {
      note_stores(cluster, recorded);
    }
  }
  void tensor_map_changed(ClusterRecord& cluster, const machine::TensorMapEvent& event) override;
  void operation_issued(ClusterRecord& cluster, const IssuedOperation& issued) override {
    if (issued.event.tensor_map != 0) use(cluster, issued);
  }
  void group_changed(ClusterRecord& cluster, const machine::GroupEvent& event) override {
    if (!maps_.empty() && event.bulk) note_group(cluster, event);
  }

 private:
  struct State {
    explicit State(uint64_t cluster_) : cluster(cluster_) {}
    uint64_t cluster;  ///< from 1 on, in the grid
  };
  /// A thread, or lanes of a warp, at a time.
  struct Step {
    uint64_t cluster = 0;
    machine::Extent3 block{};
    uint32_t warp = 0;  ///< in the cluster
    machine::LaneMask lanes = 0;
    Time time = 0;
    uint32_t pc = 0;
  };
  struct Change : Step {
    bool released = false;
  };
  struct Fence : Step {
    bool knows_change = false;
  };
  struct Use : Step {
    std::vector<uint32_t> operations;  ///< one for each target
    bool is_committed = false;         ///< its warp has committed a group of bulk copies since
    std::optional<Step> waited;        ///< and has waited for that
  };
  struct Map {
    std::optional<Change> change;  ///< the last one in this grid
    std::vector<Fence> acquired;   ///< since then
    std::vector<Use> uses;         ///< since then, by copies that have not ended for their own thread
  };

  Step step(ClusterRecord& cluster, uint32_t warp, machine::LaneMask lanes, uint32_t pc);
  static bool knows_any(const ClusterOrder& order, const Step& past, uint32_t warp, machine::LaneMask lanes);
  bool has_ended(ClusterRecord& cluster, const Use& use, uint32_t warp, machine::LaneMask lanes);
  void note_stores(ClusterRecord& cluster, const RecordedAccess& recorded);
  void note_group(ClusterRecord& cluster, const machine::GroupEvent& event);
  void change(ClusterRecord& cluster, uint64_t address, const Step& by, bool releases);
  void use(ClusterRecord& cluster, const IssuedOperation& issued);
  void report_change(ClusterRecord& cluster, uint64_t address, const Use& use, const Step& by);
  void report_use(ClusterRecord& cluster, const Map& map, const machine::AsyncOperation& operation);
  std::string other_fence(ClusterRecord& cluster, uint64_t address, const Map& map, const machine::AsyncOperation& by);

  PerCluster<State> states_;
  std::map<uint64_t, Map> maps_;  ///< by address
  uint64_t clusters_ = 0;
};

}  // namespace stagecraft::emulator::checks
