// What one operation of the tensor unit touches, for the observers of memory.
#pragma once

#include <vector>

#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::machine {

struct OperationFootprint {
  std::vector<SharedRange> reads{};
  std::vector<MatrixRead> matrices{};  ///< what `reads` are
  std::vector<TensorRange> tensor_reads{}, tensor_writes{};
  bool accumulates = false;  ///< adds to what `tensor_writes` hold
};

}  // namespace stagecraft::emulator::machine
