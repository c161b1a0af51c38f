// Notes what is written to shared and tensor memory and never read: by loads, atomics, copies or the tensor core.
//
// That is not a mistake: right kernels fetch ahead, drop what they do not need, and pad. But where a program
// ends with an error because its numbers are wrong, and nothing else was found, it says which part of a ring nobody
// looks at, or which array; so the runtime tells it then, and only then (runtime/model/state.cpp).
//
// Writes of one place count together: the stores of one instruction, the copies of one instruction to one barrier (a
// slot of a ring has one), the products of one accumulator; and stores that share 16 bytes. Where any byte of any of
// them is read, they are read.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "emulator/checks/ordering/memory_check.hpp"

namespace stagecraft::emulator::checks {

class UnreadCheck final : public MemoryCheck {
 public:
  using MemoryCheck::MemoryCheck;

  void cluster_started(ClusterRecord& cluster) override;
  void memory_accessed(ClusterRecord& cluster, const RecordedAccess& recorded) override {
    const machine::MemoryAccess& access = recorded.event;
    if (access.shared != nullptr && !(unread_shared_ == 0 && is_known(access))) note(cluster, access);
  }
  void operation_issued(ClusterRecord& cluster, const IssuedOperation& operation) override;
  void tensor_memory_changed(ClusterRecord& cluster, const machine::TensorEvent& event) override;
  void add_results(std::vector<machine::WrittenResult>& results) override;

 private:
  enum class Place : uint8_t { store, copy, product, tensor };
  /// Writes that count together.
  struct Source {
    Place place = Place::store;
    uint32_t pc = 0;                 ///< of the latest
    uint32_t detail = 0;             ///< the offset of the barrier, or the first column
    machine::TensorRange columns{};  ///< in tensor memory
    uint32_t offset = ~0u;           ///< in shared memory, of the first byte
    bool was_read = false;
    uint16_t joined_to = 0;       ///< another source that it counts together with; 0: none
    uint32_t overwritten_at = 0;  ///< by another source, before anything had read it; 0: not
  };
  using Owner = uint16_t;  ///< the number of a source, from 1 on; 0: none
  static constexpr uint32_t kGranule = 16;
  static constexpr uint32_t kColumns = 512, kLaneGroups = 8;
  struct Memory {
    std::vector<Owner> shared;                             ///< by granule; grows with what is written
    std::vector<std::array<Owner, kLaneGroups>> tensor{};  ///< by column
  };
  struct State {
    std::vector<Memory> blocks;  ///< by rank
  };

  /// Whether it is no store that is the first of its instruction. While something has read all sources
  /// (`unread_shared_` is 0), such an access need not be noted: a place keeps its owner, which was read, too.
  bool is_known(const machine::MemoryAccess& access) const {
    return access.kind == machine::AccessKind::read || (access.pc < of_stores_.size() && of_stores_[access.pc] != 0);
  }
  void note(ClusterRecord& cluster, const machine::MemoryAccess& access);
  Owner source_of_store(const ClusterRecord& cluster, uint32_t pc);
  /// The source that an owner counts for, which is its own unless it was joined to another.
  Source& root(Owner owner);
  uint32_t& unread(Place place) {
    return place == Place::store || place == Place::copy ? unread_shared_ : unread_tensor_;
  }
  void mark_read(Owner owner);
  /// Lets two sources count together, because they share a granule.
  void join(Owner one, Owner other);
  std::string describe(const Source& source) const;
  Owner source(const ClusterRecord& cluster, Place place, uint32_t pc, uint32_t detail);
  void read(State& state, uint32_t address, uint32_t bytes);
  void write(State& state, uint32_t address, uint32_t bytes, Owner owner);
  template <typename Visit>
  static void for_each_cell(State& state, uint32_t rank, const machine::TensorRange& range, Visit&& visit);
  void read(State& state, uint32_t rank, const machine::TensorRange& range);
  void write(State& state, uint32_t rank, const machine::TensorRange& range, Owner owner);
  void operate(const ClusterRecord& cluster, State& state, uint32_t rank, const machine::AsyncOperation& operation);

  const machine::Kernel* kernel_ = nullptr;
  std::vector<Source> sources_;
  std::map<std::tuple<Place, uint32_t, uint32_t>, Owner> numbers_;  ///< by place, instruction, barrier or column
  std::vector<Owner> of_stores_;                                    ///< by pc
  uint32_t unread_shared_ = 0, unread_tensor_ = 0;                  ///< sources that nothing has read, joined ones once
  PerCluster<State> states_;
};

}  // namespace stagecraft::emulator::checks
