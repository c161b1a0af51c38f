#include "emulator/engines/mbarrier/mbarrier.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "emulator/engines/lane_operand.hpp"
#include "emulator/state/waiting.hpp"

namespace stagecraft::emulator::machine {

namespace {

/// Names a barrier: "full[2]", with its block if the cluster has several.
std::string name_of_barrier(const Block& block, uint32_t offset) {
  const std::string name = block.cluster->grid->kernel->name_of_shared(offset, kMbarrierBytes);
  if (block.cluster->blocks.size() == 1) return name;
  return fmt::format("{} of block ({},{},{})", name, block.index.x, block.index.y, block.index.z);
}

std::string spell_place(const Block& block, const BarrierPlace& place) {
  const std::string source = block.cluster->grid->kernel->describe_source(place.pc);
  return fmt::format("{}warp {}, lane {}", source.empty() ? std::string() : source + " by ", place.warp,
                     place.lanes == 0 ? 0 : first_lane(place.lanes));
}

/// Returns the details of a report about a barrier: its state, and where it was initialised.
std::vector<std::string> details_of(const BarrierReference& reference, std::vector<std::string> advice) {
  const Mbarrier& barrier = *reference.barrier;
  std::vector<std::string> lines = describe(barrier, name_of_barrier(*reference.block, reference.offset));
  lines.push_back(fmt::format("initialised at {}, for {} arrival{} per phase",
                              spell_place(*reference.block, barrier.initialised), barrier.expected,
                              barrier.expected == 1 ? "" : "s"));
  lines.insert(lines.end(), advice.begin(), advice.end());
  return lines;
}

/// Makes the fault of a wrong use of a barrier. To the program it is a launch failure, as on the chip.
Fault misuse(std::string message, std::vector<std::string> details, std::string likely_cause,
             const BarrierActor& actor = {}) {
  Fault fault(FaultKind::launch_failure, std::move(message), std::move(details), actor.lanes);
  fault.name = kBarrierMisuse;
  fault.likely_cause = std::move(likely_cause);
  return fault;
}

BarrierPlace place_of(const BarrierActor& actor) {
  if (actor.fragment == nullptr) return {};
  return {actor.fragment->pc, actor.fragment->warp->index, actor.lanes};
}

bool is_same_thread(const BarrierPlace& one, const BarrierPlace& other) {
  return one.warp == other.warp && one.lanes == other.lanes;
}

/// Whether nothing has been done in the current phase of the barrier, and nothing sleeps on it.
bool is_at_rest(const Mbarrier& barrier) {
  return barrier.pending == barrier.expected && barrier.announced == 0 && barrier.transaction == 0 &&
         barrier.waiting.empty();
}

/// Counts how often threads of the block have met at barriers that are not in memory.
uint64_t meetings_of(const Block& block) {
  uint64_t meetings = block.cluster->barrier_generation;
  for (const NamedBarrier& barrier : block.named_barriers) meetings += barrier.generation;
  return meetings;
}

/// Whether several threads do what one must: nothing but their initialisations has ended a phase or made threads meet.
bool is_initialised_by_several(const Block& block, const Mbarrier& barrier, const BarrierPlace& here) {
  return barrier.phase == 0 && !is_same_thread(barrier.initialised, here) &&
         barrier.meetings_before == meetings_of(block);
}

/// Says what is still to happen at a barrier that is not at rest.
std::string describe_unrest(const Mbarrier& barrier) {
  if (!barrier.waiting.empty()) {
    return fmt::format("warp {} still waits there, and could never be woken", barrier.waiting.front()->warp->index);
  }
  if (barrier.pending != barrier.expected) {
    return fmt::format("phase {} is under way: {} of {} arrivals have come, and would be forgotten", barrier.phase,
                       static_cast<int64_t>(barrier.expected) - barrier.pending, barrier.expected);
  }
  return fmt::format("phase {} is under way: bytes are announced for it, or have come, and would be forgotten",
                     barrier.phase);
}

/// Returns the likely cause of an initialisation of a live barrier that is not at rest.
std::string cause_of_reinitialisation(const Block& block, const Mbarrier& barrier, const BarrierPlace& here) {
  if (barrier.initialised.pc != here.pc) return "it is initialised in two places, or two barriers share one address";
  if (is_initialised_by_several(block, barrier, here)) {
    return "more than one thread initialises it: one must, before the others use it";
  }
  return "the code that initialises it runs again, in a loop or a function that is called again, before all threads "
         "are done with the barrier: put a __syncthreads() after their last wait, or initialise it once, before the "
         "loop";
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
  throw misuse(fmt::format("{}: the arrival count {} is out of range", actor.what, count),
               {fmt::format("legal are 1 to {} (2^20 - 1)", kMbarrierLimit)}, {}, actor);
}

void change_transaction(const BarrierReference& reference, int64_t change, const BarrierActor& actor) {
  Mbarrier& barrier = *reference.barrier;
  const int64_t value = barrier.transaction + change;
  if (value > int64_t{kMbarrierLimit} || value < -int64_t{kMbarrierLimit}) {
    throw misuse(fmt::format("{}: the transaction count of {} would become {}", actor.what,
                             name_of_barrier(*reference.block, reference.offset), value),
                 details_of(reference, {fmt::format("legal are {} to {} bytes (2^20 - 1) in one phase",
                                                    -int64_t{kMbarrierLimit}, kMbarrierLimit)}),
                 change > 0 ? "expect_tx counts bytes, of one phase: is it announced for several phases at once, or in "
                              "another unit?"
                            : "copies signal this barrier round after round, and nobody announces their bytes with "
                              "expect_tx",
                 actor);
  }
  barrier.transaction = value;
}

/// The next barrier of the same array, for as many arrivals, where nothing has happened yet; empty: it is not so.
std::string unused_sibling(const BarrierReference& reference) {
  const auto& live = reference.block->mbarriers.live;
  const auto next = live.find(reference.offset + kMbarrierBytes);
  if (next == live.end() || next->second.phase != 0 || !is_at_rest(next->second)) return {};
  if (next->second.expected != reference.barrier->expected) return {};
  const std::string name = name_of_barrier(*reference.block, reference.offset);
  std::string sibling = name_of_barrier(*reference.block, next->first);
  const size_t bracket = name.find('[');
  return bracket != std::string::npos && sibling.starts_with(name.substr(0, bracket + 1)) ? sibling : std::string();
}

/// Returns the likely cause of an arrival that the phase has no room for. `has_arrived`: a thread has arrived in this
/// phase.
std::string cause_of_surplus(const BarrierReference& reference, const Arrival& arrival, const BarrierActor& actor,
                             bool has_arrived) {
  const Mbarrier& barrier = *reference.barrier;
  const std::string name = name_of_barrier(*reference.block, reference.offset);
  const BarrierPlace here = place_of(actor), last = barrier.last_arrival;
  const bool same_warp = has_arrived && actor.fragment != nullptr && here.warp == last.warp;
  const bool same_lanes = same_warp && here.lanes == last.lanes;
  const bool is_plain = !arrival.announces && !arrival.drop && !arrival.no_complete;
  if (same_lanes && is_plain && last.announces) {
    return fmt::format(
        "announcing bytes (arrive.expect_tx) has counted as this thread's arrival: leave this one out, or initialise "
        "{} for both",
        name);
  }
  if (same_lanes && here.pc != last.pc && arrival.announces && last.announces) {
    return fmt::format(
        "announcing bytes (arrive.expect_tx) is an arrival as well, and this thread has announced some of this phase "
        "before: announce the sum of all copies once, or initialise {} for both",
        name);
  }
  const bool other_lane = same_warp && here.pc == last.pc && here.lanes != last.lanes;
  if (arrival.count > barrier.expected || std::popcount(actor.lanes) > 1 || other_lane) {
    return fmt::format(
        "every active lane arrives on its own: initialise {} for all of them, or let one elected lane arrive", name);
  }
  // With one arrival in each phase, the last one was the only one.
  const bool other_warp = has_arrived && actor.fragment != nullptr && here.warp != last.warp && here.pc == last.pc;
  if (other_warp && barrier.expected == 1 && &actor.fragment->block() == reference.block) {
    return fmt::format(
        "warp {} and warp {} both come to this line in one phase, and {} counts one arrival: is it one role's, and do "
        "two warps take that role?",
        last.warp, here.warp, name);
  }
  if (barrier.pending == 0 && barrier.transaction > 0) {
    // One thread in a loop: does it go on to the next stage? In a cluster it may be the same thread of another block.
    const bool again = has_arrived && is_same_thread(here, last) && here.pc == last.pc;
    const bool is_alone = reference.block->cluster->blocks.size() == 1;
    const std::string unused = again && is_alone ? unused_sibling(reference) : std::string();
    return "an arrival for the next phase, while the bytes of this one are still to come: nobody made it wait for the "
           "phase to end, as a producer does by waiting until its slot is free; or the slot was released by somebody "
           "who had not waited for the bytes" +
           (unused.empty() ? std::string() : fmt::format("; or is {} meant, which nobody has used yet?", unused));
  }
  return "more threads arrive in one phase than mbarrier.init announced, or one arrives for the next phase and nobody "
         "made it wait for this one to end";
}

void count_arrival(const BarrierReference& reference, const Arrival& arrival, const BarrierActor& actor) {
  check_arrival_count(arrival.count, actor);
  Mbarrier& barrier = *reference.barrier;
  if (arrival.count > barrier.pending) {
    const bool has_arrived = barrier.pending < barrier.expected && barrier.last_arrival.lanes != 0;
    std::vector<std::string> before;
    if (has_arrived) {
      before.push_back(
          fmt::format("the last arrival before was at {}", spell_place(*reference.block, barrier.last_arrival)));
    }
    throw misuse(fmt::format("{}: {} arrival{} at {}, where {} of {} are pending", actor.what, arrival.count,
                             arrival.count == 1 ? "" : "s", name_of_barrier(*reference.block, reference.offset),
                             barrier.pending, barrier.expected),
                 details_of(reference, std::move(before)), cause_of_surplus(reference, arrival, actor, has_arrived),
                 actor);
  }
  const uint32_t count = static_cast<uint32_t>(arrival.count);
  if (arrival.no_complete && count == barrier.pending && barrier.transaction == 0) {
    throw misuse(fmt::format("{}: this arrival would end the phase of {}", actor.what,
                             name_of_barrier(*reference.block, reference.offset)),
                 details_of(reference, {".noComplete promises that the phase goes on; use a plain mbarrier.arrive for "
                                        "the last arrival"}),
                 {}, actor);
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
  const bool at_rest = is_at_rest(barrier);
  if (at_rest && barrier.phase == 0 && is_same_thread(barrier.initialised, here)) return;
  // A program that has stored other data here since has ended the barrier in effect, without mbarrier.inval.
  uint64_t stored = 0;
  std::memcpy(&stored, block.shared.data() + reference.offset, sizeof stored);
  if (stored != word_of(barrier) && barrier.waiting.empty()) {
    announce(reference, BarrierEventKind::reinitialise, /*amount=*/1, actor);
    return;
  }
  if (at_rest && !is_initialised_by_several(block, barrier, here)) {
    announce(reference, BarrierEventKind::reinitialise, 0, actor);
    return;
  }
  std::vector<std::string> advice;
  if (!at_rest) advice.push_back(describe_unrest(barrier));
  advice.push_back("to initialise it again, end it first with mbarrier.inval, when nobody uses it any more");
  throw misuse(fmt::format("{}: {} is already live", actor.what, name_of_barrier(block, reference.offset)),
               details_of(reference, std::move(advice)), cause_of_reinitialisation(block, barrier, here), actor);
}

}  // namespace

BarrierReference find_barrier(Block& block, uint32_t offset, const char* what) {
  const auto found = block.mbarriers.live.find(offset);
  if (found == block.mbarriers.live.end()) {
    std::vector<std::string> details;
    std::string cause;
    if (const auto ended = block.mbarriers.invalidated.find(offset); ended != block.mbarriers.invalidated.end()) {
      details.push_back(fmt::format("mbarrier.inval was at {}", spell_place(block, ended->second)));
      cause = "mbarrier.inval has ended the barrier that was here: initialise it again before it is used";
    } else {
      cause =
          "a thread ran ahead of mbarrier.init, or nobody initialises it: let one thread do so, then __syncthreads() "
          "(for other blocks of the cluster: fence.mbarrier_init and a cluster barrier) before anyone uses the barrier";
      // The address may follow an array of barriers that is too short, or that is not completely initialised.
      const auto above = block.mbarriers.live.lower_bound(offset);
      if (above != block.mbarriers.live.begin() && std::prev(above)->first + kMbarrierBytes == offset) {
        const std::string own = name_of_barrier(block, offset);
        const std::string before = block.cluster->grid->kernel->name_of_shared(std::prev(above)->first, kMbarrierBytes);
        // A variable of its own that is merely placed behind an array is more likely one that nobody has initialised.
        const bool is_other =
            !own.starts_with("shared memory") && own.substr(0, own.find('[')) != before.substr(0, before.find('['));
        cause =
            is_other
                ? fmt::format(
                      "others of the block's barriers are initialised, and not {}: is its mbarrier.init "
                      "missing, or does it come later? Or, since it is the one after {}, does an index run "
                      "past that array? Otherwise, {}",
                      own, before, cause)
                : fmt::format(
                      "this is the place after {}: does an index run past its array, or are more barriers used than "
                      "initialised? Otherwise, {}",
                      before, cause);
      }
    }
    if (block.mbarriers.live.empty()) {
      details.push_back("the block has no live mbarrier");
    } else {
      std::string names;
      size_t shown = 0;
      for (const auto& [other, barrier] : block.mbarriers.live) {
        if (shown++ == 16) {
          names += ", ...";
          break;
        }
        names += (names.empty() ? "" : ", ") + block.cluster->grid->kernel->name_of_shared(other, kMbarrierBytes);
      }
      details.push_back(fmt::format("live mbarriers of the block: {}", names));
    }
    throw misuse(fmt::format("{}: no mbarrier is initialised at {} (shared offset 0x{:x})", what,
                             name_of_barrier(block, offset), offset),
                 std::move(details), std::move(cause));
  }
  const BarrierReference reference{&block, offset, &found->second};
  uint64_t stored = 0;
  std::memcpy(&stored, block.shared.data() + offset, sizeof stored);
  if (stored != word_of(found->second)) {
    throw misuse(
        fmt::format("{}: {} has been written over with 0x{:016x}", what, name_of_barrier(block, offset), stored),
        details_of(reference, {"to use the memory for something else, end the barrier with mbarrier.inval"}),
        "something stored to these 8 bytes while the barrier was live: an overlapping buffer, or a copy that runs past "
        "its end; the chip's barrier would be corrupt");
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
  if (!reference.barrier->waiting.empty()) {
    const Fragment& sleeper = *reference.barrier->waiting.front();
    throw misuse(
        fmt::format("{}: warp {} still waits on {}", actor.what, sleeper.warp->index, name_of_barrier(block, offset)),
        details_of(reference, {"it could never be woken; invalidate a barrier when nobody uses it any more"}), {},
        actor);
  }
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
  if (barrier.pending >= kMbarrierLimit) {
    throw misuse(fmt::format("{}: the pending count of {} would exceed {}", actor.what,
                             name_of_barrier(*reference.block, reference.offset), kMbarrierLimit),
                 details_of(reference, {}), {}, actor);
  }
  ++barrier.pending;
  store_word(reference);
}

void check_parity(const BarrierReference& reference, uint32_t parity, const BarrierActor& actor) {
  if (parity <= 1) return;
  throw misuse(fmt::format("{}: waits for {} with parity {}, which no phase has", actor.what,
                           name_of_barrier(*reference.block, reference.offset), parity),
               details_of(reference, {"legal are 0, for the phases of even number, and 1, for those of odd number"}),
               "the wait is given the number of a phase, a round or a row, where it takes a parity: pass the lowest "
               "bit, NUMBER & 1",
               actor);
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
