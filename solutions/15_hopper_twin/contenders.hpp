// The kernels that a benchmark measures against each other, by name.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace stagecraft {

/// C (m x n) = A (m x k) * B (n x k) transposed, in device memory.
struct MatrixProduct {
  const __nv_bfloat16 *a, *b;
  __nv_bfloat16* c;
  int64_t m, n, k;
};

/// Starts a product that was prepared.
using Launch = std::function<void(cudaStream_t)>;

/// A kernel that can be measured.
struct Contender {
  std::string name;
  std::function<bool(int64_t m, int64_t n, int64_t k)> takes;  ///< whether it can compute this shape
  std::function<Launch(const MatrixProduct&)> prepare;
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
