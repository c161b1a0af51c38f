#include "emulator/checks/deadlock/deadlock_check.hpp"

#include <fmt/format.h>

#include <set>
#include <string>
#include <utility>

#include "emulator/checks/deadlock/register_demand.hpp"
#include "emulator/checks/deadlock/rules.hpp"
#include "emulator/checks/deadlock/sleepers.hpp"
#include "emulator/checks/deadlock/wording.hpp"
#include "emulator/checks/reporting/place.hpp"
#include "emulator/state/fragments.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/state/mbarrier_table.hpp"

namespace stagecraft::emulator::checks {

using machine::Block;
using machine::Cluster;
using machine::Kernel;
using machine::Wait;
using machine::WaitKind;

void DeadlockCheck::cluster_stuck(const Cluster& cluster, machine::Diagnostic& report) {
  const Sleepers sleepers(cluster, histories_);
  const std::vector<Explanation> explanations = explain(sleepers);
  if (explanations.empty()) return;
  const Kernel& kernel = *cluster.grid->kernel;
  const Group& blamed = *explanations.front().group;
  report.place = place_of(*blamed.first);
  report.message = describe_wait(*blamed.first);
  std::set<uint32_t> described;  // shared addresses, with rank
  for (const Explanation& each : explanations) {
    const Wait& wait = each.group->first->wait;
    if (wait.kind != WaitKind::mbarrier || !described.insert(wait.address).second) continue;
    const Block* block = cluster.block_of(wait.address);
    const auto found = block->mbarriers.live.find(wait.address & machine::kSharedOffsetMask);
    if (found == block->mbarriers.live.end()) continue;
    std::string name = name_of_barrier(kernel, wait.address);
    if (cluster.blocks.size() > 1) name += fmt::format(" of block rank {}", block->rank);
    for (std::string& line : machine::describe(found->second, name)) report.details.push_back(std::move(line));
  }
  if (blamed.first->wait.kind == WaitKind::registers) {
    for (std::string& line : describe_register_shares(blamed.first->block())) {
      report.details.push_back(std::move(line));
    }
  }
  for (size_t i = 1; i < explanations.size(); ++i) {
    report.details.push_back(describe_group(*explanations[i].group));
  }
  if (blamed.warps.size() > 1) {
    report.details.push_back(fmt::format("{} wait there alike", describe_warps(blamed)));
  }
  report.details.push_back("nothing that is still running can complete it");
  report.likely_cause = explanations.front().text;
}

void DeadlockCheck::cluster_repeated(const Cluster& cluster, machine::Diagnostic& report) {
  constexpr size_t kMostPlaces = 8;
  size_t looping = 0;
  for (const auto& block : cluster.blocks) {
    if (block->exited) continue;
    for (const machine::Warp& warp : block->warps) {
      for (const auto& fragment : warp.fragments) {
        if (!machine::continues_alone(*fragment)) continue;
        const machine::Place place = place_of(*fragment);
        if (looping++ == 0) {
          if (!report.place.has_warp) report.place = place;
        } else if (looping <= kMostPlaces) {
          report.details.push_back(fmt::format("so does block ({},{},{}) warp {}{}", place.block_x, place.block_y,
                                               place.block_z, place.warp,
                                               place.source.empty() ? std::string() : " at " + place.source));
        }
      }
    }
  }
  if (looping > kMostPlaces) report.details.push_back(fmt::format("and {} more", looping - kMostPlaces));
  const Sleepers sleepers(cluster, histories_);
  for (const Explanation& each : explain(sleepers)) report.details.push_back(describe_group(*each.group));
  report.details.push_back("no thread that still runs does anything that could end it");
  if (report.likely_cause.empty()) {
    report.likely_cause = "the loop polls memory or barriers that nobody will change any more";
  }
}

}  // namespace stagecraft::emulator::checks
