#include "emulator/scheduling/endless_loop.hpp"

#include <algorithm>

#include "emulator/state/fragments.hpp"

namespace stagecraft::emulator::machine {

namespace {

/// Turns of the cluster without an effect before its warps are examined, so that long computations are not slowed down.
constexpr uint64_t kTurnsAtFirst = 1024;

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
      record.snapshot.take(warp);
      record.next_snapshot = 2 * record.turns;
    } else {
      record.repeated = record.snapshot.matches(warp);
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

}  // namespace stagecraft::emulator::machine
