// Who issued an asynchronous operation: kept until it completes, so that what goes wrong then can be told to the line
// that caused it.
#pragma once

#include <string>

#include "emulator/machine/grid.hpp"

namespace stagecraft::emulator::units {

struct Origin {
  const machine::Grid* grid = nullptr;
  machine::Extent3 block{0, 0, 0};
  uint32_t warp = 0, lane = 0, pc = 0;

  static Origin of(const machine::Fragment& fragment, uint32_t lane);
  /// "issued by block (0,0,0) warp 1 lane 0 at gemm.cu:88, cp.async.bulk..."
  std::string describe() const;
};

/// Runs the completion of an operation; a Fault from it gains a line that names the origin.
template <typename Action>
void on_behalf_of(const Origin& origin, Action&& action) {
  try {
    action();
  } catch (machine::Fault& fault) {
    fault.details.push_back(origin.describe());
    throw;
  }
}

}  // namespace stagecraft::emulator::units
