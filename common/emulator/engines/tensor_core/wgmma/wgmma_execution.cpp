// Executes wgmma: the arithmetic is that of tcgen05.mma, but the accumulators are in registers.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "emulator/engines/tensor_core/panel_kernels.hpp"
#include "emulator/engines/tensor_core/register_fragments.hpp"
#include "emulator/engines/tensor_core/wgmma/wgmma.hpp"
#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

namespace {

constexpr uint32_t kSliceBytes = 32;  // of every row along K
constexpr uint32_t kSliceWords = kSliceBytes / 4;
constexpr uint32_t kWarpRows = kWarpgroupRows / kWarpgroupWarps;

SharedMatrix matrix_a(const WarpgroupMma& operation) {
  const WarpgroupShape& shape = operation.shape;
  return {operation.a, shape.a, shape.a_mn_major, kWarpgroupRows, shape.k};
}
SharedMatrix matrix_b(const WarpgroupMma& operation) {
  const WarpgroupShape& shape = operation.shape;
  return {operation.b, shape.b, shape.b_mn_major, shape.n, shape.k};
}

void negate(float* values, size_t count) {
  for (size_t i = 0; i < count; ++i) values[i] = -values[i];
}

// Loads the words of A as [word][128], whatever their type.
void load_bits_of_a(const WarpgroupMma& operation, const Block& block, PanelSpace& space) {
  if (operation.shape.a_in_registers) {
    std::copy(operation.cells.begin(), operation.cells.end(), space.cells);
    return;
  }
  gather_k_major(operation.a, block, kWarpgroupRows, kSliceBytes, reinterpret_cast<uint8_t*>(space.raw));
  panel_kernels().transpose(space.raw, kSliceWords, kWarpgroupRows, kSliceWords, space.cells, kPanelLanes);
}

// Adds to `sums`, which is [n][128], the exact sums of an operation of integers.
void add_integers(const WarpgroupShape& shape, const float* sums, bool accumulate, float* d) {
  for (uint32_t n = 0; n < shape.n; ++n) {
    for (uint32_t m = 0; m < kWarpgroupRows; ++m) {
      float& cell = d[n * kPanelLanes + m];
      const int64_t before = accumulate ? std::bit_cast<int32_t>(cell) : 0;
      int64_t sum = before + static_cast<int64_t>(sums[n * kPanelLanes + m]);
      if (shape.saturate) {
        sum = std::clamp<int64_t>(sum, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
      }
      cell = std::bit_cast<float>(static_cast<uint32_t>(sum));
    }
  }
}

// Counts the common bits of A's rows and B's columns, of which there are at most 256.
void multiply_bits(const WarpgroupMma& operation, const Block& block, PanelSpace& space) {
  load_bits_of_a(operation, block, space);
  gather_k_major(operation.b, block, operation.shape.n, kSliceBytes, reinterpret_cast<uint8_t*>(space.raw));
  for (uint32_t n = 0; n < operation.shape.n; ++n) {
    for (uint32_t m = 0; m < kWarpgroupRows; ++m) {
      int count = 0;
      for (uint32_t word = 0; word < kSliceWords; ++word) {
        count += std::popcount(space.cells[word * kPanelLanes + m] & space.raw[n * kSliceWords + word]);
      }
      space.d[n * kPanelLanes + m] = static_cast<float>(count);
    }
  }
}

void load_operands(const WarpgroupMma& operation, const Block& block, PanelSpace& space) {
  const WarpgroupShape& shape = operation.shape;
  if (shape.a_in_registers) {
    load_a(operation.cells.data(), shape.a, space);
  } else {
    load_a(matrix_a(operation), block, space);
  }
  load_b(matrix_b(operation), block, space);
  if (shape.negate_a) negate(space.a, size_t{shape.k} * kPanelLanes);
  if (shape.negate_b) negate(space.b, size_t{shape.k} * shape.n);
}

/// Calls visit(words of the register's lanes, index in d[n][128] of lane 0's element) for all registers of D that hold
/// one element each.
template <typename Visit>
void for_each_register(const WarpgroupMma& operation, const Block& block, uint32_t first_warp, Visit visit) {
  for (uint32_t warp = 0; warp < kWarpgroupWarps; ++warp) {
    std::byte* const registers = block.warps[first_warp + warp].registers;
    const std::vector<RegisterOffset>& d = *operation.d[warp];
    for (uint32_t i = 0; i < d.size(); ++i) {
      const FragmentPlace place = place_in_d(0, i);
      visit(lanes_at<uint32_t>(registers, d[i]), place.column * kPanelLanes + kWarpRows * warp + place.row);
    }
  }
}

/// Does the same for f16, two in a register: visit(half of a lane's register, index in d).
template <typename Visit>
void for_each_half(const WarpgroupMma& operation, const Block& block, uint32_t first_warp, Visit visit) {
  for (uint32_t warp = 0; warp < kWarpgroupWarps; ++warp) {
    std::byte* const registers = block.warps[first_warp + warp].registers;
    const std::vector<RegisterOffset>& d = *operation.d[warp];
    for (uint32_t i = 0; i < 2 * d.size(); ++i) {
      uint16_t* const halves = lanes_at<uint16_t>(registers, d[i / 2]);
      for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
        const FragmentPlace place = place_in_d(lane, i);
        visit(halves[2 * lane + i % 2], place.column * kPanelLanes + kWarpRows * warp + place.row);
      }
    }
  }
}

// The lanes of a register are 8 rows by 4 pairs of columns.
constexpr uint32_t kLaneRows = 8, kLaneColumns = 4;

}  // namespace

