#include "emulator/checks/deadlock/deadlock.hpp"

#include <fmt/format.h>

#include <set>
#include <string>
#include <utility>

#include "emulator/checks/deadlock/sleepers.hpp"
#include "emulator/checks/reporting/place.hpp"
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
  const std::vector<Group>& groups = sleepers.groups();
  if (groups.empty()) return;
  const Kernel& kernel = *cluster.grid->kernel;
  report.place = place_of(*groups.front().first);
  report.message = describe_wait(*groups.front().first);
  std::set<uint32_t> described;  // shared addresses, with rank
  for (const Group& group : groups) {
    const Wait& wait = group.first->wait;
    if (wait.kind != WaitKind::mbarrier || !described.insert(wait.address).second) continue;
    const Block* block = cluster.block_of(wait.address);
    const auto found = block->mbarriers.live.find(wait.address & machine::kSharedOffsetMask);
    if (found == block->mbarriers.live.end()) continue;
    std::string name = name_of_barrier(kernel, wait.address);
    if (cluster.blocks.size() > 1) name += fmt::format(" of block rank {}", block->rank);
    for (std::string& line : machine::describe(found->second, name)) report.details.push_back(std::move(line));
  }
  for (size_t i = 1; i < groups.size(); ++i) report.details.push_back(describe_group(groups[i]));
  if (groups.front().warps.size() > 1) {
    report.details.push_back(fmt::format("{} wait there alike", describe_warps(groups.front())));
  }
  report.details.push_back("nothing that is still running can complete it");
  report.likely_cause = groups.front().cause.text;
}

void DeadlockCheck::cluster_repeated(const Cluster& cluster, machine::Diagnostic& report) {
  const Sleepers sleepers(cluster, histories_);
  for (const Group& group : sleepers.groups()) report.details.push_back(describe_group(group));
}

}  // namespace stagecraft::emulator::checks
