// Clocks of clusters, by number, in a tree whose parts are never changed and are shared by all that have the same in
// them.
//
// A counter that the blocks of a grid draw tickets from passes on, with each ticket, what all blocks before have
// released. In a tree each step makes only the few parts new in which it differs from the one before, and to join two
// is to look at the parts in which they differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "emulator/checks/ordering/vector_clock.hpp"

namespace stagecraft::emulator::checks {

class ClusterClocks {
 public:
  /// The clock of a cluster; null: there is none.
  const VectorClock* find(uint32_t cluster) const;
  /// Joins a clock to that of a cluster.
  void add(uint32_t cluster, const SharedClock& clock);
  void join(const ClusterClocks& other);
  /// Calls `visit(cluster)` for each cluster that has a clock, in rising order.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    if (root_ != nullptr) visit_all(*root_, levels_, 0, visit);
  }
  size_t count() const {
    size_t clusters = 0;
    for_each([&](uint32_t) { ++clusters; });
    return clusters;
  }
  /// Whether they are one and the same tree.
  bool is_same(const ClusterClocks& other) const { return root_ == other.root_; }

 private:
  static constexpr uint32_t kBits = 4;  // of a number, for each level

  struct Node;
  using Tree = std::shared_ptr<const Node>;
  struct Node {
    std::vector<Tree> below;  ///< by the bits of the level; none at level 0
    SharedClock clock;        ///< at level 0
  };

  static Tree path_to(uint32_t cluster, uint32_t levels, const SharedClock& clock);
  static Tree joined(const Tree& one, const Tree& other);
  void grow(uint32_t levels);

  template <typename Visit>
  static void visit_all(const Node& node, uint32_t level, uint32_t first, Visit& visit) {
    if (level == 0) return visit(first);
    for (uint32_t i = 0; i < node.below.size(); ++i) {
      if (node.below[i] != nullptr) visit_all(*node.below[i], level - 1, first | i << kBits * (level - 1), visit);
    }
  }

  Tree root_;
  uint32_t levels_ = 0;
};

}  // namespace stagecraft::emulator::checks
