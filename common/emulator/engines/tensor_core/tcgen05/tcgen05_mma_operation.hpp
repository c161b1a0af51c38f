// One tcgen05.mma: its operands, its check and its footprint, and its execution (tcgen05_mma_execution.cpp).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "emulator/engines/tensor_core/matrix_descriptors.hpp"
#include "emulator/engines/tensor_core/matrix_operand.hpp"
#include "emulator/engines/tensor_core/operation_footprint.hpp"
#include "emulator/state/observer.hpp"
#include "emulator/state/tensor_units.hpp"

namespace stagecraft::emulator::machine {

struct Tcgen05Mma {
  InstructionDescriptor shape;
  bool weight_stationary = false;  ///< the .ws form
  bool a_in_tensor_memory = false;
  bool accumulate = false;              ///< add to D instead of overwriting it (enable-input-d)
  uint32_t scale_d = 0;                 ///< D is multiplied by 2^-scale_d before products are added to it
  uint32_t d = 0;                       ///< tensor memory address
  uint32_t a_address = 0;               ///< tensor memory address, if A is there
  SharedDescriptor a, b;                ///< A's is used if A is in shared memory
  std::array<uint32_t, 8> disabled{};   ///< bit i of word w: lane 32 * w + i of D is not written; 4 words per block
  uint32_t scales_a = 0, scales_b = 0;  ///< tensor memory addresses of scale factors (block-scaled kinds)
  uint32_t metadata = 0;                ///< tensor memory address, if A is sparse
  uint32_t scales_per_slice = 0;        ///< scale factors per row along the K of one instruction: 1, 2 or 4
};

inline constexpr uint32_t kOperandColumns = 8;  ///< of A in tensor memory: 32 bytes along K

/// Returns the rows of A and D that each block has; the other function, the columns of B that it has.
uint32_t rows_of_block(const Tcgen05Mma& operation);
uint32_t columns_of_block(const Tcgen05Mma& operation);
/// Returns the layout of D in the tensor memory of each block, and the columns that D has there.
AccumulatorLayout layout_of(const Tcgen05Mma& operation);
uint32_t columns_of_d(const Tcgen05Mma& operation);
/// Returns the part of A or B in each block's shared memory.
SharedMatrix matrix_a(const Tcgen05Mma& operation);
SharedMatrix matrix_b(const Tcgen05Mma& operation);
/// Returns the first cell of scale factors. Their address has a byte offset in its upper two bits (CUTLASS), which the
/// instruction does not read.
TensorCell scale_base(uint32_t address);

/// Returns the lane of tensor memory that a panel lane of A stands for: of its copy there, its D and its metadata.
uint32_t lane_of_row(const Tcgen05Mma& operation, uint32_t panel_lane);

/// Throws Fault unless the chip could execute the operation: the types must allow the majors and swizzles, operands
/// must be within each block's shared memory, and addresses within the tensor memory that each block has allocated.
/// Here and below, the number of units must be `operation.shape.blocks`.
void check(const Tcgen05Mma& operation, const TensorUnits& units);

/// Returns the shared memory and tensor memory that an operation reads and writes.
OperationFootprint footprint_of(const Tcgen05Mma& operation, const TensorUnits& units);

/// Executes an operation that `check` has accepted; reads the operands now.
/// @param observed  who issued it, where its scale factors are to be looked at for observers; else null
void execute(const Tcgen05Mma& operation, const TensorUnits& units, const NanScales* observed = nullptr);

}  // namespace stagecraft::emulator::machine
