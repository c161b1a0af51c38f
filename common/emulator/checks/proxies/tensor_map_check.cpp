#include "emulator/checks/proxies/tensor_map_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "emulator/checks/ordering/wording.hpp"
#include "emulator/checks/reporting/report.hpp"

namespace stagecraft::emulator::checks {

using machine::AsyncOperation;
using machine::for_each_lane;
using machine::LaneMask;
using machine::TensorMapEventKind;

namespace {

constexpr uint64_t kMapBytes = 128;
constexpr size_t kUsesKept = 64;        // of one map: more copies than a thread has under way
constexpr size_t kAcquiresKept = 1024;  // of one map

/// "cudaMalloc #3+0x80"
std::string name_of(const ClusterRecord& cluster, uint64_t address) {
  const machine::Allocation* const allocation = cluster.cluster().grid->memory->find(address);
  if (allocation == nullptr) return fmt::format("0x{:x}", address);
  return fmt::format("{}+0x{:x}", allocation->label, address - allocation->address);
}

template <typename Step>
std::string describe_step(const ClusterRecord& cluster, const Step& step, const std::string& does) {
  const std::string line = line_of(cluster, step.pc);
  return fmt::format("block ({},{},{}) warp {} [{}] {}{}", step.block.x, step.block.y, step.block.z,
                     step.warp % cluster.order().warps_per_block(), describe_lanes(step.lanes), does,
                     line.empty() ? fmt::format(" ({})", cluster.kernel().describe_instruction(step.pc)) : line);
}

}  // namespace

void TensorMapCheck::cluster_finished(ClusterRecord& cluster) {
  const uint64_t ended = states_[cluster].cluster;
  for (auto& [address, map] : maps_) std::erase_if(map.uses, [&](const Use& use) { return use.cluster == ended; });
}

TensorMapCheck::Step TensorMapCheck::step(ClusterRecord& cluster, uint32_t warp, LaneMask lanes, uint32_t pc) {
  // What a warp has done since it last released something has its present time; else others knew it before.
  const WarpOrder& order = cluster.order().warp(warp);
  const Time time = order.accessed ? order.time : order.time - 1;
  const uint32_t rank = warp / cluster.order().warps_per_block();
  return {states_[cluster].cluster, cluster.cluster().blocks[rank]->index, warp, lanes, time, pc};
}

/// Whether some lane knows that some lane has done something. Lanes of one warp do.
bool TensorMapCheck::knows_any(const ClusterOrder& order, const Step& past, uint32_t warp, LaneMask lanes) {
  if (past.warp == warp) return true;
  bool any = false;
  for_each_lane(lanes, [&](uint32_t lane) {
    const VectorClock& known = *order.known(warp, lane);
    for_each_lane(past.lanes, [&](uint32_t other) {
      any = any || known.at(ThreadKnowledge::component_of(past.warp, other)) >= past.time;
    });
  });
  return any;
}

/// Whether a copy has ended for some of the lanes. CUTLASS's grouped kernels wait with cp.async.bulk.wait_group before
/// they change a map, for loads too, which end at an mbarrier, and by whichever lane is elected: this is taken for
/// enough.
bool TensorMapCheck::has_ended(ClusterRecord& cluster, const Use& use, uint32_t warp, LaneMask lanes) {
  const ClusterOrder& order = cluster.order();
  if (use.waited && knows_any(order, *use.waited, warp, lanes)) return true;
  bool ended = false;
  for (const uint32_t operation : use.operations) {
    PastAccess copy;
    copy.agent = PastAccess::kAsynchronous | operation;
    for_each_lane(
        lanes, [&](uint32_t lane) { ended = ended || order.knows(copy, warp, 1u << lane, *order.known(warp, lane)); });
  }
  return ended;
}

void TensorMapCheck::note_stores(ClusterRecord& cluster, const RecordedAccess& recorded) {
  const machine::MemoryAccess& access = recorded.event;
  uint64_t latest = 0;
  for_each_lane(access.lanes, [&](uint32_t lane) {
    const auto next = maps_.upper_bound(access.global[lane]);
    if (next == maps_.begin()) return;
    const uint64_t address = std::prev(next)->first;
    if (access.global[lane] >= address + kMapBytes || address == latest) return;
    latest = address;
    LaneMask lanes = 0;
    for_each_lane(access.lanes,
                  [&](uint32_t each) { lanes |= (access.global[each] - address < kMapBytes ? 1u : 0u) << each; });
    change(cluster, address, step(cluster, recorded.warp_number, lanes, access.pc), false);
  });
}

void TensorMapCheck::note_group(ClusterRecord& cluster, const machine::GroupEvent& event) {
  const uint32_t warp = cluster.order().warp_number(*event.fragment);
  const Step now = step(cluster, warp, 1u << event.lane, event.fragment->pc);
  for (auto& [address, map] : maps_) {
    for (Use& use : map.uses) {
      if (use.cluster != now.cluster || use.warp != warp) continue;
      if (event.kind == machine::GroupEventKind::commit) {
        use.is_committed = true;
      } else if (use.is_committed && event.keep == 0 && !use.waited) {
        use.waited = now;
      }
    }
  }
}

void TensorMapCheck::tensor_map_changed(ClusterRecord& cluster, const machine::TensorMapEvent& event) {
  const ClusterOrder& order = cluster.order();
  const uint32_t warp = order.warp_number(*event.fragment);
  const Step now = step(cluster, warp, event.lanes, event.fragment->pc);
  switch (event.kind) {
    case TensorMapEventKind::replace: return change(cluster, event.address, now, false);
    case TensorMapEventKind::copy: return change(cluster, event.address, now, true);
    case TensorMapEventKind::acquire: {
      Map& map = maps_[event.address];
      const bool elsewhere = map.change && map.change->cluster != now.cluster;
      const bool knows = !map.change || elsewhere || knows_any(order, *map.change, warp, event.lanes);
      // A warp that acquires it before each copy says no more by that than by the first time.
      const bool is_again = std::any_of(map.acquired.begin(), map.acquired.end(), [&](const Fence& fence) {
        return fence.cluster == now.cluster && fence.warp == warp && fence.knows_change &&
               (now.lanes & ~fence.lanes) == 0;
      });
      if (!is_again && map.acquired.size() < kAcquiresKept) map.acquired.push_back({now, knows});
      return;
    }
    case TensorMapEventKind::release:
      for (auto& [address, map] : maps_) {
        if (!map.change || map.change->cluster != now.cluster) continue;
        map.change->released = map.change->released || knows_any(order, *map.change, warp, event.lanes);
      }
      return;
  }
}

void TensorMapCheck::change(ClusterRecord& cluster, uint64_t address, const Step& by, bool releases) {
  Map& map = maps_[address];
  for (const Use& use : map.uses) {
    if (use.cluster != by.cluster || has_ended(cluster, use, by.warp, by.lanes)) continue;
    report_change(cluster, address, use, by);
    break;
  }
  map.uses.clear();
  map.acquired.clear();
  map.change = Change{by, releases};
}

void TensorMapCheck::use(ClusterRecord& cluster, const IssuedOperation& issued) {
  const AsyncOperation& operation = issued.event;
  const ClusterOrder& order = cluster.order();
  const uint32_t warp = order.warp_number(*operation.fragment);
  Map& map = maps_[operation.tensor_map];
  if (operation.target != 0) {
    if (!map.uses.empty()) map.uses.back().operations.push_back(issued.index);
    return;
  }
  const Step now = step(cluster, warp, 1u << operation.lane, operation.fragment->pc);
  if (map.change) {
    const uint32_t rank = warp / order.warps_per_block();
    // Where there are more fences than are kept, its own may be among those that are not.
    const bool acquired = map.acquired.size() == kAcquiresKept ||
                          std::any_of(map.acquired.begin(), map.acquired.end(), [&](const Fence& fence) {
                            return fence.cluster == now.cluster && fence.warp / order.warps_per_block() == rank &&
                                   fence.knows_change && knows_any(order, fence, warp, now.lanes);
                          });
    if (!acquired || (!map.change->released && map.change->cluster == now.cluster)) report_use(cluster, map, operation);
  }
  std::erase_if(map.uses, [&](const Use& use) {
    return use.cluster == now.cluster && use.warp == warp && use.lanes == now.lanes &&
           has_ended(cluster, use, warp, now.lanes);
  });
  if (map.uses.size() >= kUsesKept) map.uses.erase(map.uses.begin());
  map.uses.push_back({now, {issued.index}, false, std::nullopt});
}

void TensorMapCheck::report_change(ClusterRecord& cluster, uint64_t address, const Use& use, const Step& by) {
  const auto identity = findings_.claim("tensor map", use.pc, by.pc);
  if (!identity) return;
  const Operation& copy = cluster.order().operation(use.operations.front());
  machine::Diagnostic finding;
  finding.kind = "race";
  finding.place = place_of(cluster, by.warp, by.lanes, by.pc);
  finding.message = fmt::format("race: changes the tensor map at {} in global memory, which a {} may still read",
                                name_of(cluster, address), copy.what);
  finding.details.push_back(describe_step(cluster, use, fmt::format("issued the {} through this map", copy.what)));
  finding.details.emplace_back(
      "nothing tells this thread that the copy has ended; until then the engine may read the map");
  const bool loads = copy.completion == machine::AsyncCompletion::mbarrier;
  finding.likely_cause = fmt::format("wait for the copy {} before the map is changed, or use two maps in turn",
                                     loads ? "at its mbarrier" : "(cp.async.bulk.commit_group, then wait_group 0)");
  const bool knows_issue = by.warp != use.warp && knows_any(cluster.order(), use, by.warp, by.lanes);
  if (knows_issue) {
    finding.tolerated =
        "a warp of CUTLASS's grouped kernels for sm_100 changes maps whose last copies were issued, and not waited for";
  }
  findings_.add(cluster.cluster(), *identity, std::move(finding));
}

/// What the fences that there are lack, if that explains a use without one.
std::string TensorMapCheck::other_fence(ClusterRecord& cluster, uint64_t address, const Map& map,
                                        const AsyncOperation& by) {
  const ClusterOrder& order = cluster.order();
  const uint32_t warp = order.warp_number(*by.fragment), rank = warp / order.warps_per_block();
  const uint64_t number = states_[cluster].cluster;
  for (const Fence& fence : map.acquired) {
    const bool own = fence.cluster == number && fence.warp / order.warps_per_block() == rank;
    const std::string who = describe_step(cluster, fence, "acquires this map");
    if (!own) return fmt::format("{}, but in another block: a thread of each block that uses the map must", who);
    if (!fence.knows_change) {
      return fmt::format("{}, but nothing orders that after the change: put a barrier between the two", who);
    }
    return fmt::format("{}, and nothing orders that before the copy: put a barrier between the two", who);
  }
  for (const auto& [other, each] : maps_) {
    for (const Fence& fence : each.acquired) {
      if (other == address || fence.cluster != number || fence.warp != warp) continue;
      return fmt::format(
          "{}: execute one for {} as well",
          describe_step(cluster, fence, fmt::format("acquires the 128 bytes at {}", name_of(cluster, other))),
          name_of(cluster, address));
    }
  }
  return {};
}

void TensorMapCheck::report_use(ClusterRecord& cluster, const Map& map, const AsyncOperation& operation) {
  const Change& change = *map.change;
  const auto identity = findings_.claim("tensor map fence", change.pc, operation.fragment->pc);
  if (!identity) return;
  machine::Diagnostic finding;
  finding.kind = "missing proxy fence";
  finding.place = place_of(cluster, operation);
  const std::string name = name_of(cluster, operation.tensor_map);
  const bool unreleased = !change.released && change.cluster == states_[cluster].cluster;
  finding.message = fmt::format(
      "the {} issued here uses the tensor map at {}, which this kernel has changed, and there is no "
      "fence.proxy.tensormap::generic.{} {}",
      operation.what, name, unreleased ? "release after the change" : "acquire", unreleased ? "" : "of it in between");
  while (finding.message.ends_with(' ')) finding.message.pop_back();
  finding.details.push_back(describe_step(cluster, change, "changes it"));
  finding.details.emplace_back(
      "copies read tensor maps through a proxy of their own: what a kernel writes there is visible to them only after "
      "a release by the writer and an acquire, of these 128 bytes, in the block that uses the map");
  finding.likely_cause = unreleased ? "tensormap.cp_fenceproxy releases what it copies; after other changes the thread "
                                      "must execute fence.proxy.tensormap::generic.release, before the barrier"
                                    : other_fence(cluster, operation.tensor_map, map, operation);
  if (finding.likely_cause.empty()) {
    finding.likely_cause =
        "the thread that issues the copy must execute fence.proxy.tensormap::generic.acquire of this map first, after "
        "the barrier or the flag that tells it of the change";
  }
  findings_.add(cluster.cluster(), *identity, std::move(finding));
}

}  // namespace stagecraft::emulator::checks
