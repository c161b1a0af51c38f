// Puts together what was found in the parts of a grid.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "emulator/state/grid.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::machine {

/// Which part of a grid was stopped, and when. That part ran up to this time; each other part ran at least as far, but
/// how much further is left to chance.
struct StoppedAt {
  size_t part;
  Cycle time;
};

/// Returns what is reported about a launch, in the order of virtual time; findings of one time are in the order of the
/// parts. Among findings with the same identity only the first one is reported, and nothing that other parts have found
/// after the grid was stopped.
std::vector<Diagnostic> merge_findings(std::vector<std::vector<Finding>> found_by_part,
                                       std::optional<StoppedAt> stopped);

/// What no part of a grid has read of what it has written, each place once.
std::vector<std::string> merge_unread(const std::vector<std::vector<WrittenResult>>& written_by_part);

/// Adds the report of an operation that failed after its thread had gone on to the first of the findings that is about
/// the same line, because it follows from that mistake. Returns false when there is none.
bool add_consequence(std::vector<Diagnostic>& findings, const Diagnostic& stop);

/// Leaves out what follows from another report of the launch, and names it there (Diagnostic::consequences): one
/// mistake gives one report. What follows from another has the same likely cause, or is about the same
/// variable and the same threads or about a line that the cause names, or is what stops a kernel whose threads are out
/// of step, if a deadlock and a race share a barrier or a line; and a load of what nothing has written follows from any
/// of them. What follows from a consequence follows from the mistake, too.
/// @param reports  of one launch, in the order of time
void fold_consequences(std::vector<Diagnostic>& reports);

}  // namespace stagecraft::emulator::machine
