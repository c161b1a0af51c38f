// Operands of the asynchronous units, read lane by lane: these instructions are issued by a lane or a warp at a time
// and move kilobytes, so their operands need no fast path.
#pragma once

#include <cstdint>
#include <cstring>

#include "emulator/state/grid.hpp"
#include "emulator/state/op.hpp"
#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

/// A source vector and the size of its lanes: 2, 4 or 8 bytes.
struct LaneOperand {
  RegisterOffset offset = kNoRegister;
  uint8_t bytes = 4;

  bool present() const { return offset != kNoRegister; }
  /// Value of one lane, zero-extended.
  uint64_t at(const Fragment& fragment, uint32_t lane) const {
    const std::byte* const from = fragment.registers + offset + size_t{lane} * bytes;
    // Copies of constant sizes are moves; one of `bytes` bytes would be a call.
    const auto read = [from]<typename Element>(Element value) {
      std::memcpy(&value, from, sizeof value);
      return uint64_t{value};
    };
    switch (bytes) {
      case 2: return read(uint16_t{});
      case 4: return read(uint32_t{});
      default: return read(uint64_t{});
    }
  }
};

/// The operand as a vector; its lanes are as wide as its register when it is one, else as the type.
inline LaneOperand lane_operand(Translation& t, const ptx::Operand& operand, ptx::Type type) {
  const ptx::Type declared = t.register_type(operand);
  const uint32_t bytes = size_of(declared == ptx::Type::none ? type : declared);
  return {t.source(operand, type), static_cast<uint8_t>(bytes == 1 ? 2 : bytes)};
}

/// Which shared memory an address may name.
enum class SharedScope : uint8_t {
  block,    ///< .shared::cta: the executing block's
  cluster,  ///< .shared::cluster: that of any block of the cluster
  generic,  ///< a generic address, which must lie in the executing block's shared memory
};

/// An address in shared memory.
struct SharedOperand {
  LaneOperand value;
  SharedScope scope = SharedScope::block;

  /// The 32-bit shared address (rank << 24 | offset) of a lane. Throws Fault when a generic address is not one of
  /// shared memory. `what` names the operand: "mbarrier.arrive", "cp.async.bulk: destination".
  uint32_t at(const Fragment& fragment, uint32_t lane, const char* what) const;
};

/// `[address]` as a vector of addresses; to be taken before `emit`.
LaneOperand lane_address(Translation& t, const ptx::Operand& operand);
SharedOperand shared_operand(Translation& t, const ptx::Operand& operand, SharedScope scope);

/// The block that holds [address, address + bytes) of shared memory. Throws Fault: a rank that the cluster has not, a
/// block that has exited, an address outside of its shared memory, or not a multiple of `alignment`.
Block& block_with(Cluster& cluster, uint32_t address, uint64_t bytes, uint32_t alignment, const char* what);
/// As `block_with`, and the address must be of `block` itself unless the scope is `cluster`.
Block& block_in_scope(Block& block, uint32_t address, uint64_t bytes, uint32_t alignment, SharedScope scope,
                      const char* what);
/// The host's view of a shared address that `block_with` has approved.
inline std::byte* bytes_of(Block& block, uint32_t address) {
  return block.shared.data() + (address & kSharedOffsetMask);
}

/// "0x1000400 (offset 0x400 of the block of rank 1)"
std::string spell_shared(uint32_t address);

}  // namespace stagecraft::emulator::machine
