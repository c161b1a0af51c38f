#include "emulator/checks/synchronisation/register_count_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "emulator/checks/reporting/place.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/state/warpgroup.hpp"

namespace stagecraft::emulator::checks {

using machine::Block;
using machine::Fragment;
using machine::kWarpgroupWarps;
using machine::RegisterChange;

namespace {

const char* const kRule =
    "setmaxnreg is .aligned: all four warps of a warpgroup must execute the same one, and synchronise before the next";

std::string spell(bool increases, uint32_t count) {
  return fmt::format("setmaxnreg.{} {}", increases ? "inc" : "dec", count);
}

}  // namespace

void RegisterCountCheck::grid_started(const machine::Grid& grid) {
  changes_.clear();
  findings_.start(*grid.kernel);
}

void RegisterCountCheck::report(const Block& block, uint32_t before_pc, uint32_t now_pc, machine::Diagnostic finding) {
  auto identity = findings_.claim("setmaxnreg", before_pc, now_pc);
  if (!identity) return;
  finding.kind = "setmaxnreg misuse";
  findings_.add(machine::time_of(*block.cluster), std::move(*identity), std::move(finding));
}

void RegisterCountCheck::registers_changed(const RegisterChange& event) {
  const Fragment& fragment = *event.fragment;
  const Block& block = fragment.block();
  const machine::Kernel& kernel = *fragment.grid().kernel;
  Changes& changes = changes_[&block];
  changes.resize(block.warps.size());
  const uint32_t warp = fragment.warp->index;
  std::vector<Change>& mine = changes[warp];
  const std::string what = spell(event.increases, event.count);
  machine::Diagnostic finding;
  finding.place = place_of(fragment);
  if (event.before != 0 && event.count != event.before && (event.count > event.before) != event.increases) {
    finding.message = fmt::format("{}: the warp has {} registers per thread, which is {}", what, event.before,
                                  event.increases ? "more" : "fewer");
    finding.details = {
        ".inc must not ask for fewer registers than the warp has, nor .dec for more: the behaviour is undefined"};
    finding.likely_cause =
        fmt::format("use setmaxnreg.{} {}, or another number", event.increases ? "dec" : "inc", event.count);
    report(block, fragment.pc, fragment.pc, finding);
  }
  finding.details = {kRule};
  const uint32_t first = warp / kWarpgroupWarps * kWarpgroupWarps;
  const auto end = std::min<uint32_t>(first + kWarpgroupWarps, static_cast<uint32_t>(block.warps.size()));
  for (uint32_t other = first; other < end; ++other) {
    const std::vector<Change>& theirs = changes[other];
    if (theirs.size() > mine.size()) {
      const Change& same = theirs[mine.size()];
      if (same.increases == event.increases && same.count == event.count) continue;
      finding.message = fmt::format("{}, while warp {} of its warpgroup executes {}{}", what, other,
                                    spell(same.increases, same.count), at_line(kernel, same.pc));
      finding.likely_cause = "give all warps of a warpgroup the same number, whatever their roles are";
      finding.tolerated = "attention kernels of CUTLASS for sm_100 give the warps of one warpgroup 32 and 24";
      report(block, same.pc, fragment.pc, finding);
      break;
    }
    if (theirs.size() < mine.size() && block.warps[other].live != 0) {
      finding.message = fmt::format("{}: warp {} of its warpgroup has not executed the one before yet{}", what, other,
                                    at_line(kernel, mine.back().pc));
      finding.likely_cause = "let the four warps meet at a barrier between two setmaxnreg (bar.sync with 128 threads)";
      report(block, mine.back().pc, fragment.pc, finding);
      break;
    }
  }
  mine.push_back({fragment.pc, event.increases, event.count});
}

void RegisterCountCheck::block_finished(const Block& block) {
  const auto found = changes_.find(&block);
  if (found == changes_.end()) return;
  const Changes& changes = found->second;
  for (uint32_t first = 0; first < changes.size(); first += kWarpgroupWarps) {
    const auto end = std::min<size_t>(first + kWarpgroupWarps, changes.size());
    uint32_t least = first, most = first;
    for (uint32_t warp = first; warp < end; ++warp) {
      if (changes[warp].size() < changes[least].size()) least = warp;
      if (changes[warp].size() > changes[most].size()) most = warp;
    }
    if (changes[least].size() == changes[most].size()) continue;
    const Change& change = changes[most][changes[least].size()];
    machine::Diagnostic finding;
    finding.place = place_of(*block.cluster->grid->kernel, block.index, most, machine::kAllLanes, change.pc);
    finding.message = fmt::format("warp {} of its warpgroup has exited without executing {}", least,
                                  spell(change.increases, change.count));
    finding.details = {kRule};
    finding.likely_cause = "move it before the branch in which the roles of the warps part";
    report(block, change.pc, change.pc, std::move(finding));
  }
  changes_.erase(found);
}

}  // namespace stagecraft::emulator::checks
