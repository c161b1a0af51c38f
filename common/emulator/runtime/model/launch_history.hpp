// What launches leave for those that follow them, and for the end of the program.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "emulator/checks/global_memory/global_history.hpp"
#include "emulator/exploration/exploration.hpp"
#include "emulator/timing/memory_system.hpp"

namespace stagecraft::emulator::runtime {

/// What nothing has read of what a kernel wrote in shared and tensor memory.
struct UnreadResults {
  std::string kernel;
  std::vector<std::string> results;
};

/// Values that the program has copied to the host and that are NaN.
struct CopiedNan {
  std::string from;    ///< the allocation; empty: there are none
  uint64_t first = 0;  ///< its byte there
  uint64_t count = 0;
  bool fresh = false;  ///< the first is what fresh memory holds
};

struct LaunchHistory {
  uint64_t count = 0;  ///< launches of kernels so far
  exploration::Exploration exploration;
  checks::GlobalHistory global_memory;   ///< used where global memory is checked
  std::optional<timing::L2Contents> l2;  ///< of the model of the chip's speed, after the latest launch
  UnreadResults unread;                  ///< of the latest launch
  CopiedNan nan;                         ///< of the latest copy that has some
  std::set<std::string> noted_kernels;   ///< of which it was said that setmaxnreg has no effect
  /// %gridid of the nodes of graphs, by their works, where replays repeat it.
  std::unordered_map<const void*, uint64_t> grid_ids;

  uint64_t thread_instructions = 0;  ///< of all kernels so far, counted per active lane
  double seconds_in_kernels = 0;     ///< that the host took to emulate them
};

}  // namespace stagecraft::emulator::runtime
