#include "emulator/scheduling/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "emulator/state/fragments.hpp"

namespace stagecraft::emulator::machine {

namespace {

/// Places that a report lists; a kernel's warps are usually at few.
constexpr size_t kMostPositions = 8;

std::string position_of(const Fragment& fragment) {
  const Kernel& kernel = *fragment.grid().kernel;
  const std::string source = kernel.describe_source(fragment.pc);
  return fmt::format("{}{}{}{}", source, source.empty() ? "" : "  ", kernel.describe_instruction(fragment.pc),
                     fragment.state == FragmentState::blocked ? " (waits)" : "");
}

}  // namespace

std::map<std::string, Progress::Position> positions_of(const Grid& grid) {
  std::map<std::string, Progress::Position> positions;
  for (const auto& cluster : grid.resident) {
    for (const auto& block : cluster->blocks) {
      if (block->exited) continue;
      for (const Warp& warp : block->warps) {
        std::set<std::string> here;
        for (const auto& fragment : warp.fragments) {
          if (fragment->state != FragmentState::exited) here.insert(position_of(*fragment));
        }
        for (const std::string& place : here) {
          Progress::Position& position = positions[place];
          if (position.warps++ == 0) {
            position.block = block->index;
            position.warp = warp.index;
          }
        }
      }
    }
  }
  return positions;
}

std::string place_of_a_warp(const Grid& grid) {
  for (const auto& cluster : grid.resident) {
    for (const auto& block : cluster->blocks) {
      if (block->exited) continue;
      for (const Warp& warp : block->warps) {
        if (warp.fragments.empty()) continue;
        const uint32_t pc = warp.fragments.front()->pc;
        const std::string source = grid.kernel->describe_source(pc);
        return fmt::format("warp {} of block ({}, {}, {}) at {}", warp.index, block->index.x, block->index.y,
                           block->index.z, source.empty() ? grid.kernel->describe_instruction(pc) : source);
      }
    }
  }
  return {};
}

void add_progress(Diagnostic& report, const std::vector<Progress>& parts, uint64_t blocks) {
  Progress all;
  for (const Progress& part : parts) {
    all.blocks_done += part.blocks_done;
    all.blocks_running += part.blocks_running;
    for (const auto& [place, position] : part.positions) {
      auto [entry, is_new] = all.positions.try_emplace(place, position);
      if (!is_new) entry->second.warps += position.warps;
    }
  }
  report.details.push_back(
      fmt::format("{} of {} blocks are done, {} are running", all.blocks_done, blocks, all.blocks_running));
  std::vector<std::pair<std::string, Progress::Position>> places(all.positions.begin(), all.positions.end());
  std::stable_sort(places.begin(), places.end(),
                   [](const auto& a, const auto& b) { return a.second.warps > b.second.warps; });
  for (size_t i = 0; i < places.size(); ++i) {
    if (i == kMostPositions) {
      report.details.push_back(fmt::format("and {} more places", places.size() - i));
      break;
    }
    const auto& [place, position] = places[i];
    report.details.push_back(fmt::format("{} warp{} at {}, such as warp {} of block ({}, {}, {})", position.warps,
                                         position.warps == 1 ? "" : "s", place, position.warp, position.block.x,
                                         position.block.y, position.block.z));
  }
}

}  // namespace stagecraft::emulator::machine
