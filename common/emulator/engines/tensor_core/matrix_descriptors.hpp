// The descriptors of tcgen05.mma, tcgen05.cp and wgmma: of an operand in shared memory, and of the instruction.
// Decoding checks everything that the chip requires, and throws a Fault that names the wrong field, its value and what
// is legal. Sources: PTX ISA, "Shared memory descriptor", "Instruction descriptor", "Matrix shape"; CUTLASS,
// cute/arch/mma_sm100_desc.hpp.
#pragma once

#include <cstdint>
#include <string_view>

#include "emulator/numerics/narrow_floats.hpp"
#include "emulator/state/tensor_layouts.hpp"

namespace stagecraft::emulator::machine {

/// Where a matrix is in the shared memory of its block. All sizes are in bytes.
struct SharedDescriptor {
  uint32_t start = 0;
  uint32_t leading = 0;
  uint32_t stride = 0;
  uint32_t base_offset = 0;  ///< phase of the swizzle pattern, in lines of 128 bytes
  Swizzle swizzle = Swizzle::none;
};

/// Decodes the descriptor of an operand. `what` names it in messages: "tcgen05.mma, descriptor of A".
SharedDescriptor decode_shared_descriptor(uint64_t bits, std::string_view what);

/// Decodes the descriptor of wgmma on sm_90a, which has the swizzle elsewhere and no version.
SharedDescriptor decode_warpgroup_descriptor(uint64_t bits, std::string_view what);

enum class MmaKind : uint8_t { f16, tf32, f8f6f4, i8, mxf8f6f4, mxf4, mxf4nvf4 };

std::string_view name_of(MmaKind kind);  ///< "kind::f16"
constexpr bool is_block_scaled(MmaKind kind) { return kind >= MmaKind::mxf8f6f4; }

/// Whether two rows of a sparse A share the cells of their metadata (`metadata_place`), and a selector chooses a
/// column.
constexpr bool has_paired_metadata(MmaKind kind) { return kind == MmaKind::f16 || kind == MmaKind::tf32; }

enum class AccumulatorFormat : uint8_t { f16, f32, s32 };

/// The shape and the formats of a tcgen05.mma.
struct InstructionDescriptor {
  MmaKind kind = MmaKind::f16;
  ElementFormat a = ElementFormat::f16, b = ElementFormat::f16;
  AccumulatorFormat d = AccumulatorFormat::f32;
  uint32_t m = 128, n = 8;
  uint32_t blocks = 1;    ///< cta_group: blocks that share the work, each with its part of A's rows and of B's columns
  uint32_t k = 16;        ///< elements; always 32 bytes of A in memory
  bool sparse = false;    ///< A has half of its elements in memory, and metadata that says which
  uint32_t selector = 0;  ///< sparsity selector: the column of metadata, from their address on (f16 and tf32)
  bool negate_a = false, negate_b = false;
  bool a_mn_major = false, b_mn_major = false;
  bool saturate = false;                    ///< kind::i8: clamp D instead of wrapping around
  uint32_t scale_id_a = 0, scale_id_b = 0;  ///< block-scaled: byte of the first scale factor in its cell
  bool scale_ue4m3 = false;                 ///< scale factors are ue4m3 instead of ue8m0

  uint32_t stored_k() const { return sparse ? k / 2 : k; }  ///< elements of A's rows in memory
};

/// Decodes an instruction descriptor. `ws`: the weight-stationary form; `pair`: cta_group::2; `sparse`: the .sp form.
/// The first two have other shapes, and exclude each other.
InstructionDescriptor decode_instruction_descriptor(uint32_t bits, MmaKind kind, bool ws, bool pair = false,
                                                    bool sparse = false);

}  // namespace stagecraft::emulator::machine
