#include "emulator/checks/synchronisation/misuse_report.hpp"

#include <fmt/format.h>

#include <bit>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "emulator/state/barrier_misuse.hpp"
#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::checks {

using machine::BarrierMistake;
using machine::BarrierMisuse;
using machine::BarrierPlace;
using machine::Block;
using machine::kMbarrierBytes;
using machine::kMbarrierLimit;
using machine::Mbarrier;

namespace {

using Lines = std::vector<std::string>;

/// "full[2]"
std::string name_in_block(const Block& block, uint32_t offset) {
  return block.cluster->grid->kernel->name_of_barrier(offset);
}

/// The same, with its block if the cluster has several.
std::string name_in_cluster(const Block& block, uint32_t offset) {
  const std::string name = name_in_block(block, offset);
  if (block.cluster->blocks.size() == 1) return name;
  return fmt::format("{} of block ({},{},{})", name, block.index.x, block.index.y, block.index.z);
}

std::string name_of(const BarrierMisuse& misuse) { return name_in_cluster(*misuse.block, misuse.offset); }

std::string spell_place(const Block& block, const BarrierPlace& place) {
  const std::string source = block.cluster->grid->kernel->describe_source(place.pc);
  return fmt::format("{}warp {}, lane {}", source.empty() ? std::string() : source + " by ", place.warp,
                     place.lanes == 0 ? 0 : machine::first_lane(place.lanes));
}

/// The barrier's state, and where it was initialised.
Lines state_of(const BarrierMisuse& misuse, const Lines& advice) {
  const Mbarrier& barrier = *misuse.barrier;
  Lines lines = machine::describe(barrier, name_of(misuse));
  lines.push_back(fmt::format("initialised at {}, for {} arrival{} per phase",
                              spell_place(*misuse.block, barrier.initialised), barrier.expected,
                              barrier.expected == 1 ? "" : "s"));
  lines.insert(lines.end(), advice.begin(), advice.end());
  return lines;
}

/// What a report says besides its place.
struct Words {
  std::string message;
  Lines details;
  std::string likely_cause{};
};

Words count_out_of_range(const BarrierMisuse& misuse) {
  return {fmt::format("{}: the arrival count {} is out of range", misuse.what, misuse.value),
          {fmt::format("legal are 1 to {} (2^20 - 1)", kMbarrierLimit)}};
}

Words transaction_out_of_range(const BarrierMisuse& misuse) {
  return {fmt::format("{}: the transaction count of {} would become {}", misuse.what, name_of(misuse), misuse.value),
          state_of(misuse, {fmt::format("legal are {} to {} bytes (2^20 - 1) in one phase", -int64_t{kMbarrierLimit},
                                        kMbarrierLimit)}),
          misuse.value > 0 ? "expect_tx counts bytes, of one phase: is it announced for several phases at once, or in "
                             "another unit?"
                           : "copies signal this barrier round after round, and nobody announces their bytes with "
                             "expect_tx"};
}

Words pending_out_of_range(const BarrierMisuse& misuse) {
  return {fmt::format("{}: the pending count of {} would exceed {}", misuse.what, name_of(misuse), kMbarrierLimit),
          state_of(misuse, {})};
}

Words parity_out_of_range(const BarrierMisuse& misuse) {
  return {
      fmt::format("{}: waits for {} with parity {}, which no phase has", misuse.what, name_of(misuse), misuse.value),
      state_of(misuse, {"legal are 0, for the phases of even number, and 1, for those of odd number"}),
      "the wait is given the number of a phase, a round or a row, where it takes a parity: pass the lowest bit, "
      "NUMBER & 1"};
}

/// The next barrier of the same array, for as many arrivals, where nothing has happened yet; empty: it is not so.
std::string unused_sibling(const BarrierMisuse& misuse) {
  const auto& live = misuse.block->mbarriers.live;
  const auto next = live.find(misuse.offset + kMbarrierBytes);
  if (next == live.end() || next->second.phase != 0 || !next->second.at_rest()) return {};
  if (next->second.expected != misuse.barrier->expected) return {};
  const std::string name = name_of(misuse);
  std::string sibling = name_in_cluster(*misuse.block, next->first);
  const size_t bracket = name.find('[');
  return bracket != std::string::npos && sibling.starts_with(name.substr(0, bracket + 1)) ? sibling : std::string();
}

/// Returns the likely cause of an arrival that the phase has no room for. `has_arrived`: a thread has arrived in this
/// phase.
std::string cause_of_surplus(const BarrierMisuse& misuse, bool has_arrived) {
  const Mbarrier& barrier = *misuse.barrier;
  const std::string name = name_of(misuse);
  const BarrierPlace &here = misuse.here, &last = barrier.last_arrival;
  const bool same_warp = has_arrived && misuse.fragment != nullptr && here.warp == last.warp;
  const bool same_lanes = same_warp && here.lanes == last.lanes;
  if (same_lanes && misuse.is_plain_arrival && last.announces) {
    return fmt::format(
        "announcing bytes (arrive.expect_tx) has counted as this thread's arrival: leave this one out, or initialise "
        "{} for both",
        name);
  }
  if (same_lanes && here.pc != last.pc && here.announces && last.announces) {
    return fmt::format(
        "announcing bytes (arrive.expect_tx) is an arrival as well, and this thread has announced some of this phase "
        "before: announce the sum of all copies once, or initialise {} for both",
        name);
  }
  const bool other_lane = same_warp && here.pc == last.pc && here.lanes != last.lanes;
  if (misuse.value > barrier.expected || std::popcount(here.lanes) > 1 || other_lane) {
    return fmt::format(
        "every active lane arrives on its own: initialise {} for all of them, or let one elected lane arrive", name);
  }
  // With one arrival in each phase, the last one was the only one.
  const bool other_warp = has_arrived && misuse.fragment != nullptr && here.warp != last.warp && here.pc == last.pc;
  if (other_warp && barrier.expected == 1 && &misuse.fragment->block() == misuse.block) {
    return fmt::format(
        "warp {} and warp {} both come to this line in one phase, and {} counts one arrival: is it one role's, and do "
        "two warps take that role?",
        last.warp, here.warp, name);
  }
  if (barrier.pending == 0 && barrier.transaction > 0) {
    // One thread in a loop: does it go on to the next stage? In a cluster it may be the same thread of another block.
    const bool again = has_arrived && here.is_same_thread(last) && here.pc == last.pc;
    const bool is_alone = misuse.block->cluster->blocks.size() == 1;
    const std::string unused = again && is_alone ? unused_sibling(misuse) : std::string();
    return "an arrival for the next phase, while the bytes of this one are still to come: nobody made it wait for the "
           "phase to end, as a producer does by waiting until its slot is free; or the slot was released by somebody "
           "who had not waited for the bytes" +
           (unused.empty() ? std::string() : fmt::format("; or is {} meant, which nobody has used yet?", unused));
  }
  return "more threads arrive in one phase than mbarrier.init announced, or one arrives for the next phase and nobody "
         "made it wait for this one to end";
}

Words too_many_arrivals(const BarrierMisuse& misuse) {
  const Mbarrier& barrier = *misuse.barrier;
  const bool has_arrived = barrier.pending < barrier.expected && barrier.last_arrival.lanes != 0;
  Lines before;
  if (has_arrived) {
    before.push_back(
        fmt::format("the last arrival before was at {}", spell_place(*misuse.block, barrier.last_arrival)));
  }
  return {fmt::format("{}: {} arrival{} at {}, where {} of {} are pending", misuse.what, misuse.value,
                      misuse.value == 1 ? "" : "s", name_of(misuse), barrier.pending, barrier.expected),
          state_of(misuse, before), cause_of_surplus(misuse, has_arrived)};
}

Words phase_would_end(const BarrierMisuse& misuse) {
  return {fmt::format("{}: this arrival would end the phase of {}", misuse.what, name_of(misuse)),
          state_of(misuse, {".noComplete promises that the phase goes on; use a plain mbarrier.arrive for the last "
                            "arrival"})};
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
std::string cause_of_reinitialisation(const BarrierMisuse& misuse) {
  if (misuse.barrier->initialised.pc != misuse.here.pc)
    return "it is initialised in two places, or two barriers share one address";
  if (misuse.by_several_threads) {
    return "more than one thread initialises it: one must, before the others use it";
  }
  return "the code that initialises it runs again, in a loop or a function that is called again, before all threads "
         "are done with the barrier: put a __syncthreads() after their last wait, or initialise it once, before the "
         "loop";
}

Words already_live(const BarrierMisuse& misuse) {
  Lines advice;
  if (!misuse.barrier->at_rest()) advice.push_back(describe_unrest(*misuse.barrier));
  advice.push_back("to initialise it again, end it first with mbarrier.inval, when nobody uses it any more");
  return {fmt::format("{}: {} is already live", misuse.what, name_of(misuse)), state_of(misuse, advice),
          cause_of_reinitialisation(misuse)};
}

/// Why no barrier is live there, where none has ended.
std::string cause_of_absence(const Block& block, uint32_t offset) {
  std::string cause =
      "a thread ran ahead of mbarrier.init, or nobody initialises it: let one thread do so, then __syncthreads() (for "
      "other blocks of the cluster: fence.mbarrier_init and a cluster barrier) before anyone uses the barrier";
  // The address may follow an array of barriers that is too short, or that is not completely initialised.
  const auto above = block.mbarriers.live.lower_bound(offset);
  if (above == block.mbarriers.live.begin() || std::prev(above)->first + kMbarrierBytes != offset) return cause;
  const std::string own = name_in_cluster(block, offset), before = name_in_block(block, std::prev(above)->first);
  // A variable of its own that is merely placed behind an array is more likely one that nobody has initialised.
  const auto variable_at = [&](uint32_t place) {
    const std::string name = block.cluster->grid->kernel->name_of_shared(place, kMbarrierBytes);
    return name.substr(0, name.find('['));
  };
  const bool is_other =
      !own.starts_with("shared memory") && variable_at(offset) != variable_at(std::prev(above)->first);
  return is_other ? fmt::format(
                        "others of the block's barriers are initialised, and not {}: is its mbarrier.init missing, or "
                        "does it come later? Or, since it is the one after {}, does an index run past that array? "
                        "Otherwise, {}",
                        own, before, cause)
                  : fmt::format(
                        "this is the place after {}: does an index run past its array, or are more barriers used than "
                        "initialised? Otherwise, {}",
                        before, cause);
}

/// "live mbarriers of the block: full[0], full[1]"
std::string describe_live(const Block& block) {
  if (block.mbarriers.live.empty()) return "the block has no live mbarrier";
  std::string names;
  size_t shown = 0;
  for (const auto& [offset, barrier] : block.mbarriers.live) {
    if (shown++ == 16) {
      names += ", ...";
      break;
    }
    names += (names.empty() ? "" : ", ") + name_in_block(block, offset);
  }
  return fmt::format("live mbarriers of the block: {}", names);
}

Words not_live(const BarrierMisuse& misuse) {
  const Block& block = *misuse.block;
  Words words{fmt::format("{}: no mbarrier is initialised at {} (shared offset 0x{:x})", misuse.what, name_of(misuse),
                          misuse.offset),
              {}};
  const auto ended = block.mbarriers.invalidated.find(misuse.offset);
  if (ended != block.mbarriers.invalidated.end()) {
    words.details.push_back(fmt::format("mbarrier.inval was at {}", spell_place(block, ended->second)));
    words.likely_cause = "mbarrier.inval has ended the barrier that was here: initialise it again before it is used";
  } else {
    words.likely_cause = cause_of_absence(block, misuse.offset);
  }
  words.details.push_back(describe_live(block));
  return words;
}

Words written_over(const BarrierMisuse& misuse) {
  return {
      fmt::format("{}: {} has been written over with 0x{:016x}", misuse.what, name_of(misuse),
                  static_cast<uint64_t>(misuse.value)),
      state_of(misuse, {"to use the memory for something else, end the barrier with mbarrier.inval"}),
      "something stored to these 8 bytes while the barrier was live: an overlapping buffer, or a copy that runs past "
      "its end; the chip's barrier would be corrupt"};
}

Words still_waited_for(const BarrierMisuse& misuse) {
  return {fmt::format("{}: warp {} still waits on {}", misuse.what, misuse.barrier->waiting.front()->warp->index,
                      name_of(misuse)),
          state_of(misuse, {"it could never be woken; invalidate a barrier when nobody uses it any more"})};
}

Words words_for(const BarrierMisuse& misuse) {
  switch (misuse.mistake) {
    case BarrierMistake::count_out_of_range: return count_out_of_range(misuse);
    case BarrierMistake::transaction_out_of_range: return transaction_out_of_range(misuse);
    case BarrierMistake::pending_out_of_range: return pending_out_of_range(misuse);
    case BarrierMistake::parity_out_of_range: return parity_out_of_range(misuse);
    case BarrierMistake::too_many_arrivals: return too_many_arrivals(misuse);
    case BarrierMistake::phase_would_end: return phase_would_end(misuse);
    case BarrierMistake::already_live: return already_live(misuse);
    case BarrierMistake::not_live: return not_live(misuse);
    case BarrierMistake::written_over: return written_over(misuse);
    case BarrierMistake::still_waited_for: return still_waited_for(misuse);
  }
  return {misuse.message, {}};
}

}  // namespace

void MisuseReport::barrier_misused(const BarrierMisuse& misuse, machine::Diagnostic& report) {
  Words words = words_for(misuse);
  report.message = std::move(words.message);
  report.details.insert(report.details.begin(), words.details.begin(), words.details.end());
  report.likely_cause = std::move(words.likely_cause);
}

}  // namespace stagecraft::emulator::checks
