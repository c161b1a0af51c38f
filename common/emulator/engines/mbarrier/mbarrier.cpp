#include "emulator/engines/mbarrier/mbarrier.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "emulator/engines/lane_operand.hpp"
#include "emulator/state/barrier_misuse.hpp"
#include "emulator/state/waiting.hpp"

namespace stagecraft::emulator::machine {

namespace {

BarrierPlace place_of(const BarrierActor& actor) {
  if (actor.fragment == nullptr) return {};
  return {actor.fragment->pc, actor.fragment->warp->index, actor.lanes};
}

/// Makes the fault of a wrong use of a barrier.
BarrierMisuse misuse(BarrierMistake mistake, const BarrierReference& reference, const BarrierActor& actor,
                     int64_t value = 0) {
  BarrierMisuse fault(mistake, actor.what, actor.lanes);
  fault.block = reference.block;
  fault.offset = reference.offset;
  fault.barrier = reference.barrier;
  fault.fragment = actor.fragment;
  fault.here = place_of(actor);
  fault.value = value;
  return fault;
}

/// Counts how often threads of the block have met at barriers that are not in memory.
uint64_t meetings_of(const Block& block) {
  uint64_t meetings = block.cluster->barrier_generation;
  for (const NamedBarrier& barrier : block.named_barriers) meetings += barrier.generation;
  return meetings;
}

/// Whether several threads do what one must: nothing but their initialisations has ended a phase or made threads meet.
bool is_initialised_by_several(const Block& block, const Mbarrier& barrier, const BarrierPlace& here) {
  return barrier.phase == 0 && !barrier.initialised.is_same_thread(here) &&
         barrier.meetings_before == meetings_of(block);
}

void announce(const BarrierReference& reference, BarrierEventKind kind, uint64_t amount, const BarrierActor& actor) {
  const Grid& grid = *reference.block->cluster->grid;
  if (grid.observers.empty()) return;
  const BarrierEvent event{
      kind,           reference.block, reference.offset, reference.barrier->phase, static_cast<uint32_t>(amount),
      actor.fragment, actor.lanes,     actor.semantics,  actor.operation};
  for (Observer* observer : grid.observers) observer->barrier_changed(event);
}

void store_word(const BarrierReference& reference) {
  const uint64_t word = word_of(*reference.barrier);
  std::memcpy(reference.block->shared.data() + reference.offset, &word, sizeof word);
}

/// Ends the phase if nothing is pending any more, wakes its waiters, and writes the barrier's word. Every operation
/// that counts arrivals or bytes down, or announces bytes, calls it last.
void settle(const BarrierReference& reference, const BarrierActor& actor) {
  Mbarrier& barrier = *reference.barrier;
  if (barrier.complete()) {
    announce(reference, BarrierEventKind::phase_complete, 0, actor);
    ++barrier.phase;
    barrier.pending = barrier.expected;
    barrier.announced = 0;
    std::vector<Fragment*> sleepers = std::exchange(barrier.waiting, {});
    for (Fragment* fragment : sleepers) {
      reference.block->mbarriers.forget(*fragment);  // from the lists of the other barriers that it slept on
      wake(*fragment);
    }
    sleepers.clear();
    barrier.waiting = std::move(sleepers);  // reuses the memory for the next phase: no waiter has come in between
  }
  store_word(reference);
}

void check_arrival_count(uint64_t count, const BarrierActor& actor) {
  if (count >= 1 && count <= kMbarrierLimit) return;
  throw misuse(BarrierMistake::count_out_of_range, {}, actor, static_cast<int64_t>(count));
}

void change_transaction(const BarrierReference& reference, int64_t change, const BarrierActor& actor) {
  Mbarrier& barrier = *reference.barrier;
  const int64_t value = barrier.transaction + change;
  if (value > int64_t{kMbarrierLimit} || value < -int64_t{kMbarrierLimit}) {
    throw misuse(BarrierMistake::transaction_out_of_range, reference, actor, value);
  }
  barrier.transaction = value;
}

void count_arrival(const BarrierReference& reference, const Arrival& arrival, const BarrierActor& actor) {
  check_arrival_count(arrival.count, actor);
  Mbarrier& barrier = *reference.barrier;
  if (arrival.count > barrier.pending) {
    BarrierMisuse fault =
        misuse(BarrierMistake::too_many_arrivals, reference, actor, static_cast<int64_t>(arrival.count));
    fault.here.announces = arrival.announces;
    fault.is_plain_arrival = !arrival.announces && !arrival.drop && !arrival.no_complete;
    throw fault;
  }
  const uint32_t count = static_cast<uint32_t>(arrival.count);
  if (arrival.no_complete && count == barrier.pending && barrier.transaction == 0) {
    throw misuse(BarrierMistake::phase_would_end, reference, actor);
  }
  barrier.pending -= count;
  if (actor.fragment != nullptr) {
    barrier.last_arrival = place_of(actor);
    barrier.last_arrival.announces = arrival.announces;
  }
  if (arrival.drop) barrier.expected -= std::min(count, barrier.expected);
  announce(reference, BarrierEventKind::arrive, count, actor);
}

/// Permits the initialisation of a live barrier where it is at rest: PTX leaves that undefined, but the instruction
/// overwrites a word that nothing waits for, and on an H200 the barrier is as new. Observers learn of it, except where
/// nothing has happened since the same thread initialised it, as in pipelines of CUTLASS whose base class does so too.
/// The event's amount is 1 where other data have been stored over the barrier in between. Throws Fault where the
/// barrier is in use.
void check_reinitialisation(const BarrierReference& reference, const BarrierActor& actor) {
  Block& block = *reference.block;
  const Mbarrier& barrier = *reference.barrier;
  const BarrierPlace here = place_of(actor);
  const bool at_rest = barrier.at_rest();
  if (at_rest && barrier.phase == 0 && barrier.initialised.is_same_thread(here)) return;
  // A program that has stored other data here since has ended the barrier in effect, without mbarrier.inval.
  uint64_t stored = 0;
  std::memcpy(&stored, block.shared.data() + reference.offset, sizeof stored);
  if (stored != word_of(barrier) && barrier.waiting.empty()) {
    announce(reference, BarrierEventKind::reinitialise, /*amount=*/1, actor);
    return;
  }
  const bool by_several = is_initialised_by_several(block, barrier, here);
  if (at_rest && !by_several) {
    announce(reference, BarrierEventKind::reinitialise, 0, actor);
    return;
  }
  BarrierMisuse fault = misuse(BarrierMistake::already_live, reference, actor);
  fault.by_several_threads = by_several;
  throw fault;
}

}  // namespace

BarrierReference find_barrier(Block& block, uint32_t offset, const char* what) {
  const auto found = block.mbarriers.live.find(offset);
  if (found == block.mbarriers.live.end()) {
    throw misuse(BarrierMistake::not_live, {&block, offset}, BarrierActor{.what = what});
  }
  const BarrierReference reference{&block, offset, &found->second};
  uint64_t stored = 0;
  std::memcpy(&stored, block.shared.data() + offset, sizeof stored);
  if (stored != word_of(found->second)) {
    throw misuse(BarrierMistake::written_over, reference, BarrierActor{.what = what}, static_cast<int64_t>(stored));
  }
  return reference;
}

BarrierReference find_barrier(Cluster& cluster, uint32_t address, const char* what) {
  Block& block = block_with(cluster, address, kMbarrierBytes, kMbarrierBytes, what);
  return find_barrier(block, address & kSharedOffsetMask, what);
}

void init_barrier(Block& block, uint32_t address, uint64_t count, const BarrierActor& actor) {
  block_in_scope(block, address, kMbarrierBytes, kMbarrierBytes, SharedScope::block, actor.what);
  check_arrival_count(count, actor);
  const uint32_t offset = address & kSharedOffsetMask;
  if (const auto found = block.mbarriers.live.find(offset); found != block.mbarriers.live.end()) {
    check_reinitialisation({&block, offset, &found->second}, actor);
  }
  Mbarrier& barrier = block.mbarriers.live[offset];
  barrier = Mbarrier{};
  barrier.expected = barrier.pending = static_cast<uint32_t>(count);
  barrier.initialised = place_of(actor);
  block.cluster->grid->kernel->barrier_names.note(offset, barrier.initialised.pc);
  barrier.meetings_before = meetings_of(block);
  block.mbarriers.invalidated.erase(offset);
  const BarrierReference reference{&block, offset, &barrier};
  store_word(reference);
  announce(reference, BarrierEventKind::init, count, actor);
}

void invalidate_barrier(Block& block, uint32_t address, const BarrierActor& actor) {
  block_in_scope(block, address, kMbarrierBytes, kMbarrierBytes, SharedScope::block, actor.what);
  const uint32_t offset = address & kSharedOffsetMask;
  const BarrierReference reference = find_barrier(block, offset, actor.what);
  if (!reference.barrier->waiting.empty()) throw misuse(BarrierMistake::still_waited_for, reference, actor);
  announce(reference, BarrierEventKind::invalidate, 0, actor);
  block.mbarriers.live.erase(offset);
  block.mbarriers.invalidated.insert_or_assign(offset, place_of(actor));
}

uint64_t arrive(const BarrierReference& reference, const Arrival& arrival, const BarrierActor& actor) {
  const uint64_t state = word_of(*reference.barrier);
  count_arrival(reference, arrival, actor);
  settle(reference, actor);
  return state;
}

void expect_transaction(const BarrierReference& reference, uint64_t bytes, const BarrierActor& actor) {
  change_transaction(reference, static_cast<int64_t>(bytes), actor);
  reference.barrier->announced += static_cast<int64_t>(bytes);
  announce(reference, BarrierEventKind::expect_tx, bytes, actor);
  settle(reference, actor);
}

uint64_t arrive_and_expect(const BarrierReference& reference, uint64_t bytes, const Arrival& arrival,
                           const BarrierActor& actor) {
  const uint64_t state = word_of(*reference.barrier);
  change_transaction(reference, static_cast<int64_t>(bytes), actor);
  reference.barrier->announced += static_cast<int64_t>(bytes);
  announce(reference, BarrierEventKind::expect_tx, bytes, actor);
  count_arrival(reference, arrival, actor);
  settle(reference, actor);
  return state;
}

void complete_transaction(const BarrierReference& reference, uint64_t bytes, const BarrierActor& actor) {
  change_transaction(reference, -static_cast<int64_t>(bytes), actor);
  announce(reference, BarrierEventKind::complete_tx, bytes, actor);
  settle(reference, actor);
}

void add_pending(const BarrierReference& reference, const BarrierActor& actor) {
  Mbarrier& barrier = *reference.barrier;
  if (barrier.pending >= kMbarrierLimit) throw misuse(BarrierMistake::pending_out_of_range, reference, actor);
  ++barrier.pending;
  store_word(reference);
}

void check_parity(const BarrierReference& reference, uint32_t parity, const BarrierActor& actor) {
  if (parity > 1) throw misuse(BarrierMistake::parity_out_of_range, reference, actor, parity);
}

void complete_transaction(Cluster& cluster, uint32_t address, uint64_t bytes, const char* what, uint64_t operation) {
  complete_transaction(find_barrier(cluster, address, what), bytes, BarrierActor{.what = what, .operation = operation});
}

void arrive_asynchronously(Cluster& cluster, uint32_t address, uint32_t count, const char* what, uint64_t operation) {
  arrive(find_barrier(cluster, address, what), Arrival{count}, BarrierActor{.what = what, .operation = operation});
}

void MbarrierTable::forget(Fragment& fragment) {
  if (fragment.wait.kind != WaitKind::mbarrier) return;
  const auto erase_from = [&](std::vector<Fragment*>& list) {
    const auto kept = std::remove(list.begin(), list.end(), &fragment);
    const bool found = kept != list.end();
    list.erase(kept, list.end());
    return found;
  };
  if (!waiting_on_several.empty() && erase_from(waiting_on_several)) {
    for (auto& [offset, barrier] : live) erase_from(barrier.waiting);
    return;
  }
  const auto found = live.find(fragment.wait.address & kSharedOffsetMask);
  if (found != live.end()) erase_from(found->second.waiting);
}

Cycle cycles_of(uint64_t nanoseconds, const Grid& grid) {
  const double cycles = static_cast<double>(nanoseconds) * grid.architecture->clock_khz / 1e6;
  return std::max<Cycle>(1, static_cast<Cycle>(cycles));
}

}  // namespace stagecraft::emulator::machine
