// The classes into which the chip's model of time parts instructions.
#pragma once

#include <cstdint>

namespace stagecraft::emulator::machine {

/// What an instruction costs is a matter of its class (timing::ChipModel::costs).
enum class InstructionClass : uint8_t {
  free,           ///< needs no machine instruction: moves between registers, conversions of addresses
  add,            ///< 32-bit integer additions
  add_wide,       ///< 64-bit ones
  logic,          ///< logic, shifts, comparisons, selections, minima
  multiply,       ///< 32-bit integer products
  multiply_wide,  ///< products of 64 bits
  float32,
  float64,
  half,              ///< packed 16-bit floats
  special,           ///< exponentials, roots, sines, counts of bits
  special_scaled,    ///< the same for any size of number, without .ftz: scaled before and after
  special_product,   ///< and a product: sines, approximate quotients
  convert,           ///< conversions from floats to integers, and between floats
  convert_to_float,  ///< from integers of 32 bits
  convert_half,      ///< from 32-bit floats to 16-bit ones
  shuffle,
  vote,
  match,                    ///< match.any, match.all
  reduce,                   ///< redux
  warp_matrix,              ///< mma.sync with sums of 32-bit floats
  warp_matrix_short,        ///< the same of half the depth: of 8 for 16-bit numbers, of 16 for bytes
  warp_matrix_quick,        ///< with block scales, or sums of 16-bit floats or integers: GeForce is faster there
  warp_matrix_quick_short,  ///< the same of half the depth
  control,                  ///< branches, calls
  memory,                   ///< loads and stores; how long they take is decided by the memory
  barrier,                  ///< instructions on barriers, and those that start asynchronous operations
  fence,
  fewer_registers,  ///< setmaxnreg.dec
  more_registers,   ///< setmaxnreg.inc
  // Of each of these ptxas makes some tens of machine instructions.
  divide,  ///< quotients and remainders of 32-bit integers
  divide_signed,
  divide_wide,  ///< of 64 bits
  divide_wide_signed,
  divide_float,       ///< div.rn.f32
  divide_full,        ///< div.full.f32
  reciprocal_float,   ///< rcp.rn.f32
  root_float,         ///< sqrt.rn.f32
  divide_double,      ///< div.rn.f64
  reciprocal_double,  ///< rcp.rn.f64
  root_double,        ///< sqrt.rn.f64, rsqrt.approx.f64
  other,              ///< one machine instruction of which nothing else is known
  count
};

}  // namespace stagecraft::emulator::machine
