// Operands of the engines' instructions, read lane by lane. One lane or warp issues such an instruction, which moves
// kilobytes, so its operands need no fast path.
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
  /// Returns the value of one lane, zero-extended.
  uint64_t at(const Fragment& fragment, uint32_t lane) const {
    const std::byte* const from = fragment.registers + offset + size_t{lane} * bytes;
    // A copy of a constant size becomes a move; a copy of `bytes` bytes would be a call.
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

/// Makes the operand a vector. Its lanes are as wide as its register, or as the type when it is not a register.
inline LaneOperand lane_operand(Translation& t, const ptx::Operand& operand, ptx::Type type) {
  const ptx::Type declared = t.register_type(operand);
  const uint32_t bytes = size_of(declared == ptx::Type::none ? type : declared);
  return {t.source(operand, type), static_cast<uint8_t>(bytes == 1 ? 2 : bytes)};
}

/// Which shared memory an address may name.
enum class SharedScope : uint8_t {
  block,    ///< .shared::cta: the executing block's
  cluster,  ///< .shared::cluster: that of any block of the cluster
  generic,  ///< a generic address, which must be in the executing block's shared memory
};

/// An address in shared memory.
struct SharedOperand {
  LaneOperand value;
  SharedScope scope = SharedScope::block;

  /// Returns the 32-bit shared address (rank << 24 | offset) of a lane. Throws Fault when a generic address is not in
  /// shared memory. `what` names the operand: "mbarrier.arrive", "cp.async.bulk: destination".
  uint32_t at(const Fragment& fragment, uint32_t lane, const char* what) const;
};

/// Makes `[address]` a vector of addresses. Must be called before `emit`.
LaneOperand lane_address(Translation& t, const ptx::Operand& operand);
SharedOperand shared_operand(Translation& t, const ptx::Operand& operand, SharedScope scope);

/// Returns the block that has [address, address + bytes) in its shared memory. Throws Fault for a rank that the cluster
/// does not have, a block that has exited, and an address that is outside its shared memory or not a multiple of
/// `alignment`.
Block& block_with(Cluster& cluster, uint32_t address, uint64_t bytes, uint32_t alignment, const char* what);
/// Does the same, but the address must be in `block` itself unless the scope is `cluster`.
Block& block_in_scope(Block& block, uint32_t address, uint64_t bytes, uint32_t alignment, SharedScope scope,
                      const char* what);
/// Returns the fault of an access to the shared memory of a block that has exited.
Fault fault_of_exited(const Cluster& cluster, const Block& block, uint32_t address, const char* what);
/// Returns the host's pointer to a shared address that `block_with` has checked.
inline std::byte* bytes_of(Block& block, uint32_t address) {
  return block.shared.data() + (address & kSharedOffsetMask);
}

/// Spells an address for messages: "0x1000400 (offset 0x400 of the block of rank 1)".
std::string spell_shared(uint32_t address);

}  // namespace stagecraft::emulator::machine
