#include "emulator/engines/tensor_core/tcgen05/tcgen05_fragment.hpp"

#include <fmt/format.h>

#include <cstring>

#include "emulator/state/fault.hpp"
#include "emulator/state/lanes.hpp"

namespace stagecraft::emulator::machine {

namespace {
// The lanes that an address may name. Kernels for pairs use 128 to 255 for the lanes of the second block.
constexpr uint32_t kNamedLanes = 2 * kTensorLanes;
}  // namespace

Tcgen05Fragment::Tcgen05Fragment(FragmentShape shape, uint32_t repetitions, bool packed, uint32_t split)
    : shape_(shape),
      packed_(packed),
      contiguous_(shape == FragmentShape::s32x32b && !packed),
      split_(split),
      registers_(size_t{repetitions} * registers_of(shape)),
      columns_(repetitions * columns_of(shape) * (packed ? 2 : 1)) {
  if (contiguous_) return;
  cells_.reserve(registers_ * kWarpSize);
  for (uint32_t index = 0; index < registers_; ++index) {
    for (uint32_t thread = 0; thread < kWarpSize; ++thread) {
      // The split counts columns of tensor memory, even where the map's own columns are pairs of those.
      const bool second = shape == FragmentShape::s16x32bx2 && thread >= kWarpSize / 2;
      TensorCell cell = fragment_cell(shape, thread, index);
      cell.column = cell.column * (packed ? 2 : 1) + (second ? split : 0);
      cells_.push_back(cell.column * kTensorLanes + cell.lane);
    }
  }
}

uint32_t Tcgen05Fragment::approve(const TensorMemory& memory, const Block& block, uint32_t warp, uint32_t address,
                                  const char* what) const {
  TensorCell cell = cell_at(address);
  const bool second_half = shape_ != FragmentShape::s32x32b && cell.lane % kWarpSize == kWarpSize / 2;
  if (cell.lane >= kNamedLanes || (cell.lane % kWarpSize != 0 && !second_half) || is_unwritten_word(address)) {
    const uint32_t first = warp % 4 * kWarpSize;
    throw Fault(
        FaultKind::illegal_address,
        fmt::format("{}: address 0x{:x} is in lane {}, where no access of this shape may begin", what, address,
                    cell.lane),
        {is_unwritten_word(address)
             ? kUnwrittenWord
             : fmt::format("warp {} may access lanes {} to {} (its number modulo 4 gives the quarter)", warp, first,
                           first + 31),
         shape_ == FragmentShape::s32x32b ? fmt::format("legal lane of the address: {}", first)
                                          : fmt::format("legal lanes of the address: {} and {}", first, first + 16)});
  }
  cell.lane = warp % 4 * kWarpSize + cell.lane % kWarpSize;
  if (const uint32_t first = warp % 4 * kWarpSize; first != 0 && address >> 16 == 0 && cell.column >= first &&
                                                   !memory.owns(block, cell.column, 1) &&
                                                   memory.owns(block, cell.column - first, columns_)) {
    throw Fault(FaultKind::illegal_address,
                fmt::format("{}: address 0x{:x} is in column {}, which the block has not allocated", what, address,
                            cell.column),
                {fmt::format("column {0} is allocated, and warp {1}'s lanes begin at {2}: was the lane added without a "
                             "shift? An address is lane << 16 | column, here 0x{3:x}",
                             cell.column - first, warp, first, first << 16 | (cell.column - first))});
  }
  memory.require(block, cell, lanes_of(shape_), columns_, what, address);
  if (shape_ == FragmentShape::s16x32bx2) {
    memory.require(block, {cell.lane, cell.column + split_}, lanes_of(shape_), columns_, what, address);
  }
  return address_of(cell);
}

std::vector<TensorRange> Tcgen05Fragment::ranges(uint32_t address) const {
  const TensorCell cell = cell_at(address);
  const uint32_t lanes = (lanes_of(shape_) == 32 ? 3u : 1u) << cell.lane / 16;
  std::vector<TensorRange> result{{cell.column, columns_, lanes}};
  if (shape_ == FragmentShape::s16x32bx2) result.push_back({cell.column + split_, columns_, lanes});
  return result;
}

void Tcgen05Fragment::load(TensorMemory& memory, uint32_t address, std::byte* registers,
                           const uint32_t* offsets) const {
  const TensorCell base = cell_at(address);
  const uint32_t* const from = memory.column(base.column) + base.lane;
  if (contiguous_) {
    for (size_t index = 0; index < registers_; ++index) {
      std::memcpy(registers + offsets[index], from + index * kTensorLanes, kWarpSize * sizeof(uint32_t));
    }
    return;
  }
  const uint32_t* cell = cells_.data();
  for (size_t index = 0; index < registers_; ++index, cell += kWarpSize) {
    uint32_t* const to = reinterpret_cast<uint32_t*>(registers + offsets[index]);
    if (packed_) {
      for (uint32_t thread = 0; thread < kWarpSize; ++thread) {
        to[thread] = (from[cell[thread]] & 0xffff) | from[cell[thread] + kTensorLanes] << 16;
      }
    } else {
      for (uint32_t thread = 0; thread < kWarpSize; ++thread) to[thread] = from[cell[thread]];
    }
  }
}

void Tcgen05Fragment::store(TensorMemory& memory, uint32_t address, const std::byte* registers,
                            const uint32_t* offsets) const {
  const TensorCell base = cell_at(address);
  uint32_t* const to = memory.column(base.column) + base.lane;
  if (contiguous_) {
    for (size_t index = 0; index < registers_; ++index) {
      std::memcpy(to + index * kTensorLanes, registers + offsets[index], kWarpSize * sizeof(uint32_t));
    }
    return;
  }
  const uint32_t* cell = cells_.data();
  for (size_t index = 0; index < registers_; ++index, cell += kWarpSize) {
    const uint32_t* const from = reinterpret_cast<const uint32_t*>(registers + offsets[index]);
    for (uint32_t thread = 0; thread < kWarpSize; ++thread) {
      if (packed_) {
        to[cell[thread]] = from[thread] & 0xffff;
        to[cell[thread] + kTensorLanes] = from[thread] >> 16;
      } else {
        to[cell[thread]] = from[thread];
      }
    }
  }
}

}  // namespace stagecraft::emulator::machine
