// Finds reads of shared memory that nothing has written: by loads, by atomics, by bulk and tensor stores to global
// memory, and by the tensor core, of its operands.
//
// What a load reads may never be used, as in the last lanes of a row, and a product of fewer rows than the instruction
// has leaves the others as they are. So a read is judged as a whole: it is reported only when none of its bytes, of all
// lanes together, has ever been written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/checks/ordering/memory_check.hpp"

namespace stagecraft::emulator::checks {

class UnwrittenCheck final : public MemoryCheck {
 public:
  using MemoryCheck::MemoryCheck;

  void cluster_started(ClusterRecord& cluster) override;
  void memory_accessed(ClusterRecord& cluster, const RecordedAccess& recorded) override;
  void operation_issued(ClusterRecord& cluster, const IssuedOperation& operation) override;
  void barrier_changed(ClusterRecord& cluster, const machine::BarrierEvent& event) override;

 private:
  /// Which bytes of a block's shared memory have been written.
  class WrittenBytes {
   public:
    void add(uint32_t offset, uint32_t bytes);
    bool has_any(uint32_t offset, uint32_t bytes) const;

   private:
    static constexpr uint32_t kBytes = 256 * 1024;  // a block has less
    std::vector<uint64_t> words_;                   ///< a bit for each byte; grows with what is written
  };
  struct State {
    std::vector<WrittenBytes> blocks;  ///< by rank
  };

  void check_load(const ClusterRecord& cluster, const State& state, const machine::MemoryAccess& access);
  void check_source(const ClusterRecord& cluster, const State& state, const IssuedOperation& issued);
  void check_operand(const ClusterRecord& cluster, const State& state, const IssuedOperation& issued, size_t matrix);

  PerCluster<State> states_;
};

}  // namespace stagecraft::emulator::checks
