#include "emulator/checks/deadlock/register_demand.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "emulator/state/warpgroup.hpp"

namespace stagecraft::emulator::checks {

using machine::kWarpgroupWarps;
using machine::RegisterPool;

namespace {

/// What each warp asks for; 0 for those that do not wait.
std::vector<uint32_t> requests_of(const machine::Block& block) {
  std::vector<uint32_t> asked(block.warps.size(), 0);
  for (const machine::Warp& warp : block.warps) {
    for (const auto& fragment : warp.fragments) {
      if (fragment->state != machine::FragmentState::blocked) continue;
      if (fragment->wait.kind != machine::WaitKind::registers) continue;
      asked[warp.index] = static_cast<uint32_t>(fragment->wait.value);
    }
  }
  return asked;
}

}  // namespace

std::string describe_register_wait(const machine::Fragment& fragment) {
  const RegisterPool& pool = fragment.block().register_pool;
  return fmt::format("waits for {} registers per thread (setmaxnreg.inc): its warp has {}, and {} are free",
                     fragment.wait.value, pool.shares[fragment.warp->index].count, pool.available);
}

std::vector<std::string> describe_register_shares(const machine::Block& block) {
  const RegisterPool& pool = block.register_pool;
  const std::vector<uint32_t> asked = requests_of(block);
  const machine::Kernel& kernel = *block.cluster->grid->kernel;
  const auto alike = [&](size_t one, size_t other) {
    const RegisterPool::WarpShare &mine = pool.shares[one], &theirs = pool.shares[other];
    return mine.count == theirs.count && mine.changed == theirs.changed && mine.changed_at == theirs.changed_at &&
           asked[one] == asked[other];
  };
  std::vector<std::string> lines;
  for (size_t first = 0; first < pool.shares.size();) {
    size_t end = first + 1;
    while (end < pool.shares.size() && alike(first, end)) ++end;
    const RegisterPool::WarpShare& share = pool.shares[first];
    std::string line = end - first == 1
                           ? fmt::format("warp {} has {} registers per thread", first, share.count)
                           : fmt::format("warps {}-{} have {} registers per thread each", first, end - 1, share.count);
    const std::string source = share.changed ? kernel.describe_source(share.changed_at) : std::string();
    if (!share.changed) line += ", as at the launch";
    if (asked[first] != 0) {
      line += fmt::format(", and ask{} for {}", end - first == 1 ? "s" : "", asked[first]);
      if (!source.empty()) line += " at " + source;
    } else if (!source.empty()) {
      line += ", since setmaxnreg at " + source;
    }
    lines.push_back(std::move(line));
    first = end;
  }
  return lines;
}

std::string explain_register_demand(const machine::Block& block) {
  const RegisterPool& pool = block.register_pool;
  const std::vector<uint32_t> asked = requests_of(block);
  uint64_t sum = 0;
  for (size_t warp = 0; warp < pool.shares.size(); ++warp) sum += std::max(pool.shares[warp].count, asked[warp]);
  std::string text = fmt::format(
      "the block was launched with {} registers per thread in each of {} warps, {} in all, and its warps now have or "
      "ask for {}: ",
      pool.at_launch, pool.shares.size(), pool.total, sum);
  size_t keeper = pool.shares.size();
  for (size_t warp = 0; warp < pool.shares.size(); ++warp) {
    if (pool.shares[warp].changed) continue;
    keeper = std::min(keeper, warp);
    const size_t first = warp / kWarpgroupWarps * kWarpgroupWarps;
    for (size_t mate = first; mate < std::min(first + kWarpgroupWarps, pool.shares.size()); ++mate) {
      if (!pool.shares[mate].changed) continue;
      return text + fmt::format(
                        "warp {} has never executed setmaxnreg, and warp {} of its warpgroup has. It is "
                        ".aligned: all four warps of a warpgroup must execute it",
                        warp, mate);
    }
  }
  if (keeper == pool.shares.size()) return text + "release more with setmaxnreg.dec, or ask for less";
  return text +
         fmt::format("warp {} has never executed setmaxnreg.dec. Release registers there, or ask for less", keeper);
}

}  // namespace stagecraft::emulator::checks
