// wgmma: four warps multiply matrices. B is in shared memory, A in shared memory or in their registers.
//
// Each warp issues the instruction and goes on; the fourth makes the operation complete. The operations of a warpgroup
// are executed one after another, each at the virtual time at which the chip might have finished it: only then is
// shared memory read and are the accumulator's registers written. A in registers is read when the instruction is
// issued.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "emulator/engines/tensor_core/matrix_operand.hpp"
#include "emulator/state/op.hpp"
#include "emulator/state/warpgroup.hpp"
#include "emulator/translation/registration.hpp"

namespace stagecraft::emulator::machine {
struct Block;
struct Fragment;

inline constexpr uint32_t kWarpgroupRows = 64;  // M of every wgmma
inline constexpr uint32_t kMostAccumulators = 128;

/// The shape and the formats of an instruction, and where its operands are.
struct WarpgroupShape {
  ElementFormat a = ElementFormat::f16, b = ElementFormat::f16;
  AccumulatorFormat d = AccumulatorFormat::f32;
  uint32_t n = 8;
  uint32_t k = 16;           ///< elements; always 32 bytes
  bool single_bits = false;  ///< b1: counts bits of a & b
  bool a_in_registers = false;
  bool a_mn_major = false, b_mn_major = false;
  bool negate_a = false, negate_b = false;
  bool saturate = false;
  bool operator==(const WarpgroupShape&) const = default;
};

/// An operation of a warpgroup, from the time its first warp issues it.
struct WarpgroupMma {
  WarpgroupShape shape;
  uint64_t a_bits = 0, b_bits = 0;  ///< the descriptors, undecoded
  SharedDescriptor a, b;
  bool accumulate = false;
  uint32_t arrived = 0;  ///< warps that have issued it
  /// The registers of D, by warp.
  std::array<const std::vector<RegisterOffset>*, kWarpgroupWarps> d{};
  std::vector<uint32_t> cells;  ///< A from registers, as 8 columns of 128 32-bit cells
};

/// Throws Fault unless the chip could execute the operation.
void check(const WarpgroupMma& operation, const Block& block);
/// Returns the shared memory that an operation reads.
OperationFootprint footprint_of(const WarpgroupMma& operation, const Block& block);

/// The accumulator of a warpgroup while consecutive operations add to it.
class WarpgroupAccumulator {
 public:
  /// Executes an operation; reads the operands now. D's registers are read only if the operation adds to them and D
  /// was not kept.
  void execute(const WarpgroupMma& operation, const Block& block, uint32_t first_warp);
  /// Writes D to its registers, and forgets it.
  void write_back(const WarpgroupMma& operation, const Block& block, uint32_t first_warp);

 private:
  void read(const WarpgroupMma& operation, const Block& block, uint32_t first_warp);
  std::vector<float> d_;  // [n][128], of which 64; s32 as bits
  bool kept_ = false;
};

/// The operations of one warpgroup.
struct Warpgroup {
  std::deque<WarpgroupMma> queue;  ///< issued and not executed, oldest first
  uint64_t executed = 0;           ///< operations that left the queue
  std::array<uint64_t, kWarpgroupWarps> issued{};
  /// By warp: how many operations had been issued at each commit.
  std::array<std::deque<uint64_t>, kWarpgroupWarps> groups;
  uint64_t busy_until = 0;  ///< when the arithmetic of the latest operation ends, in cycles of the cluster
  std::vector<Fragment*> waiting;
  WarpgroupAccumulator accumulator;
};

void add_wgmma(InstructionSet& set);

}  // namespace stagecraft::emulator::machine
