// The cells that tcgen05.ld and tcgen05.st copy between tensor memory and the registers of a warp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/state/observer.hpp"
#include "emulator/state/tensor_layouts.hpp"
#include "emulator/state/tensor_memory.hpp"

namespace stagecraft::emulator::machine {

/// The cell of each register of each thread. One is made per instruction, when it is translated.
class Tcgen05Fragment {
 public:
  /// @param packed the 16-bit forms (.pack::16b, .unpack::16b): a register has the low halves of two adjacent cells.
  /// @param split  the immediate of 16x32bx2, in columns.
  Tcgen05Fragment(FragmentShape shape, uint32_t repetitions, bool packed, uint32_t split = 0);

  uint32_t register_count() const { return static_cast<uint32_t>(registers_); }

  /// Returns the address that the chip accesses: that of the same lane in the warp's own quarter. PTX allows only
  /// addresses there. But DeepGEMM's kernels pass the first quarter's to all warps, because "the hardware will ignore
  /// the warp index bits", and others, which were verified on a B200 (learn-cuda's matmul_v5), pass lanes 128 to 255 in
  /// the second block of a pair. Throws Fault unless the access may begin in such a lane, and the block owns the
  /// columns. `what`: "tcgen05.ld".
  uint32_t approve(const TensorMemory& memory, const Block& block, uint32_t warp, uint32_t address,
                   const char* what) const;
  /// Returns the cells of a warp that are accessed at an approved address.
  std::vector<TensorRange> ranges(uint32_t address) const;
  /// Copies the cells at an approved address to 32 consecutive words at registers + offsets[i], for each register i.
  void load(TensorMemory& memory, uint32_t address, std::byte* registers, const uint32_t* offsets) const;
  /// Copies the registers back to the cells. A packed store writes zeros to their upper halves (unconfirmed).
  void store(TensorMemory& memory, uint32_t address, const std::byte* registers, const uint32_t* offsets) const;

 private:
  FragmentShape shape_;
  bool packed_;
  bool contiguous_;  ///< 32x32b unpacked: a register is 32 lanes of a column
  uint32_t split_;
  size_t registers_;
  uint32_t columns_;             ///< of each block of cells
  std::vector<uint32_t> cells_;  ///< [register][thread]: column * 128 + lane of the (first) cell; empty if contiguous
};

}  // namespace stagecraft::emulator::machine
