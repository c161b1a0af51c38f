// What an operation takes, on the units of the multiprocessors that it uses.
#pragma once

#include <vector>

#include "emulator/timing/chip_model.hpp"
#include "emulator/timing/memory_system.hpp"
#include "emulator/timing/replay_state.hpp"

namespace stagecraft::emulator::timing {

/// When an operation that begins now has read its source, and when it is done.
struct OperationTimes {
  double source_read = 0, done = 0;
};

/// Cycles of the tensor core of each multiprocessor, and of its shared memory, that a product takes.
struct ProductCycles {
  double tensor = 0, port = 0;
};
ProductCycles cycles_of_product(const Operation& operation);

class Engines {
 public:
  Engines(const ChipModel& chip, MemorySystem& memory) : chip_(chip), memory_(memory) {}

  /// A copy of the copy engine, to be asked for.
  CopyUnderWay begin_copy(double now, const RunningCluster& cluster, const Operation& operation);
  /// Asks for the next lines of a copy. Returns when the engine can ask for more, of this or of the next.
  double ask_for_lines(double now, Multiprocessor& issuer, CopyUnderWay& copy);
  /// Does any other operation of a cluster that a warp of this number issues.
  OperationTimes start(double now, RunningCluster& cluster, const Operation& operation, uint32_t warp);
  /// Does a warp's loads or stores. Returns when their data are in its registers.
  double access(double now, Multiprocessor& place, const ClusterTrace& trace, const Access& access);

  double operations() const { return operations_; }
  double bytes() const { return bytes_; }

 private:
  OperationTimes copy_by_threads(double now, RunningCluster& cluster, const Operation& operation);
  OperationTimes copy_out(double now, RunningCluster& cluster, const Operation& operation);
  OperationTimes multiply(double now, RunningCluster& cluster, const Operation& operation);
  const std::vector<LineRequest>& lines_of(const ClusterTrace& trace, const Operation& operation);

  const ChipModel& chip_;
  MemorySystem& memory_;
  std::vector<LineRequest> lines_;
  std::vector<double*> arriving_;  ///< when the lines that L1 lacks will be there
  double operations_ = 0, bytes_ = 0;
};

}  // namespace stagecraft::emulator::timing
