// Recognises turns of a warp that lead back to where they began: those of a loop that asks for what has not happened.
//
// A warp that is as it was some turns ago, and has done nothing since that others can notice, has done nothing at all:
// a run without these turns is the same run. And as long as nothing happens, its next turns would be the same again. So
// a search through all interleavings needs none of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "emulator/scheduling/warp_snapshot.hpp"
#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::exploration {

/// Watches the warps of one run whose turns end before each instruction that others can notice.
class IdleTurns {
 public:
  /// Must be called after each turn of a warp.
  /// @param noticed  whether others can notice something that it did.
  /// @return how many of its last turns have changed nothing, the warp included; 0: none, as far as is known
  uint32_t turn_ended(const machine::Warp& warp, bool noticed);
  /// Whether the next turns of the warp will change nothing, the warp included.
  bool will_be_idle(const machine::Warp& warp) const;
  /// Must be called for each warp of a block that starts: an earlier one may have had its place in memory.
  void forget(const machine::Warp& warp) { records_.erase(&warp); }

 private:
  struct State {
    uint64_t turn = 0;     ///< of the warp
    uint64_t effects = 0;  ///< of the grid
    machine::WarpSnapshot snapshot;
  };
  struct Record {
    uint64_t turns = 0;
    std::vector<State> states;  ///< at the ends of turns since others noticed one
    size_t known = 0;           ///< so many of `states`; the others are kept for their memory
    bool repeats = false;       ///< the last turns led from states[0] to itself, and nothing happened meanwhile
  };

  std::unordered_map<const machine::Warp*, Record> records_;
};

}  // namespace stagecraft::emulator::exploration
