// Groups of bulk copies (cp.async.bulk.commit_group and wait_group) of the threads of one block.
//
// A copy joins the open group of its thread; commit closes the group; a wait asks how many of the youngest groups may
// still be under way.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

namespace stagecraft::emulator::machine {
struct Fragment;
}

namespace stagecraft::emulator::machine {

/// Copies that are waited for together.
struct BulkCopyGroup {
  uint32_t unread = 0;      ///< copies whose source is not read yet
  uint32_t unfinished = 0;  ///< copies whose destination is not written yet
};

/// The groups of one thread.
struct ThreadBulkGroups {
  std::shared_ptr<BulkCopyGroup> open;
  std::deque<std::shared_ptr<BulkCopyGroup>> committed;  ///< oldest first; finished ones are dropped from the front
  std::vector<Fragment*> waiting;  ///< asleep in a wait; checked again whenever a copy makes progress

  /// Adds a copy to the open group, and returns that group.
  std::shared_ptr<BulkCopyGroup> join();
  void commit();
  /// Whether all groups but the youngest `keep` have finished, or, if `read_only`, have read their sources.
  bool reached(uint32_t keep, bool read_only) const;
  void forget_finished();
};

/// The groups of a block by thread number. A map, because few threads copy in bulk.
using BulkCopyGroups = std::map<uint32_t, ThreadBulkGroups>;

}  // namespace stagecraft::emulator::machine
