// Groups of asynchronous copies (cp.async.bulk.commit_group and wait_group, and the separate ones of the non-bulk
// cp.async) of the threads of one block.
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

namespace stagecraft::emulator::units {

/// Copies that are waited for together.
struct CopyGroup {
  uint32_t unread = 0;      ///< copies whose source has still to be read
  uint32_t unfinished = 0;  ///< copies whose destination is not yet written
};

/// The groups of one thread and one kind of copy.
struct ThreadGroups {
  std::shared_ptr<CopyGroup> open;
  std::deque<std::shared_ptr<CopyGroup>> committed;  ///< oldest first; finished ones are dropped from the front
  std::vector<machine::Fragment*> waiting;           ///< asleep in a wait; looked at again whenever a copy gets on

  /// The group that the next copy joins, with the copy counted in.
  std::shared_ptr<CopyGroup> join();
  void commit();
  /// Whether all groups but the youngest `keep` have finished, or, if `read_only`, have read their sources.
  bool reached(uint32_t keep, bool read_only) const;
  void forget_finished();
};

/// All groups of a block, by thread number in the block.
struct BulkGroups {
  std::map<uint32_t, ThreadGroups> bulk;  ///< cp.async.bulk with .bulk_group completion
  std::map<uint32_t, ThreadGroups> copy;  ///< non-bulk cp.async
  /// Virtual time at which the last non-bulk cp.async of a thread ends, for cp.async.mbarrier.arrive.
  std::map<uint32_t, uint64_t> copy_end;
};

}  // namespace stagecraft::emulator::units
