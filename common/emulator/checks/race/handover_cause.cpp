// How bytes were handed over between a thread, the tensor core and a copy where one of them did not listen to the
// other.
#include <fmt/format.h>

#include <algorithm>

#include "emulator/checks/ordering/wording.hpp"
#include "emulator/checks/race/race_cause.hpp"

namespace stagecraft::emulator::checks {

using machine::AsyncCompletion;

std::string RaceCause::read_before_copy(const Operation& read, const PresentAccess& now) const {
  if (!now.record.is_asynchronous() || !now.record.writes()) return {};
  const Operation& copy = order_.operation(now.record.operation());
  if (copy.completion != AsyncCompletion::mbarrier) return {};
  const auto& waits = order_.warp(read.warp).waits;
  const bool waits_for_copies = std::any_of(waits.begin(), waits.end(),
                                            [&](const auto& each) { return order_.barrier(each.first).is_for_copies; });
  if (waits_for_copies) return {};
  return fmt::format(
      "the {}{} was issued before this copy, and {} has never waited for {}, nor for another barrier of copies: if it "
      "is to read what the copy brings, wait for {} before the {}",
      read.what, line(read.pc), spell_thread(cluster_, read.warp, 1u << read.lane), name(order_.barrier(copy.barrier)),
      name(order_.barrier(copy.barrier)), read.what);
}

std::string RaceCause::read_without_wait(const Operation& copy, const PresentAccess& now) const {
  const BarrierOrder& barrier = order_.barrier(copy.barrier);
  if (now.record.writes() || barrier.rank != now.warp / order_.warps_per_block()) return {};
  const auto warps = static_cast<uint32_t>(cluster_.memory.size()) * order_.warps_per_block();
  for (uint32_t warp = 0; warp < warps; ++warp) {
    const auto& waits = order_.warp(warp).waits;
    if (const auto found = waits.find(copy.barrier); found != waits.end() && found->second.phases > 0) return {};
  }
  return fmt::format(
      "this {} reads what the {} brings, and no thread has waited for {} yet, which says that it has come: the issuing "
      "thread must wait for {}, or for a barrier that is arrived on after such a wait",
      now.what, copy.what, name(barrier), name(barrier));
}

std::string RaceCause::told_by_issuer(const Operation& copy, const PresentAccess& now) const {
  const GroupNotes* notes = order_.groups_of(copy.warp, copy.lane);
  const bool has_waited = notes != nullptr && copy.time <= notes->ended;
  std::string cause = fmt::format(
      "the copy may not have read its source yet: only the thread that issued it can wait for that, with "
      "cp.async.bulk.wait_group.read{}, and then ",
      has_waited ? fmt::format(", as lane {} does{}", copy.lane, line(notes->wait_pc)) : std::string());
  if (copy.warp == now.warp) {
    return cause + fmt::format("a __syncwarp() must come between that wait and this {}",
                               now.record.writes() ? "write" : "read");
  }
  cause += "tell the others by a barrier";
  // The last wait for threads: neither for a copy nor for a commit.
  const WaitNote* last = nullptr;
  std::string barrier;
  for (const auto& [index, note] : order_.warp(now.warp).waits) {
    if (order_.barrier(index).is_for_copies || (note.lanes & now.lanes) == 0) continue;
    if (note.phases > 0 && order_.commit_of(index, note.phases - 1) != nullptr) continue;
    if (last != nullptr && note.time < last->time) continue;
    last = &note;
    barrier = name(order_.barrier(index));
  }
  if (last == nullptr) return cause;
  return cause + fmt::format("; {} waited last{} for {}{}: does the copy's thread arrive there for these bytes?",
                             spell_thread(cluster_, now.warp, now.lanes), line(last->pc), barrier,
                             last->phases == 0 ? ", of which no phase had ended" : "");
}

std::string RaceCause::freed_by_threads(const Operation& read, const PresentAccess& now) const {
  const ConflictSide side = side_of(now.record);
  const auto [index, last] = waits_.last_wait_of(side);
  if (last == nullptr || last->phases == 0 || order_.commit_of(index, last->phases - 1) != nullptr) return {};
  const std::string passed = waits_.last_wait_let_pass(side);
  bool by_issuer = false;
  order_.barrier(index).phases.for_each(last->phases - 1, [&](const PhaseNote& note) {
    if (note.kind != PhaseNote::Kind::arrival || note.block == nullptr) return;
    by_issuer = by_issuer || note.block->rank * order_.warps_per_block() + note.warp == read.warp;
  });
  if (passed.empty() || !by_issuer) return {};
  return fmt::format("; {}, by which a thread says that its {} has been issued, and not that it is over", passed,
                     read.what);
}

std::string RaceCause::issued_by_stale_wait(const PresentAccess& now) {
  const Operation& operation = order_.operation(now.record.operation());
  if (operation.completion != AsyncCompletion::warpgroup) return waits_.issued_too_early(side_of(now.record));
  // One warp may have arrived for all four, so that only it shows that a round has passed between two waits.
  constexpr uint32_t kWarps = 4;
  for (uint32_t i = 0; i < kWarps; ++i) {
    const uint32_t warp = now.warp / kWarps * kWarps + i;
    const ConflictSide side{warp, machine::kAllLanes, order_.warp(warp).time, nullptr, operation.what};
    if (std::string cause = waits_.issued_too_early(side); !cause.empty()) return cause;
  }
  return {};
}

std::string RaceCause::one_speaks_for_several(const PastAccess& before, const PresentAccess& now) const {
  return waits_.let_pass_without(side_of(before), side_of(now.record), [&](uint32_t warp) {
    bool writes_alike = false;
    for (const ShadowMemory& memory : cluster_.memory) {
      memory.for_each_write(0, memory.bytes(), [&](const PastAccess& write, uint32_t) {
        writes_alike = writes_alike || (write.agent == warp && write.pc() == before.pc());
      });
    }
    return writes_alike;
  });
}

std::string RaceCause::in_arrival_not_heard(const PastAccess& thread, const Operation& copy) const {
  const SmallMap<WaitNote>& waits = order_.warp(copy.warp).waits;
  for (const ArrivalNote& note : order_.warp(thread.agent).arrivals) {
    if (note.time < thread.time || (note.lanes & thread.lanes) == 0 || note.barrier == copy.barrier) continue;
    const BarrierOrder& barrier = order_.barrier(note.barrier);
    if (barrier.is_for_copies || barrier.rank != copy.warp / order_.warps_per_block()) continue;
    if (waits.find(note.barrier) != waits.end()) return {};
    return fmt::format(
        "the {} is followed by the arrival on {}{}, and the thread that issues the {} has never waited there: it must, "
        "before it issues that",
        thread.writes() ? "write" : "read", name(barrier), line(note.pc), copy.what);
  }
  return {};
}

}  // namespace stagecraft::emulator::checks
