// What one operation of the tensor unit touches, for the observers of memory.
#pragma once

#include <vector>

#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::units {

struct OperationFootprint {
  std::vector<machine::SharedRange> reads{};
  std::vector<machine::MatrixRead> matrices{};  ///< what `reads` are
  std::vector<machine::TensorRange> tensor_reads{}, tensor_writes{};
  bool accumulates = false;  ///< adds to what `tensor_writes` hold
};

}  // namespace stagecraft::emulator::units
