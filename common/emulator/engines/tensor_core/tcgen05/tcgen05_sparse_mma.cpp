// The sparse A of tcgen05.mma.sp: what its metadata say, and factors of B that do not meet an element of it.
//
// A has a chunk of 2 (tf32), 4 or 8 (in pairs: 4-bit elements of mxf4 and mxf4nvf4) elements along K for each 4 bits of
// metadata, and half of them are in memory. The sums are those of the dense kinds, of as many products: A is spread to
// all of K, and products with zero have no part in a sum.
//
// Sources: PTX ISA, "Sparse matrices"; CUTLASS, tmem_e_frg (mma_traits_sm100_frag.hpp) and its compressor, for where
// metadata are. PTX shows the places by figures.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "emulator/engines/tensor_core/panel_kernels.hpp"
#include "emulator/engines/tensor_core/tcgen05/tcgen05_accumulator.hpp"
#include "emulator/state/fault.hpp"
#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

namespace {

/// How A is divided along K.
struct Chunks {
  explicit Chunks(MmaKind kind)
      : together(kind == MmaKind::mxf4 || kind == MmaKind::mxf4nvf4 ? 2 : 1),
        indices(kind == MmaKind::tf32 ? 1 : 2),
        elements(2 * indices * together) {}

  uint32_t together;  ///< adjacent elements that have one index
  uint32_t indices;   ///< per chunk
  uint32_t elements;  ///< per chunk, of which half are in memory
};

/// Whether the four bits of a chunk are among those that PTX lists.
bool is_legal(uint32_t code, const Chunks& chunks) {
  constexpr uint32_t kOfOne = 1u << 0b0100 | 1u << 0b1110;
  constexpr uint32_t kOfTwo =
      1u << 0b0100 | 1u << 0b1000 | 1u << 0b1100 | 1u << 0b1001 | 1u << 0b1101 | 1u << 0b0110 | 1u << 0b1110;
  return ((chunks.indices == 1 ? kOfOne : kOfTwo) >> code & 1) != 0;
}

/// The index of element (or pair) `i` of a chunk. tf32 counts halves of its elements.
uint32_t index_of(uint32_t code, uint32_t i, const Chunks& chunks) {
  return chunks.indices == 1 ? (code & 3) / 2 : code >> 2 * i & 3;
}

[[noreturn]] void refuse(const Tcgen05Mma& operation, const TensorUnit& unit, const Chunks& chunks, uint32_t row,
                         uint32_t chunk, uint32_t code, TensorCell cell, uint32_t shift) {
  const uint32_t first = code & 3, second = code >> 2 & 3;
  const std::string_view name = chunks.together == 2 ? "pair" : "element";
  const std::string why =
      chunks.indices == 1 ? std::string("which is no position")
      : first == second   ? fmt::format("both {}s have index {}", name, first)
                          : fmt::format("the second {}'s index, {}, comes before the first's, {}", name, second, first);
  std::vector<std::string> details{
      fmt::format("they are bits {}:{} of the cell in lane {}, column {} of tensor memory, which is 0x{:08x}",
                  shift + 3, shift, cell.lane, cell.column, unit.memory->cell(cell))};
  if (chunks.indices == 1) {
    details.emplace_back("legal for kind::tf32: 0b0100 for the first of two elements, 0b1110 for the second");
  } else {
    details.push_back(
        fmt::format("legal for {}: 0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110, and 0b0110; the index of the first "
                    "{} is in bits 1:0, that of the second in bits 3:2",
                    name_of(operation.shape.kind), name));
  }
  if (operation.shape.blocks == 2) details.push_back(fmt::format("in the block with rank {}", unit.block->rank));
  throw Fault(
      FaultKind::illegal_instruction,
      fmt::format("tcgen05.mma.sp: the metadata of row {} of A, for elements {} to {} along K, are 0b{:04b}: {}", row,
                  chunk * chunks.elements, (chunk + 1) * chunks.elements - 1, code, why),
      std::move(details));
}

/// The metadata of an operation in the tensor memory of one block.
class Metadata {
 public:
  Metadata(const Tcgen05Mma& operation, const TensorUnit& unit)
      : operation_(operation),
        unit_(unit),
        chunks_(operation.shape.kind),
        paired_(has_paired_metadata(operation.shape.kind)),
        first_column_(cell_at(operation.metadata).column + operation.shape.selector) {}

