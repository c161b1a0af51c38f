#include "emulator/checks/deadlock/deadlock.hpp"

#include <fmt/format.h>

#include <set>
#include <string>
#include <utility>

#include "emulator/checks/deadlock/sleepers.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/state/mbarrier_table.hpp"

namespace stagecraft::emulator::checks {

using machine::Block;
using machine::Cluster;
using machine::Fragment;
using machine::Kernel;
using machine::Wait;
using machine::WaitKind;

namespace {

machine::Place place_of(const Fragment& fragment) {
  const Kernel& kernel = *fragment.grid().kernel;
  machine::Place place;
  place.kernel = kernel.display_name;
  place.source_file = kernel.source_file();
  place.has_block = place.has_warp = true;
  place.block_x = fragment.block().index.x;
  place.block_y = fragment.block().index.y;
  place.block_z = fragment.block().index.z;
  place.warp = fragment.warp->index;
  place.lanes = fragment.mask;
  place.source = kernel.describe_source(fragment.pc);
  place.instruction = kernel.describe_instruction(fragment.pc);
  return place;
}

}  // namespace

void DeadlockCheck::cluster_stuck(Cluster& cluster, machine::Diagnostic& report) {
  const Sleepers sleepers(cluster, histories_);
  const std::vector<Group>& groups = sleepers.groups();
  if (groups.empty()) return;
  const Kernel& kernel = *cluster.grid->kernel;
  report.place = place_of(*groups.front().first);
  report.message = describe_wait(*groups.front().first);
  std::set<uint32_t> told;  // shared addresses, with rank
  for (const Group& group : groups) {
    const Wait& wait = group.first->wait;
    if (wait.kind != WaitKind::mbarrier || !told.insert(wait.address).second) continue;
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

void DeadlockCheck::cluster_repeats(Cluster& cluster, machine::Diagnostic& report) {
  const Sleepers sleepers(cluster, histories_);
  for (const Group& group : sleepers.groups()) report.details.push_back(describe_group(group));
}

}  // namespace stagecraft::emulator::checks
