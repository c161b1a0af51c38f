// All that sleeps in a cluster in which nothing can continue, and what is known about each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/checks/deadlock/barrier_history.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/state/mbarrier_table.hpp"

namespace stagecraft::emulator::checks {

/// Fragments of one block that sleep at the same place on the same thing; a report has one line for them.
struct Group {
  const machine::Fragment* first;
  std::vector<const machine::Fragment*> all;
  std::vector<uint32_t> warps;  ///< numbers in the block, in order
  bool whole_warps = true;
  std::vector<size_t> needs{};  ///< groups one of which must continue before this one can (wait_chains.hpp)
  bool is_root = false;         ///< the chain of waits ends here
};

class Sleepers {
 public:
  /// Both must outlive it.
  Sleepers(const machine::Cluster& cluster, const BarrierHistories& histories);

  const machine::Cluster& cluster() const { return cluster_; }
  /// By block and warp, as they were found.
  const std::vector<Group>& groups() const { return groups_; }
  const BarrierHistories& histories() const { return histories_; }

  /// The history of the barrier at an offset in the shared memory of a block; null: nothing has happened there.
  const BarrierHistory* history_at(const machine::Block* block, uint32_t offset) const;
  /// The block in whose shared memory the mbarrier is that a fragment waits for.
  const machine::Block* block_of_barrier(const machine::Fragment& waiter) const;
  /// The mbarrier that a fragment waits for; null: it waits for none that is live.
  const machine::Mbarrier* barrier_of(const machine::Fragment& waiter) const;
  /// The history of that barrier; an empty one where nothing has happened there.
  const BarrierHistory& history_of(const machine::Fragment& waiter) const;

  /// Whether nothing has ever happened at the mbarrier that the group waits for.
  bool never_arrived(const Group& group) const;
  /// Whether one of its fragments has arrived at any mbarrier.
  bool has_arrived(const Group& group) const;
  /// Whether it is at its first wait, one that nobody has ended: it has come to no arrival of its own yet.
  bool has_not_begun(const Group& group) const;
  /// Whether another group waits for a phase that the group is to end, as a consumer does.
  bool is_waited_for(const Group& group) const;

 private:
  void collect();

  const machine::Cluster& cluster_;
  const BarrierHistories& histories_;
  std::vector<Group> groups_;
};

/// Whether an arrival was by threads of the group.
bool is_one_of(const BarrierHistory::Arriver& arriver, const Group& group);
/// How many threads the group has.
size_t threads_of(const Group& group);
/// Where a fragment waits, as an offset in the shared memory of the barrier's block.
inline uint32_t offset_of(const machine::Fragment& waiter) { return waiter.wait.address & machine::kSharedOffsetMask; }

}  // namespace stagecraft::emulator::checks
