// Finds operands of the tensor core in shared memory of which nothing has written a byte.
//
// It is certain that these values count. What a load reads may never be used, as in the last lanes of a row or in a
// slot that is read ahead, so loads are not judged. Neither is an operand of which some rows are written: a product of
// fewer rows than the instruction has leaves the others as they are, and the program ignores their results.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/checks/ordering/memory_check.hpp"

namespace stagecraft::emulator::checks {

class UnwrittenCheck final : public MemoryCheck {
 public:
  using MemoryCheck::MemoryCheck;

  void cluster_started(ClusterRecord& cluster) override;
  void memory_accessed(ClusterRecord& cluster, const RecordedAccess& recorded) override;
  void operation_issued(ClusterRecord& cluster, const IssuedOperation& operation) override;

 private:
  /// Which bytes of a block's shared memory have been written.
  class WrittenBytes {
   public:
    void add(uint32_t offset, uint32_t bytes);
    bool has_any(uint32_t offset, uint32_t bytes) const;

   private:
    static constexpr uint32_t kBytes = 256 * 1024;  // a block has less
    std::vector<uint64_t> words_;                   ///< a bit for each byte; empty before the first
  };
  struct State {
    std::vector<WrittenBytes> blocks;  ///< by rank; empty where nothing has an operand in shared memory
  };

  void check_operand(const ClusterRecord& cluster, const State& state, const IssuedOperation& issued, size_t matrix);

  PerCluster<State> states_;
};

}  // namespace stagecraft::emulator::checks
