// Finds accesses of bytes in static shared memory that belong to no variable: in the gap that alignment leaves between
// two, or after the last. The address is legal, so nothing else stops them; most often an index runs past an array.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "emulator/checks/ordering/memory_check.hpp"

namespace stagecraft::emulator::checks {

class GapCheck final : public MemoryCheck {
 public:
  using MemoryCheck::MemoryCheck;

  void cluster_started(ClusterRecord& cluster) override;
  void memory_accessed(ClusterRecord& cluster, const RecordedAccess& recorded) override {
    if (!gaps_.empty() && recorded.event.shared != nullptr) check_access(cluster, recorded.event);
  }
  void operation_issued(ClusterRecord& cluster, const IssuedOperation& operation) override;
  void barrier_changed(ClusterRecord& cluster, const machine::BarrierEvent& event) override;

 private:
  bool is_in_gap(uint32_t offset) const;
  void check_access(const ClusterRecord& cluster, const machine::MemoryAccess& access);
  void report(const ClusterRecord& cluster, const machine::Fragment& fragment, machine::LaneMask lanes, uint32_t offset,
              const char* verb);

  const machine::Kernel* kernel_ = nullptr;
  std::vector<std::pair<uint32_t, uint32_t>> gaps_;  ///< of this kernel: first byte, and the one after the last
};

}  // namespace stagecraft::emulator::checks