void check(const WarpgroupMma& operation, const Block& block) {
  constexpr const char* kA = "wgmma.mma_async, A in shared memory";
  constexpr const char* kB = "wgmma.mma_async, B in shared memory";
  if (operation.shape.single_bits) {
    if (!operation.shape.a_in_registers) check_k_major(operation.a, block, kWarpgroupRows, kSliceBytes, kA);
    check_k_major(operation.b, block, operation.shape.n, kSliceBytes, kB);
    return;
  }
  if (!operation.shape.a_in_registers) check(matrix_a(operation), block, kA);
  check(matrix_b(operation), block, kB);
}

OperationFootprint footprint_of(const WarpgroupMma& operation, const Block& block) {
  OperationFootprint footprint;
  if (operation.shape.single_bits) {
    if (!operation.shape.a_in_registers) {
      append_matrix(operation.a, block, kWarpgroupRows, kSliceBytes, "A", footprint);
    }
    append_matrix(operation.b, block, operation.shape.n, kSliceBytes, "B", footprint);
    return footprint;
  }
  if (!operation.shape.a_in_registers) append_matrix(matrix_a(operation), block, "A", footprint);
  append_matrix(matrix_b(operation), block, "B", footprint);
  return footprint;
}

void WarpgroupAccumulator::read(const WarpgroupMma& operation, const Block& block, uint32_t first_warp) {
  if (operation.shape.d == AccumulatorFormat::f16) {
    for_each_half(operation, block, first_warp, [&](uint16_t half, uint32_t at) { d_[at] = from_f16(half); });
    return;
  }
  uint32_t* const words = reinterpret_cast<uint32_t*>(d_.data());
  for_each_register(operation, block, first_warp, [&](const uint32_t* lanes, uint32_t at) {
    panel_kernels().transpose(lanes, kLaneColumns, kLaneRows, kLaneColumns, words + at, 2 * kPanelLanes);
  });
}

void WarpgroupAccumulator::write_back(const WarpgroupMma& operation, const Block& block, uint32_t first_warp) {
  kept_ = false;
  if (operation.shape.d == AccumulatorFormat::f16) {
    for_each_half(operation, block, first_warp, [&](uint16_t& half, uint32_t at) { half = to_f16(d_[at]); });
    return;
  }
  const uint32_t* const words = reinterpret_cast<const uint32_t*>(d_.data());
  for_each_register(operation, block, first_warp, [&](uint32_t* lanes, uint32_t at) {
    panel_kernels().transpose(words + at, 2 * kPanelLanes, kLaneColumns, kLaneRows, lanes, kLaneColumns);
  });
}

void WarpgroupAccumulator::execute(const WarpgroupMma& operation, const Block& block, uint32_t first_warp) {
  const WarpgroupShape& shape = operation.shape;
  d_.resize(std::max(d_.size(), size_t{shape.n} * kPanelLanes));
  if (!kept_ && operation.accumulate) read(operation, block, first_warp);
  kept_ = true;
  PanelSpace& space = panel_space();
  if (shape.single_bits) {
    multiply_bits(operation, block, space);
    return add_integers(shape, space.d, operation.accumulate, d_.data());
  }
  load_operands(operation, block, space);
  MultiplyShape multiply{kWarpgroupRows, shape.n, shape.k, 0, operation.accumulate, {}};
  if (shape.d == AccumulatorFormat::s32) {
    // The sum over the K of one instruction is below 2^24 in magnitude, and thus exact in fp32.
    multiply.accumulate = false;
    panel_kernels().multiply(space.d, space.a, space.b, multiply);
    return add_integers(shape, space.d, operation.accumulate, d_.data());
  }
  // 8-bit floats are added with fewer bits, and their sums have fewer in f32.
  const bool bytes = bits_of(shape.a) == 8;
  const SumResult result = shape.d == AccumulatorFormat::f16 ? SumResult::odd
                           : bytes                           ? SumResult::f32_13bits
                                                             : SumResult::f32;
  multiply.sum = sum_of(shape.a, shape.b, result, bytes ? 13 : 25);
  panel_kernels().multiply(d_.data(), space.a, space.b, multiply);
  if (shape.d == AccumulatorFormat::f32) return;
  for (uint32_t n = 0; n < shape.n; ++n) {
    for (uint32_t m = 0; m < kWarpgroupRows; ++m) {
      float& value = d_[n * kPanelLanes + m];
      value = from_f16(to_f16(value));
    }
  }
}

}  // namespace stagecraft::emulator::machine
