// The asynchronous operations of a cluster: what is ordered before each, and by what its end is known.
#include <algorithm>
#include <memory>
#include <utility>

#include "emulator/checks/ordering/happens_before.hpp"

namespace stagecraft::emulator::checks {

using machine::AsyncCompletion;
using machine::kAllLanes;

namespace {

constexpr size_t kCommitsKept = 8;

/// Notes where a product has its operands, or what a copy fills.
void note_places(Operation& operation, const machine::AsyncOperation& event) {
  for (const machine::MatrixRead& matrix : event.matrices) {
    if (event.product.m != 0) operation.operands[*matrix.name == 'B' ? 1 : 0] = matrix.start;
  }
  if (event.writes.empty()) return;
  operation.begin = event.writes.front().address & machine::kSharedOffsetMask;
  for (const machine::SharedRange& range : event.writes) operation.bytes += range.bytes;
}

}  // namespace

const Operation* ClusterOrder::commit_of(uint32_t barrier, Time phase) const {
  const std::deque<CommitNote>& commits = barriers_[barrier].commits;
  const auto last =
      std::find_if(commits.rbegin(), commits.rend(), [&](const CommitNote& note) { return note.phase == phase; });
  return last == commits.rend() ? nullptr : &operations_[last->operation];
}

/// An arrival by an operation: cp.async.mbarrier.arrive or tcgen05.commit.
void ClusterOrder::arrive(BarrierOrder& barrier, uint64_t operation_number) {
  const auto found = pending_operations_.find(operation_number);
  if (found == pending_operations_.end()) return;
  std::erase(barrier.under_way, found->second);
  const Operation& operation = operations_[found->second];
  barrier.open.join(operation.known);
  if (operation.time != 0) barrier.open.clock.raise(operation.component, operation.time);
  if (operation.completion != AsyncCompletion::tensor_arrive) return;
  barrier.commits.push_back({barrier.ends, found->second});
  if (barrier.commits.size() > kCommitsKept) barrier.commits.pop_front();
}

/// A copy has brought its bytes: it has ended for those that see the present phase end.
void ClusterOrder::complete_copy(BarrierOrder& barrier, uint64_t operation_number) {
  const auto found = pending_operations_.find(operation_number);
  if (operation_number == 0 || found == pending_operations_.end()) return;
  Operation& operation = operations_[found->second];
  barrier.open.join(operation.known);
  operation.known = nullptr;
  operation.component = barrier.component;
  operation.time = barrier.ends + 1;
  std::erase(barrier.under_way, found->second);
  pending_operations_.erase(found);
}

ClusterOrder::Sequence& ClusterOrder::sequence(std::map<ThreadKey, Sequence>& all, ThreadKey thread) {
  const auto [found, fresh] = all.try_emplace(thread);
  if (fresh) found->second.component = components_++;
  return found->second;
}

void ClusterOrder::group_changed(const machine::GroupEvent& event) {
  const uint32_t number = warp_number(*event.fragment);
  const ThreadKey thread = ThreadKnowledge::component_of(number, event.lane);
  Sequence& mine = sequence(event.bulk ? bulk_ : copies_, thread);
  if (event.kind == machine::GroupEventKind::commit) {
    mine.groups.push_back(mine.issued);
    if (!event.bulk) return;
    GroupNotes& notes = bulk_groups_[thread];
    std::deque<GroupNotes::Commit>& commits = notes.commits;
    if (commits.empty()) notes.first_group = mine.issued;
    commits.push_back({mine.issued, event.fragment->pc});
    if (commits.size() > kCommitsKept) commits.pop_front();
    return;
  }
  if (event.bulk) {
    GroupNotes& notes = bulk_groups_[thread];
    notes.wait_pc = event.fragment->pc;
    notes.keep = event.keep;
    notes.issued = mine.issued;
  }
  if (mine.groups.size() <= event.keep) return;
  const size_t ended = mine.groups.size() - event.keep;
  if (event.bulk) bulk_groups_[thread].ended = mine.groups[ended - 1];
  threads_.wait_for_own_copies(number, event.lane, mine.component, mine.groups[ended - 1]);
  mine.groups.erase(mine.groups.begin(), mine.groups.begin() + static_cast<std::ptrdiff_t>(ended));
}

std::vector<const Operation*> ClusterOrder::bulk_copies_not_waited_for(uint32_t rank) const {
  std::vector<const Operation*> copies;
  const ThreadKey first = ThreadKnowledge::component_of(rank * warps_per_block_, 0);
  const ThreadKey last = ThreadKnowledge::component_of((rank + 1) * warps_per_block_, 0);
  for (auto each = bulk_.lower_bound(first); each != bulk_.end() && each->first < last; ++each) {
    const Sequence& mine = each->second;
    const Time ended = threads_.waited(mine.component);
    if (ended == mine.issued) continue;
    const auto found = std::find_if(operations_.begin(), operations_.end(), [&](const Operation& operation) {
      return operation.completion == AsyncCompletion::bulk_group && operation.component == mine.component &&
             operation.time == ended + 1;
    });
    if (found != operations_.end()) copies.push_back(&*found);
  }
  return copies;
}

void ClusterOrder::warpgroup_issued(const machine::WarpgroupIssue& event) {
  const ThreadKey key = warpgroup_of(*event.fragment);
  std::deque<Gathering>& open = warpgroup_issues_[key];
  const size_t place = event.number - sequence(warpgroups_, key).issued - 1;
  if (place >= open.size()) open.resize(place + 1);
  threads_.release(warp_number(*event.fragment), kAllLanes, open[place]);
}

void ClusterOrder::warpgroup_waited(const machine::WarpgroupWait& event) {
  const uint32_t number = warp_number(*event.fragment);
  VectorClock ended;
  ended.raise(sequence(warpgroups_, warpgroup_of(*event.fragment)).component, event.ended);
  threads_.acquire(number, kAllLanes, std::make_shared<VectorClock>(std::move(ended)));
  threads_.warp(number).accessed = true;  // there is something new to release
}

IssuedOperation ClusterOrder::operation_issued(const machine::AsyncOperation& event) {
  IssuedOperation issued{event, static_cast<uint32_t>(operations_.size()), std::nullopt};
  if (event.completion == AsyncCompletion::warpgroup) {
    std::deque<Gathering>& open = warpgroup_issues_[warpgroup_of(*event.fragment)];
    issued.together = std::move(open.front().clock);
    open.pop_front();
  }
  const uint32_t number = warp_number(*event.fragment);
  WarpOrder& warp = threads_.warp(number);
  Operation operation;
  operation.warp = number;
  operation.lane = event.lane;
  operation.pc = event.fragment->pc;
  operation.issued = warp.time;
  operation.what = event.what;
  operation.completion = event.completion;
  operation.generic_proxy = event.generic_proxy;
  operation.layout = event.layout;
  operation.known = warp.known(event.lane);
  operation.awaited = warp.awaited;
  note_places(operation, event);
  warp.accessed = true;
  // A commit releases what a wait was for, as an arrival does.
  if (event.completion == AsyncCompletion::tensor_arrive) ++warp.arrival_count;
  set_end(operation, event, ThreadKnowledge::component_of(number, event.lane), issued.index);
  operations_.push_back(std::move(operation));
  return issued;
}

/// Returns the barrier that an operation completes on or arrives at.
BarrierOrder& ClusterOrder::expect_at_barrier(const machine::AsyncOperation& event, uint32_t index) {
  BarrierOrder& barrier =
      barriers_[barrier_index(event.barrier >> machine::kSharedRankShift, event.barrier & machine::kSharedOffsetMask)];
  barrier.under_way.push_back(index);
  return barrier;
}

/// Says by what the end of an operation will be known.
void ClusterOrder::set_end(Operation& operation, const machine::AsyncOperation& event, ThreadKey thread,
                           uint32_t index) {
  // It is one more of its sequence, and an arrival that comes later has what its own issuer knew.
  const auto continue_sequence = [&](Sequence& mine) {
    operation.component = mine.component;
    operation.time = ++mine.issued;
    operation.known = nullptr;
  };
  // It stands for all of the sequence so far, and arrives at its barrier later.
  const auto end_sequence = [&](const Sequence& mine) {
    operation.component = mine.component;
    operation.time = mine.issued;
    pending_operations_[event.number] = index;
    if (event.has_barrier) expect_at_barrier(event, index);
  };
  switch (event.completion) {
    case AsyncCompletion::mbarrier: {
      BarrierOrder& barrier = expect_at_barrier(event, index);
      barrier.is_for_copies = true;
      operation.barrier = barrier_index(barrier.rank, barrier.offset);
      operation.phase = barrier.ends;
      pending_operations_[event.number] = index;
      break;
    }
    case AsyncCompletion::bulk_group: continue_sequence(sequence(bulk_, thread)); break;
    case AsyncCompletion::copy_group: continue_sequence(sequence(copies_, thread)); break;
    case AsyncCompletion::tensor_pipe: continue_sequence(sequence(tensor_, thread)); break;
    case AsyncCompletion::warpgroup: continue_sequence(sequence(warpgroups_, warpgroup_of(*event.fragment))); break;
    case AsyncCompletion::copies_arrive: end_sequence(sequence(copies_, thread)); break;
    case AsyncCompletion::tensor_arrive: end_sequence(sequence(tensor_, thread)); break;
  }
}

}  // namespace stagecraft::emulator::checks
