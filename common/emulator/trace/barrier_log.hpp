// What happened to the mbarriers of one cluster, in order, with the state of the barrier after each step.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "emulator/state/grid.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::trace {

/// A barrier that was initialised, or waited for. A barrier that is initialised again at the same address is the same.
struct LoggedBarrier {
  uint32_t block = 0;   ///< its rank in the cluster
  uint32_t offset = 0;  ///< in the block's shared memory
  std::string name;     ///< "full[1]"
};

/// One thing that happened to a barrier.
struct BarrierStep {
  machine::BarrierEventKind kind = machine::BarrierEventKind::init;
  machine::Cycle at = 0;
  uint32_t barrier = 0;    ///< number in the log
  uint64_t amount = 0;     ///< arrivals or bytes; of `init` the arrivals of a phase
  int32_t warp = -1;       ///< the row of the warp that did it; -1: an asynchronous engine
  uint32_t pc = 0;         ///< its instruction
  uint64_t operation = 0;  ///< of an asynchronous engine: AsyncOperation::number
  // The barrier afterwards.
  uint64_t phase = 0;
  uint32_t pending = 0;
  int64_t bytes = 0;
};

class BarrierLog {
 public:
  /// Takes note of an event. `warp` is the row of the warp that caused it, or -1.
  void add(const machine::BarrierEvent& event, int32_t warp);
  /// The number of a barrier, which is new or has one.
  int32_t number_of(const machine::Block& block, uint32_t offset);

  const std::vector<LoggedBarrier>& barriers() const { return barriers_; }
  const std::vector<BarrierStep>& steps() const { return steps_; }

 private:
  static constexpr size_t kMostSteps = 1'000'000;  // later ones are not recorded

  std::vector<LoggedBarrier> barriers_;
  std::vector<BarrierStep> steps_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> numbers_;
};

}  // namespace stagecraft::emulator::trace
