#include "emulator/scheduling/endless_loop.hpp"

#include <algorithm>
#include <cstring>

#include "emulator/state/fragments.hpp"

namespace stagecraft::emulator::machine {

namespace {

/// Turns of the cluster without an effect before its warps are examined, so that long computations are not slowed down.
constexpr uint64_t kTurnsAtFirst = 1024;

size_t register_bytes_of(const Warp& warp) { return warp.block->cluster->grid->kernel->register_bytes; }
size_t local_bytes_of(const Warp& warp) { return size_t{warp.local_stride} * kWarpSize; }

}  // namespace

bool EndlessLoopDetector::repeats(const Cluster& cluster, const Warp& warp, uint64_t effects) {
  if (effects != effects_) [[likely]] {
    effects_ = effects;
    turns_ = 0;
    if (!warps_.empty()) warps_.clear();
    return false;
  }
  if (++turns_ < kTurnsAtFirst) return false;
  WarpRecord& record = warps_[&warp];
  if (!record.repeated) {
    if (record.turns++ >= record.next_snapshot) {
      take_snapshot(warp, record);
      record.next_snapshot = 2 * record.turns;
    } else {
      record.repeated = matches_snapshot(warp, record);
    }
  }
  if (!record.repeated || !cluster.events.empty()) return false;
  return std::all_of(cluster.blocks.begin(), cluster.blocks.end(), [&](const auto& block) {
    return block->exited || std::all_of(block->warps.begin(), block->warps.end(), [&](const Warp& each) {
             const bool sleeps = std::none_of(each.fragments.begin(), each.fragments.end(),
                                              [](const auto& fragment) { return continues_alone(*fragment); });
             if (sleeps) return true;
             const auto found = warps_.find(&each);
             return found != warps_.end() && found->second.repeated;
           });
  });
}

EndlessLoopDetector::FragmentRecord EndlessLoopDetector::record_of(const Fragment& fragment) {
  return {fragment.pc,
          fragment.mask,
          fragment.state,
          fragment.timed_out,
          fragment.idle_poll_pc,
          fragment.local_frame,
          fragment.return_stack.size()};
}

void EndlessLoopDetector::take_snapshot(const Warp& warp, WarpRecord& record) {
  record.runs = warp.runs;
  record.fragments.clear();
  for (const auto& fragment : warp.fragments) record.fragments.push_back(record_of(*fragment));
  record.registers.assign(warp.registers, warp.registers + register_bytes_of(warp));
  record.local.assign(warp.local, warp.local + local_bytes_of(warp));
}

bool EndlessLoopDetector::matches_snapshot(const Warp& warp, const WarpRecord& record) {
  if (warp.fragments.size() != record.fragments.size()) return false;
  for (size_t i = 0; i < record.fragments.size(); ++i) {
    const Fragment& fragment = *warp.fragments[i];
    if (!(record_of(fragment) == record.fragments[i])) return false;
    if (continues_alone(fragment) && fragment.last_run <= record.runs) return false;
  }
  return std::memcmp(record.registers.data(), warp.registers, record.registers.size()) == 0 &&
         (record.local.empty() || std::memcmp(record.local.data(), warp.local, record.local.size()) == 0);
}

}  // namespace stagecraft::emulator::machine
