#include "emulator/checks/global_memory/cluster_clocks.hpp"

#include <algorithm>
#include <utility>

namespace stagecraft::emulator::checks {

const VectorClock* ClusterClocks::find(uint32_t cluster) const {
  if (root_ == nullptr || uint64_t{cluster} >> kBits * levels_ != 0) return nullptr;
  const Node* node = root_.get();
  for (uint32_t level = levels_; level != 0 && node != nullptr; --level) {
    node = node->below[cluster >> kBits * (level - 1) & ((1u << kBits) - 1)].get();
  }
  return node == nullptr ? nullptr : node->clock.get();
}

void ClusterClocks::add(uint32_t cluster, const SharedClock& clock) {
  uint32_t levels = levels_;
  while (uint64_t{cluster} >> kBits * levels != 0) ++levels;
  grow(levels);
  root_ = joined(root_, path_to(cluster, levels_, clock));
}

void ClusterClocks::join(const ClusterClocks& other) {
  if (other.root_ == nullptr || is_same(other)) return;
  ClusterClocks theirs = other;
  theirs.grow(levels_);
  grow(theirs.levels_);
  root_ = joined(root_, theirs.root_);
}

/// A tree with one clock.
ClusterClocks::Tree ClusterClocks::path_to(uint32_t cluster, uint32_t levels, const SharedClock& clock) {
  auto node = std::make_shared<Node>();
  node->clock = clock;
  for (uint32_t level = 0; level < levels; ++level) {
    auto above = std::make_shared<Node>();
    above->below.resize(1u << kBits);
    above->below[cluster >> kBits * level & ((1u << kBits) - 1)] = std::move(node);
    node = std::move(above);
  }
  return node;
}

/// Makes room for larger numbers.
void ClusterClocks::grow(uint32_t levels) {
  for (; levels_ < levels; ++levels_) {
    if (root_ == nullptr) continue;
    auto above = std::make_shared<Node>();
    above->below.resize(1u << kBits);
    above->below[0] = std::move(root_);
    root_ = std::move(above);
  }
}

/// Returns one of the two where it has all that the other has.
ClusterClocks::Tree ClusterClocks::joined(const Tree& one, const Tree& other) {
  if (one == other || other == nullptr) return one;
  if (one == nullptr) return other;
  Node both;
  if (one->clock != nullptr) both.clock = joined_clocks(one->clock, other->clock);
  both.below.reserve(one->below.size());
  for (size_t i = 0; i < one->below.size(); ++i) both.below.push_back(joined(one->below[i], other->below[i]));
  if (both.clock == one->clock && both.below == one->below) return one;
  if (both.clock == other->clock && both.below == other->below) return other;
  return std::make_shared<Node>(std::move(both));
}

}  // namespace stagecraft::emulator::checks
