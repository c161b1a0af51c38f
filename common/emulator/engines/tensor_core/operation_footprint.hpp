// The memory that one operation of the tensor core accesses, for the observers of memory.
#pragma once

#include <vector>

#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::machine {

struct OperationFootprint {
  std::vector<SharedRange> reads{};
  std::vector<MatrixRead> matrices{};  ///< the matrices in `reads`
  std::vector<TensorRange> tensor_reads{}, tensor_writes{};
  bool accumulates = false;  ///< adds to the cells in `tensor_writes`
  ProductShape product{};
};

}  // namespace stagecraft::emulator::machine
