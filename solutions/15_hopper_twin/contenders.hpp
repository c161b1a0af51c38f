// The kernels that a benchmark measures against each other, by name.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace stagecraft {

/// What A and B are made of.
enum class OperandType { bf16, e4m3 };

/// C (m x n) = A (m x k) * B (n x k) transposed, in device memory.
struct MatrixProduct {
  OperandType type;
  const void *a, *b;  ///< of that type
  __nv_bfloat16* c;
  int64_t m, n, k;
};

/// Starts a product that was prepared.
using Launch = std::function<void(cudaStream_t)>;

/// A kernel that can be measured.
struct Contender {
  std::string name;
  std::function<bool(const MatrixProduct&)> takes;  ///< whether it can compute this shape of this type
  std::function<Launch(const MatrixProduct&)> prepare;
  /// Finds out how best to compute products of this shape, before they are prepared; may be empty.
  std::function<void(const std::vector<MatrixProduct>&)> tune = {};
};

/// All contenders of the program, in the order in which their files were linked.
inline std::vector<Contender>& contenders() {
  static std::vector<Contender> all;
  return all;
}

/// Adds a contender when the program starts.
struct AddContender {
  explicit AddContender(Contender contender) { contenders().push_back(std::move(contender)); }
};

}  // namespace stagecraft
