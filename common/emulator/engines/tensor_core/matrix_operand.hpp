// Checks matrix operands, and decodes them to panels of floats.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "emulator/engines/tensor_core/matrix_descriptors.hpp"
#include "emulator/engines/tensor_core/operation_footprint.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::machine {
struct Block;
}

namespace stagecraft::emulator::machine {

/// The part of a matrix in shared memory that one instruction reads.
struct SharedMatrix {
  SharedDescriptor place;
  ElementFormat format = ElementFormat::f16;
  bool mn_major = false;
  uint32_t rows = 0;        ///< of A, or columns of B
  uint32_t k = 0;           ///< elements along K
  uint32_t row_bytes = 32;  ///< along K, of a K-major matrix; 64 of B if A is sparse
};

/// Throws Fault unless the format allows the major-ness and swizzle, and all bytes are in the block's shared memory.
void check(const SharedMatrix& matrix, const Block& block, std::string_view what);

/// Adds a matrix to a footprint, with the addresses in the block that it occupies. `name`: "A".
void append_matrix(const SharedMatrix& matrix, const Block& block, const char* name, OperationFootprint& footprint);
/// Does the same for a K-major matrix of `rows` rows of `row_bytes` bytes.
void append_matrix(const SharedDescriptor& place, const Block& block, uint32_t rows, uint32_t row_bytes,
                   const char* name, OperationFootprint& footprint);

/// Scratch memory of the tensor core's arithmetic; one per host thread.
struct PanelSpace;
PanelSpace& panel_space();

struct alignas(64) PanelSpace {
  float a[128 * 128];       ///< [k][128]
  float b[256 * 128];       ///< [n][k]
  float rows[64 * 256];     ///< an MN-major B before it is transposed: [k][256]
  float d[256 * 128];       ///< accumulators that are not fp32: [n][128]
  uint32_t raw[256 * 16];   ///< bytes of an operand in order
  uint32_t cells[8 * 128];  ///< A's rows as columns of 32-bit cells
  uint64_t taken[128][2];   ///< of a sparse A, by panel lane: bit k of word k / 64: there is an element at k
};

/// Decodes A from shared memory to `space.a`.
void load_a(const SharedMatrix& matrix, const Block& block, PanelSpace& space);
/// Decodes A from 8 columns of 128 cells to `space.a`.
void load_a(const uint32_t* cells, ElementFormat format, PanelSpace& space);
/// Decodes B from shared memory to the columns of `space.b` from `first_column` on.
void load_b(const SharedMatrix& matrix, const Block& block, PanelSpace& space, uint32_t first_column = 0);

/// Copies `rows` rows of `row_bytes` bytes (a multiple of 16) of a K-major matrix, in order, to `out`.
void gather_k_major(const SharedDescriptor& place, const Block& block, uint32_t rows, uint32_t row_bytes, uint8_t* out);
/// Throws Fault unless all bytes of such a matrix are in the block's shared memory.
void check_k_major(const SharedDescriptor& place, const Block& block, uint32_t rows, uint32_t row_bytes,
                   std::string_view what);

}  // namespace stagecraft::emulator::machine
