// A timeline made ready to be shown: rows with names, waits in one piece with what ended them, and every barrier step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/trace/source_text.hpp"
#include "emulator/trace/timeline.hpp"

namespace stagecraft::emulator::trace {

/// What ended a wait: a warp, or an operation of a unit that a warp had issued.
struct Ender {
  int32_t step = -1;  ///< the barrier step that ended the phase; -1: no mbarrier
  int32_t warp = -1;  ///< the row of the warp that did it, or that issued the operation; -1: not known
  int32_t place = -1;
  int32_t track = -1, operation = -1;  ///< in Run::tracks; for an arrival, what it followed; -1: the warp did it itself
  std::string what;                    ///< "cp.async.bulk", "tcgen05.commit"; empty for a warp
};

struct RunWait {
  machine::Cycle begin = 0, end = 0;
  std::string what;
  int32_t place = -1;    ///< in Run::places
  int32_t barrier = -1;  ///< in Timeline::barriers
  uint64_t phase = 0;
  bool open = false;
  Ender ender;
};

struct RunWarp {
  uint32_t block = 0, warp = 0;
  std::string name;  ///< "produce", "warp 1, multiplies"
  machine::Cycle begin = 0, end = 0;
  std::vector<RunWait> waits;
};

/// Operations of a unit that do not overlap. Copies overlap: they have as many tracks as they need.
struct RunTrack {
  uint32_t block = 0;
  std::string unit;  ///< "TMA", "tensor core"
  struct Operation {
    const OperationSpan* span;
    int32_t place;
  };
  std::vector<Operation> operations;
};

struct Run {
  const Timeline* timeline = nullptr;
  std::vector<SourcePlace> places;
  std::vector<RunWarp> warps;
  std::vector<RunTrack> tracks;
  std::vector<int32_t> arrival_places;  ///< parallel to Timeline::arrivals
  std::vector<int32_t> step_places;     ///< parallel to Timeline::steps; -1 for those of engines
  std::string report;                   ///< what was found about the launch; empty if nothing
};

/// Prepares a timeline. Reads the kernel's source, where it is, for the names of roles and the text of lines.
/// @param report  the text of the launch's reports.
Run prepare_run(const Timeline& timeline, std::string report);

}  // namespace stagecraft::emulator::trace
