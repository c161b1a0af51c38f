// Where the fault is in a place or a size, and not in a wait: an operand, a copy or a buffer that is not where the
// program means it to be.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "emulator/checks/causes/brought_bytes.hpp"
#include "emulator/checks/ordering/wording.hpp"
#include "emulator/checks/race/race_cause.hpp"

namespace stagecraft::emulator::checks {

std::string RaceCause::operand_elsewhere(const Operation& product, const Operation* copy) const {
  const uint32_t rank = address_ >> machine::kSharedRankShift, offset = address_ & machine::kSharedOffsetMask;
  const uint32_t a = product.operands[0], b = product.operands[1];
  const uint32_t none = Operation::kNowhere;
  if (b == none || product.awaited.barrier == AwaitedPhase::kNone) return {};
  // The operand that begins last before the place.
  const bool is_b = a == none || a > offset || (b <= offset && b > a);
  const uint32_t start = is_b ? b : a;
  if (start > offset) return {};
  const auto is_in = [&](const std::vector<BroughtRange>& ranges, uint32_t at) {
    return std::any_of(ranges.begin(), ranges.end(), [&](const BroughtRange& range) {
      return range.rank == rank && range.begin <= at && at < range.end;
    });
  };
  // What threads write, no copy brings.
  bool is_of_threads = false;
  if (rank < cluster_.memory.size()) {
    cluster_.memory[rank].for_each_write(
        start, 1, [&](const PastAccess& write, uint32_t) { is_of_threads = !write.is_asynchronous(); });
  }
  if (is_of_threads) return {};
  const AwaitedPhase& awaited = product.awaited;
  const std::vector<BroughtRange> brought = brought_in(cluster_, awaited.barrier, awaited.phase);
  const std::string places = spell_brought(cluster_, brought);
  if (places.empty() || brought.empty() || is_in(brought, offset) || is_in(brought, start)) return {};
  // Where it begins as the copy does, for which its thread has never waited, that wait may be missing: unless the other
  // operand came in the awaited phase, with a tile that this product does not read.
  const uint32_t other = is_b ? a : b;
  const auto holds = [](const BroughtRange& range, uint32_t at) { return range.begin <= at && at < range.end; };
  const bool is_other_there =
      std::any_of(brought.begin(), brought.end(), [&](const BroughtRange& range) { return holds(range, other); });
  const bool is_a_tile_left = std::any_of(
      brought.begin(), brought.end(), [&](const BroughtRange& range) { return !holds(range, a) && !holds(range, b); });
  const auto& waits = order_.warp(product.warp).waits;
  const bool begins_as_copy = copy != nullptr && start == copy->begin;
  const bool has_waited = begins_as_copy && waits.find(copy->barrier) != waits.end();
  if (begins_as_copy && !has_waited && (!is_other_there || !is_a_tile_left)) return {};
  // One that stays for several rounds of another ring has been waited for before them, and was released too early.
  if (has_waited &&
      variable_of(cluster_, order_.barrier(copy->barrier)) != variable_of(cluster_, order_.barrier(awaited.barrier))) {
    return {};
  }
  // A and B may have barriers of their own.
  for (const auto& [index, wait] : waits) {
    if (wait.phases == 0 || index == awaited.barrier || !order_.barrier(index).is_for_copies) continue;
    if (is_in(brought_in(cluster_, index, wait.phases - 1), start)) return {};
  }
  return fmt::format(
      "{} of the {}{} begins at {} in shared memory, outside of what the copies of the phase brought that its thread "
      "waited for last (phase {} of {}: {}): is its start address right, or is it another slot's?",
      is_b ? "B" : "A", product.what, line(product.pc), cluster_.kernel().name_of_shared_byte(start), awaited.phase,
      name(order_.barrier(awaited.barrier)), places);
}

std::string RaceCause::in_sizes(const Operation& first, const Operation& second) const {
  const bool later = second.begin > first.begin;
  const Operation &low = later ? first : second, &high = later ? second : first;
  if (first.begin == second.begin || low.begin + low.bytes <= high.begin) return {};
  return fmt::format(
      "two blocks bring parts for the same phase of {}, and the part at {}, of {} bytes, ends inside the one at {}, of "
      "{} bytes: does each copy bring the whole tile where it is to bring its block's slice, as with a tensor map "
      "whose box is that of the whole tile?",
      name(order_.barrier(first.barrier)), cluster_.kernel().name_of_shared_byte(low.begin), low.bytes,
      cluster_.kernel().name_of_shared_byte(high.begin), high.bytes);
}

std::string RaceCause::in_groups(const Operation& copy) const {
  const GroupNotes* notes = order_.groups_of(copy.warp, copy.lane);
  if (notes == nullptr || notes->issued < copy.time || copy.time <= notes->ended) return {};
  const auto own = std::find_if(notes->commits.begin(), notes->commits.end(),
                                [&](const GroupNotes::Commit& commit) { return commit.issued >= copy.time; });
  const bool is_committed = own != notes->commits.end();
  if (own != notes->commits.begin()) {
    // Where each group begins with what the round before issued after its commit, the very first one is smaller.
    const GroupNotes::Commit& before = *std::prev(own);
    const bool begins_group = before.issued + 1 == copy.time;
    if (begins_group && (!is_committed || own->issued - before.issued > notes->first_group)) {
      return fmt::format(
          "the {} was issued after the commit_group{}, so that it belongs to the next group, and the wait_group{} does "
          "not wait for that: commit after the last copy of a group",
          copy.what, line(before.pc), line(notes->wait_pc));
    }
  }
  if (!is_committed || notes->keep == 0) return {};
  const auto place = static_cast<uint32_t>(notes->commits.end() - own);  // 1: of the youngest group
  return fmt::format(
      "the copy may not have read its source yet: a wait for N groups leaves the youngest N pending, the wait_group{} "
      "the youngest {}, and this {} is of number {} of these: let no more than {} stay pending{}",
      line(notes->wait_pc), notes->keep, copy.what, place, place - 1,
      place == 1 ? ", or, where groups in a row are to have buffers of their own, is this the same buffer again?" : "");
}

std::string RaceCause::in_other_block(const PastAccess& thread, const Operation& copy) const {
  const uint32_t warps = order_.warps_per_block(), rank = address_ >> machine::kSharedRankShift;
  const uint32_t own = thread.agent / warps;
  if (own == rank || !thread.writes() || order_.barrier(copy.barrier).rank != rank) return {};
  for (const auto& [index, wait] : order_.warp(thread.agent).waits) {
    // What the other block arrives at, or a barrier there, may speak of the copy.
    const BarrierOrder& barrier = order_.barrier(index);
    if (wait.phases > 0 && (barrier.has_remote_arrivals || barrier.rank != own)) return {};
  }
  return fmt::format(
      "the store goes into the shared memory of the block of rank {}, where a copy brings what that block reads, and "
      "the two blocks are not synchronised: put a cluster barrier (cluster.sync()) between the last use of the bytes "
      "there and this store, or let that block arrive on an mbarrier of this one",
      rank);
}

}  // namespace stagecraft::emulator::checks
