// How far a grid has come: for a run that is interrupted.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "emulator/state/grid.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::machine {

/// How far a part of a grid has come.
struct Progress {
  /// Warps whose lanes are at one place, or wait there.
  struct Position {
    uint64_t warps = 0;
    Extent3 block{0, 0, 0};  ///< of the first of them
    uint32_t warp = 0;
  };
  uint64_t blocks_done = 0;
  uint64_t blocks_running = 0;                ///< that have started and not ended
  std::map<std::string, Position> positions;  ///< by the source line and the instruction; where it was interrupted
};

/// Where the warps of the resident blocks of a part are.
std::map<std::string, Progress::Position> positions_of(const Grid& grid);

/// Says where a warp of the cluster that started first is: "warp 0 of block (0, 0, 0) at sum.cu:41". Empty where no
/// cluster is resident.
std::string place_of_a_warp(const Grid& grid);

/// Completes the report about a grid of `blocks` that was interrupted: how far all its parts have come.
void add_progress(Diagnostic& report, const std::vector<Progress>& parts, uint64_t blocks);

}  // namespace stagecraft::emulator::machine
