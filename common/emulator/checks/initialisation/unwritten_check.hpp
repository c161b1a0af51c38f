// Finds reads of shared memory that nothing has written: by loads, by atomics, by bulk and tensor stores to global
// memory, and by the tensor core, of its operands.
//
// What a load reads may never be used, as in the last lanes of a row, and a product of fewer rows than the instruction
// has leaves the others as they are. So a read is judged as a whole: it is reported only when none of its bytes, of all
// lanes together, has ever been written. Where only the last lanes read such bytes, a program that ends with an error
// is told so at its end.
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "emulator/checks/ordering/memory_check.hpp"
#include "emulator/state/device_memory.hpp"

namespace stagecraft::emulator::checks {

class UnwrittenCheck final : public MemoryCheck {
 public:
  using MemoryCheck::MemoryCheck;

  void cluster_started(ClusterRecord& cluster) override;
  void memory_accessed(ClusterRecord& cluster, const RecordedAccess& recorded) override {
    const machine::MemoryAccess& access = recorded.event;
    if (access.shared == nullptr) return;
    State& state = states_[cluster];
    if (access.kind != machine::AccessKind::write) {
      if (!reads_written(state, access)) {
        report_load(cluster, access);
      } else if (access.pc != latest_noted_ &&
                 !is_written(state, access, 31 - static_cast<uint32_t>(std::countl_zero(access.lanes)))) {
        note_lanes(cluster, state, access);
      }
    }
    if (access.kind != machine::AccessKind::read) note_write(state, access);
  }
  void operation_issued(ClusterRecord& cluster, const IssuedOperation& operation) override;
  void barrier_changed(ClusterRecord& cluster, const machine::BarrierEvent& event) override;
  void add_results(std::vector<machine::WrittenResult>& results) override;

 private:
  /// Which bytes of a block's shared memory have been written.
  class WrittenBytes {
   public:
    void add(uint32_t offset, uint32_t bytes);
    bool has_any(uint32_t offset, uint32_t bytes) const {
      const uint32_t word = offset / 64, bit = offset % 64;
      const bool in_one_word = bit + bytes < 64 && word < words_.size();
      if (in_one_word && (words_[word] >> bit & ((uint64_t{1} << bytes) - 1)) != 0) return true;
      return has_any_in_words(offset, bytes);
    }

   private:
    bool has_any_in_words(uint32_t offset, uint32_t bytes) const;

    static constexpr uint32_t kBytes = 256 * 1024;  // a block has less
    std::vector<uint64_t> words_;                   ///< a bit for each byte; grows with what is written
  };
  struct State {
    std::vector<WrittenBytes> blocks;  ///< by rank
  };

  /// Whether something has written what a load reads, or it is not known.
  static bool reads_written(const State& state, const machine::MemoryAccess& access) {
    // Mostly the first lane's bytes are written.
    for (machine::LaneMask unseen = access.lanes; unseen != 0; unseen &= unseen - 1) {
      if (is_written(state, access, machine::first_lane(unseen))) return true;
    }
    return false;
  }
  /// The same of one lane.
  static bool is_written(const State& state, const machine::MemoryAccess& access, uint32_t lane) {
    const uint32_t address = access.shared[lane];
    const uint32_t rank = address >> machine::kSharedRankShift, offset = address & machine::kSharedOffsetMask;
    return offset < machine::kSharedReservedBytes || rank >= state.blocks.size() ||
           state.blocks[rank].has_any(offset, access.bytes);
  }
  /// Notes a load of which the last lanes read what nothing has written. They may not use it, so that is told only
  /// where the program ends with an error.
  void note_lanes(const ClusterRecord& cluster, const State& state, const machine::MemoryAccess& access);
  static void note_write(State& state, const machine::MemoryAccess& access);
  void report_load(const ClusterRecord& cluster, const machine::MemoryAccess& access);
  void check_source(const ClusterRecord& cluster, const State& state, const IssuedOperation& issued);
  void check_operand(const ClusterRecord& cluster, const State& state, const IssuedOperation& issued, size_t matrix);

  PerCluster<State> states_;
  static constexpr uint32_t kNone = ~0u;
  uint32_t latest_noted_ = kNone;          ///< instruction
  std::map<uint32_t, std::string> noted_;  ///< loads of the grid so far, by instruction
};

}  // namespace stagecraft::emulator::checks
