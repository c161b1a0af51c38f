// The kernels that a benchmark measures against each other, by name.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "stagecraft/hopper_gemm/product.hpp"

namespace stagecraft {

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
