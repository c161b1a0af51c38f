// Finds what asynchronous operations need in addition to order:
//
//   - what threads have written was made visible to the operation's proxy by a fence (missing proxy fence);
//   - where the operation says so, which is true of the responses of cluster launch control, a fence also after reads;
//   - the same where nothing has used what a load brings before the arrival that lets a copy overwrite it;
//   - the tensor core sees a tile as TMA has laid it out (swizzle mismatch).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "emulator/checks/ordering/memory_check.hpp"
#include "emulator/checks/proxies/loads_in_flight.hpp"
#include "emulator/checks/proxies/overtaken_loads.hpp"
#include "emulator/checks/proxies/proxy_fences.hpp"

namespace stagecraft::emulator::checks {

class ProxyCheck final : public MemoryCheck {
 public:
  using MemoryCheck::MemoryCheck;

  void cluster_started(ClusterRecord& cluster) override;
  void barrier_changed(ClusterRecord& cluster, const machine::BarrierEvent& event) override;
  void threads_met(ClusterRecord& cluster, const machine::Rendezvous& event) override;
  void fence_executed(ClusterRecord& cluster, const machine::Fragment& fragment, machine::LaneMask lanes,
                      machine::FenceKind kind) override;
  void memory_accessed(ClusterRecord& cluster, const RecordedAccess& recorded) override {
    if (recorded.warp == nullptr || recorded.event.kind != machine::AccessKind::read) return;
    if (cluster.kernel().takes_over_clusters) note_read(cluster, recorded);
    if (may_overtake() && unread_->may_be_overtaken(recorded.event.pc)) states_[cluster].loads.note_read(recorded);
  }
  void operation_issued(ClusterRecord& cluster, const IssuedOperation& operation) override;

 private:
  struct State {
    explicit State(uint32_t warps) : fences(warps), loads(warps) {}
    ProxyFences fences;
    OvertakenLoads loads;
    std::map<uint32_t, std::pair<Time, uint32_t>> global_fences;  ///< by warp, the last for global memory: when, its pc
    std::map<uint32_t, size_t> missing;  ///< warp that lacks a fence: number of the finding that says so
    /// Where such operations write that need a fence after reads: the reads since the last of them, by the address.
    std::map<uint32_t, std::vector<PastAccess>> read_since;
  };

  bool may_overtake() const { return unread_ && unread_->any(); }
  void note_read(const ClusterRecord& cluster, const RecordedAccess& recorded);
  /// Compares what an operation accesses with the last writes there.
  /// @param matrix  what the range is part of, if its layout is to be compared as well; else null
  void check_range(const ClusterRecord& cluster, const machine::AsyncOperation& operation,
                   const machine::SharedRange& range, const machine::MatrixRead* matrix, bool writes);
  /// Holds an operation that needs a fence after reads against the reads of what it overwrites, and forgets them.
  void check_reads(const ClusterRecord& cluster, const machine::AsyncOperation& operation);
  void report_fence(const ClusterRecord& cluster, const PastAccess& before, const machine::AsyncOperation& operation,
                    uint32_t address, bool writes);
  void report_overtaken(const ClusterRecord& cluster, const OvertakenLoads::Load& load,
                        const machine::AsyncOperation& operation, uint32_t address);
  void report_layout(const ClusterRecord& cluster, const PastAccess& before, const machine::AsyncOperation& operation,
                     const machine::MatrixRead& matrix, uint32_t address);

  PerCluster<State> states_;
  std::optional<UnreadLoads> unread_;  ///< of the grid's kernel
};

}  // namespace stagecraft::emulator::checks
