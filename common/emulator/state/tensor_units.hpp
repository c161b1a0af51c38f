// The tensor cores that carry out an operation: that of its block, or with cta_group::2 those of a pair of blocks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "emulator/state/fault.hpp"
#include "emulator/state/tensor_memory.hpp"

namespace stagecraft::emulator::machine {
struct Block;
struct Fragment;

/// The tensor core as a block uses it: it reads the block's shared memory and works on its tensor memory.
struct TensorUnit {
  const Block* block = nullptr;
  TensorMemory* memory = nullptr;
};

/// One unit, or the two of a pair: blocks of a cluster whose ranks differ in the last bit only, the even one first.
/// Addresses and descriptors of an operation mean the same offsets in both.
class TensorUnits {
 public:
  TensorUnits(const Block& block, TensorMemory& memory) : units_{{{&block, &memory}, {}}} {}
  TensorUnits(TensorUnit even, TensorUnit odd) : units_{even, odd}, count_(2) {}

  bool are_pair() const { return count_ == 2; }
  uint32_t count() const { return count_; }
  const TensorUnit& operator[](uint32_t index) const { return units_[index]; }
  const TensorUnit* begin() const { return units_.data(); }
  const TensorUnit* end() const { return units_.data() + count_; }

  /// Does TensorMemory::allocate for each block in its memory. Both blocks of a pair get the same columns, because an
  /// operation of both has one address.
  std::optional<TensorMemory::Allocation> allocate(uint32_t columns) const;

  /// Calls `look_at(unit)` for each unit. A Fault that one of a pair throws names its block.
  template <typename LookAt>
  void check_each(LookAt look_at) const {
    for (const TensorUnit& unit : *this) {
      try {
        look_at(unit);
      } catch (Fault& fault) {
        if (are_pair()) fault.details.push_back(name_in_pair(unit));
        throw;
      }
    }
  }

 private:
  static std::string name_in_pair(const TensorUnit& unit);

  std::array<TensorUnit, 2> units_;
  uint32_t count_ = 1;
};

/// Returns the other block of a block's pair; null when the cluster has none.
Block* peer_of(const Block& block);
/// Does the same, but throws Fault when there is none. `what` names the instruction: "tcgen05.mma".
Block& require_peer(const Block& block, const char* what);
/// Returns the units that carry out an operation of a fragment. Throws Fault when a pair is needed and there is no
/// peer, or the peer has exited.
TensorUnits tensor_units_of(const Fragment& fragment, bool pair, const char* what);

}  // namespace stagecraft::emulator::machine
