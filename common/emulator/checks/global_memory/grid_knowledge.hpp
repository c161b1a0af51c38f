// What threads know about other clusters of their grid, and about the grids before it.
//
// In its own cluster a thread's knowledge is that of ../ordering. Between clusters only strong accesses of global
// memory order anything: a release and an acquire of one location, or fences around relaxed ones, with scopes that
// include both threads (PTX ISA, "Memory Consistency Model": morally strong operations, release and acquire patterns).
// What a thread learns there is a note with the time of its warp. Other threads of its cluster know what a note says
// when they know of that time: so whatever passes on knowledge in the cluster passes on this, too.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/checks/global_memory/cluster_clocks.hpp"
#include "emulator/checks/ordering/happens_before.hpp"

namespace stagecraft::emulator::checks {

/// What is known about several clusters, and about earlier grids. It is never changed once others share it.
struct Foreign {
  ClusterClocks clusters;
  bool dependencies = false;  ///< griddepcontrol.wait: all earlier grids of the stream have ended

  /// What is known about a cluster; null: nothing.
  const VectorClock* find(uint32_t cluster) const { return clusters.find(cluster); }
};
using SharedForeign = std::shared_ptr<const Foreign>;

/// What both say; either may be null. One of them, if it says all that the other does.
SharedForeign joined(const SharedForeign& one, const SharedForeign& other);

/// A release that concerned too few threads, for reports.
struct NarrowOrder {
  uint32_t cluster = 0, rank = 0;  ///< who released
  uint32_t release_site = 0;       ///< GlobalHistory
  machine::MemoryScope release_scope = machine::MemoryScope::block;
  uint32_t acquire_pc = 0;
  machine::MemoryScope acquire_scope = machine::MemoryScope::system;
  bool acquires = true;  ///< false: the read was relaxed, and no fence has followed
};

/// What the threads of one cluster have learnt about others.
class ClusterNotes {
 public:
  explicit ClusterNotes(uint32_t warps) : warps_(warps) {}

  /// These lanes have learnt something; others know it if they know this time of the warp.
  void add(uint32_t warp, machine::LaneMask lanes, Time time, const SharedForeign& learnt);
  /// What a lane knows; null: nothing.
  SharedForeign known(const ClusterOrder& order, uint32_t warp, uint32_t lane);
  bool is_empty() const { return version_ == 0; }
  /// Grows when something is learnt.
  uint64_t version() const { return version_; }

 private:
  struct Note {
    machine::LaneMask lanes;
    Time time;
    SharedForeign learnt;  ///< together with all notes of the same lanes before
  };
  struct WarpNotes {
    std::vector<Note> notes;
    // The last answer for this warp, without what only its lanes themselves know.
    SharedClock known;
    uint64_t version = 0;
    SharedForeign answer;
  };
  std::vector<WarpNotes> warps_;
  uint64_t version_ = 0;
};

/// What strong writes have released to a place in global memory.
struct GlobalLocation {
  SharedForeign wide;  ///< with the scope of the device, or a larger one; null: nothing
  struct Narrow {
    uint32_t cluster, rank;
    uint32_t site;
    machine::MemoryScope scope;
    SharedForeign released;
  };
  std::vector<Narrow> narrow;  ///< the latest few of smaller scopes
};

}  // namespace stagecraft::emulator::checks
