// Runs a GEMM on random matrices, and compares every element of the result with the host's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "stagecraft/gemm/plan.hpp"

namespace stagecraft {

/// One run.
struct GemmCase {
  GemmProblem problem{};
  GemmRequest request{};
  float alpha = 1, beta = 1, scale = 1;
  uint64_t seed = 1;
  std::vector<int> group_rows{};  ///< of masked groups
};

/// What it gave.
struct GemmVerdict {
  size_t elements = 0;            ///< of D, of all batches
  size_t wrong = 0;               ///< those further from the reference than rounding explains
  std::string worst{};            ///< the worst of them in words
  std::string mistake{};          ///< what D is, if a usual mistake makes it, and which elements are wrong
  double max_relative_error = 0;  ///< relative to the reference, or to its root mean square where that is larger
  double seconds = 0;             ///< from the launch to the end of the kernel
};

/// The strides of the case filled in, as a plan does; those of the operands padded to what a tensor map can address.
GemmProblem with_strides(GemmProblem problem);

/// The type of the result where nobody says: the operands' type, f32 for tf32, and bf16 for types of few bits, because
/// those need a scale that only the caller knows.
DataType usual_result(DataType operand);

/// "300x77x200 bf16", or "300x77x200, 3 times, e4m3 x e5m2 -> bf16".
std::string describe(const GemmProblem& problem);

/// The command that runs the same.
std::string command_of(const GemmCase& run);

/// Runs the plan that was chosen for the case with its strides filled in, and compares.
/// @throws std::invalid_argument  with the plan's message, for matrices that it refuses.
/// @throws harness::CudaError     when the kernel does not end well.
GemmVerdict verify(const GemmCase& run, const GemmPlan& plan);

}  // namespace stagecraft
