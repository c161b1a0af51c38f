#include "emulator/machine/endless_loop.hpp"

#include <cstring>

namespace stagecraft::emulator::machine {

namespace {

/// Turns without an effect before the cluster is looked at: long computations pass by unhindered.
constexpr uint64_t kFirstSnapshot = 16384;

}  // namespace

bool EndlessLoopDetector::repeats(const Cluster& cluster, uint64_t effects) {
  if (effects != effects_) [[likely]] {
    effects_ = effects;
    turns_ = 0;
    next_snapshot_ = kFirstSnapshot;
    return false;
  }
  if (++turns_ < kFirstSnapshot) return false;
  if (turns_ >= next_snapshot_ || cluster_ == nullptr) {
    take_snapshot(cluster);
    next_snapshot_ = 2 * turns_;
    return false;
  }
  return cluster_ == &cluster && matches_snapshot(cluster);
}

void EndlessLoopDetector::take_snapshot(const Cluster& cluster) {
  cluster_ = &cluster;
  fragments_.clear();
  registers_.clear();
  const uint32_t bytes = cluster.grid->kernel->register_bytes;
  for (const auto& block : cluster.blocks) {
    for (const Warp& warp : block->warps) {
      for (const auto& fragment : warp.fragments) fragments_.push_back({warp.index, fragment->pc, fragment->mask});
      registers_.insert(registers_.end(), warp.registers, warp.registers + bytes);
    }
  }
}

bool EndlessLoopDetector::matches_snapshot(const Cluster& cluster) const {
  const uint32_t bytes = cluster.grid->kernel->register_bytes;
  size_t next_fragment = 0;
  size_t position = 0;
  for (const auto& block : cluster.blocks) {
    for (const Warp& warp : block->warps) {
      for (const auto& fragment : warp.fragments) {
        if (next_fragment == fragments_.size()) return false;
        if (!(fragments_[next_fragment++] == FragmentState{warp.index, fragment->pc, fragment->mask})) return false;
      }
    }
  }
  if (next_fragment != fragments_.size()) return false;
  for (const auto& block : cluster.blocks) {
    for (const Warp& warp : block->warps) {
      if (std::memcmp(registers_.data() + position, warp.registers, bytes) != 0) return false;
      position += bytes;
    }
  }
  return true;
}

}  // namespace stagecraft::emulator::machine