  /// Spreads the row in one lane of the panel `stored`, and notes in `taken` where its elements are.
  void spread(uint32_t lane, const float* stored, PanelSpace& space) const {
    const uint32_t rows = rows_of_block(operation_), per_chunk = chunks_.elements / 2;
    std::fill_n(space.taken[lane], 2, uint64_t{0});
    for (uint32_t chunk = 0; chunk < operation_.shape.k / chunks_.elements; ++chunk) {
      MetadataPlace place = metadata_place(paired_, lane_of_row(operation_, lane), chunk);
      place.cell.column += first_column_;
      const uint32_t code = unit_.memory->cell(place.cell) >> place.shift & 15;
      const float* const elements = stored + chunk * per_chunk * kPanelLanes + lane;
      if (unit_.memory->cell(place.cell) == TensorMemory::kPoison) {
        // Nothing has written it, which is reported as for other operands (checks/tensor_memory/): sums become NaN.
        if (operation_.shape.kind != MmaKind::i8) {
          space.a[chunk * chunks_.elements * kPanelLanes + lane] = std::numeric_limits<float>::quiet_NaN();
        }
        continue;
      }
      if (!is_legal(code, chunks_)) {
        // CUTLASS's compressor leaves 0 for what only fills up a tile.
        for (uint32_t i = 0; i < per_chunk; ++i) {
          if (elements[i * kPanelLanes] == 0) continue;
          refuse(operation_, unit_, chunks_, lane % rows, chunk, code, place.cell, place.shift);
        }
        continue;
      }
      for (uint32_t i = 0; i < per_chunk; ++i) {
        const uint32_t k = chunk * chunks_.elements + i % chunks_.together +
                           index_of(code, i / chunks_.together, chunks_) * chunks_.together;
        space.a[k * kPanelLanes + lane] = elements[i * kPanelLanes];
        space.taken[lane][k / 64] |= uint64_t{1} << k % 64;
      }
    }
  }

 private:
  const Tcgen05Mma& operation_;
  const TensorUnit& unit_;
  Chunks chunks_;
  bool paired_;
  uint32_t first_column_;
};

}  // namespace

void spread_sparse_a(const Tcgen05Mma& operation, const TensorUnit& unit, PanelSpace& space) {
  const InstructionDescriptor& shape = operation.shape;
  const uint32_t rows = rows_of_block(operation), copies = column_groups(layout_of(operation));
  float* const stored = space.d;  // no sum is there yet
  std::memcpy(stored, space.a, size_t{shape.stored_k()} * kPanelLanes * sizeof(float));
  if (!operation.a_in_tensor_memory) {
    // Rows that are several times in the lanes have metadata of their own in each.
    for (uint32_t k = 0; k < shape.stored_k(); ++k) {
      float* const row = stored + k * kPanelLanes;
      for (uint32_t copy = 1; copy < copies; ++copy) std::copy_n(row, rows, row + copy * rows);
    }
  }
  std::fill_n(space.a, size_t{shape.k} * kPanelLanes, 0.0f);
  const Metadata metadata(operation, unit);
  for (uint32_t lane = 0; lane < copies * rows; ++lane) metadata.spread(lane, stored, space);
}

void SpecialFactors::take_out(const InstructionDescriptor& shape, PanelSpace& space) {
  factors_.clear();
  for (uint32_t i = 0; i < shape.n * shape.k; ++i) {
    if (std::isfinite(space.b[i])) continue;
    factors_.push_back({i / shape.k, i % shape.k, space.b[i]});
    space.b[i] = 0;
  }
}

void SpecialFactors::add_to(const Tcgen05Mma& operation, const TensorAccumulator& accumulator,
                            const PanelSpace& space) const {
  const InstructionDescriptor& shape = operation.shape;
  const uint32_t columns = shape.n / column_groups(layout_of(operation));
  for (const Factor& factor : factors_) {
    const uint32_t first_lane = panel_lane(operation, factor.n / columns);
    for (uint32_t m = 0; m < rows_of_block(operation); ++m) {
      const uint32_t lane = first_lane + m;
      if ((space.taken[lane][factor.k / 64] >> factor.k % 64 & 1) == 0) continue;
      uint32_t& cell = accumulator.run(m / kAccumulatorRun * kAccumulatorRun, factor.n)[m % kAccumulatorRun];
      const float product = space.a[factor.k * kPanelLanes + lane] * factor.value;
      if (shape.d == AccumulatorFormat::f16) {
        cell = to_f16(from_f16(cell & 0xffff) + product);
      } else {
        const float sum = std::bit_cast<float>(cell) + product;
        cell = std::isnan(sum) ? 0x7fffffff : std::bit_cast<uint32_t>(sum);
      }
    }
  }
}

}  // namespace stagecraft::emulator::machine
