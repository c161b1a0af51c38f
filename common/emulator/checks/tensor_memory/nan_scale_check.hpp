// Finds scale factors of tcgen05.mma and mma.sync that are NaN: 0xff in ue8m0, 0x7f and 0xff in ue4m3. The machine
// announces them where the row that they scale is not all zeros, as padding is: then a row or a column of D is NaN.
// What wrote them is known when the instruction is one that has copied them to tensor memory, or has stored them there.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "emulator/checks/ordering/memory_check.hpp"

namespace stagecraft::emulator::checks {

class NanScaleCheck final : public MemoryCheck {
 public:
  using MemoryCheck::MemoryCheck;

  void cluster_started(ClusterRecord& cluster) override;
  void operation_issued(ClusterRecord& cluster, const IssuedOperation& issued) override {
    const machine::AsyncOperation& event = issued.event;
    // Copies to tensor memory: what reads shared memory, and multiplies nothing.
    if (scales_blocks_ && !event.tensor_writes.empty() && !event.reads.empty() && event.product.m == 0) {
      note_copy(cluster, event);
    }
  }
  void tensor_memory_changed(ClusterRecord& cluster, const machine::TensorEvent& event) override {
    if (scales_blocks_ && event.kind == machine::TensorEventKind::store) note_store(cluster, event);
  }
  void nan_scales_used(ClusterRecord& cluster, const machine::NanScales& event) override;

 private:
  /// A byte in shared memory that would be NaN as a scale factor, when it was copied.
  struct Suspect {
    uint32_t address;
    uint8_t code;
    bool all_ones;  ///< the word that it is in
    PastAccess writer;
  };
  struct Writing {
    uint32_t rank;  ///< the block in whose tensor memory it writes; of a pair, the one that issued it
    bool of_pair;
    bool is_copy;
    std::vector<machine::TensorRange> ranges;
    uint32_t warp;
    machine::LaneMask lanes;
    uint32_t pc;
    std::vector<Suspect> suspects;  ///< of a copy: of each writer the first one
  };
  using State = std::deque<Writing>;  ///< the latest ones

  void note_copy(ClusterRecord& cluster, const machine::AsyncOperation& event);
  void note_store(ClusterRecord& cluster, const machine::TensorEvent& event);
  void add(ClusterRecord& cluster, Writing writing);
  void report_registers(ClusterRecord& cluster, const machine::NanScales& event);

  const machine::Kernel* kernel_ = nullptr;  ///< for which the next is known
  bool scales_blocks_ = false;
  PerCluster<State> states_;
};

}  // namespace stagecraft::emulator::checks
