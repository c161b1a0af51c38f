// Groups of bulk copies (cp.async.bulk.commit_group and wait_group) of the threads of one block.
//
// A copy joins the open group of its thread; commit closes the group; a wait asks how many of the youngest groups may
// still be under way.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <vector>

#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::machine {
struct Block;
struct Fragment;
}  // namespace stagecraft::emulator::machine

namespace stagecraft::emulator::machine {

/// Copies that are waited for together.
struct BulkCopyGroup {
  uint32_t unread = 0;        ///< copies whose source is not read yet
  uint32_t unfinished = 0;    ///< copies whose destination is not written yet
  bool read_awaited = false;  ///< its thread has waited until they had read, and for no more
};

/// A bulk copy or reduction to global memory that has not written yet. Known only where memory is observed.
struct StoreUnderWay {
  const Block* block = nullptr;  ///< of the thread that issued it
  uint32_t warp = 0, lane = 0, pc = 0;
  const char* what = "";            ///< "cp.async.bulk"
  std::vector<GlobalRange> writes;  ///< by ascending addresses; none ends after the last one's end
  std::shared_ptr<const BulkCopyGroup> group;
};

/// Returns the first store that is still to write some of these bytes; null for none.
const StoreUnderWay* find_store(const std::list<StoreUnderWay>& stores, uint64_t address, uint64_t bytes);

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
  /// Notes that the thread has waited, until all but the youngest `keep` groups had read.
  void note_read(uint32_t keep);
  void forget_finished();
};

/// The groups of a block by thread number. A map, because few threads copy in bulk.
using BulkCopyGroups = std::map<uint32_t, ThreadBulkGroups>;

}  // namespace stagecraft::emulator::machine
