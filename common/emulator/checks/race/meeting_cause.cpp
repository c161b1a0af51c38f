// Where the two sides of a race met last at a barrier of the block, or should have met.
#include <fmt/format.h>

#include <algorithm>

#include "emulator/checks/causes/control_flow.hpp"
#include "emulator/checks/ordering/wording.hpp"
#include "emulator/checks/race/race_cause.hpp"
#include "emulator/checks/reporting/report.hpp"

namespace stagecraft::emulator::checks {

using machine::LaneMask;

std::string RaceCause::in_meetings_without_lane(const PastAccess& before, const PresentAccess& now) const {
  const uint32_t warps = order_.warps_per_block();
  LaneMask meeting = 0;
  for (const auto& fragment : cluster_.cluster().blocks[now.warp / warps]->warps[now.warp % warps].fragments) {
    const bool waits =
        fragment->state == machine::FragmentState::blocked && fragment->wait.kind == machine::WaitKind::named_barrier;
    if (waits) meeting |= fragment->mask;
  }
  machine::for_each_lane(order_.warp(now.warp).existing, [&](uint32_t lane) {
    if (order_.knows(before, now.warp, 1u << lane, *order_.known(now.warp, lane))) meeting |= 1u << lane;
  });
  const LaneMask others = now.record.lanes & ~meeting;
  if (meeting == 0 || others == 0) return {};
  return fmt::format(
      "{} of this warp came to a barrier after the {}, and {} did not: let every lane come to it, or put a "
      "__syncwarp() after it",
      describe_lanes(meeting), before.writes() ? "write" : "read", describe_lanes(others));
}

std::string RaceCause::met_before_read_only(const PastAccess& before, const PresentAccess& now) const {
  if (before.writes() || !now.record.writes()) return {};
  const MeetingNote *of_reader = nullptr, *of_writer = nullptr;
  for (const MeetingNote& one : order_.warp(before.agent).meetings) {
    // One before which its warp had accessed nothing has time 0.
    if (one.pc == 0 || one.time >= before.time || (of_reader != nullptr && one.time < of_reader->time)) continue;
    for (const MeetingNote& other : order_.warp(now.warp).meetings) {
      if (other.pc == 0 || other.number != one.number || other.phase != one.phase) continue;
      of_reader = &one;
      of_writer = &other;
    }
  }
  if (of_reader == nullptr) return {};
  std::string last_write;
  cluster_.memory[address_ >> machine::kSharedRankShift].for_each_write(
      address_ & machine::kSharedOffsetMask, 1, [&](const PastAccess& write, uint32_t) {
        if (write.agent == now.warp && write.time <= of_writer->time) last_write = line(write.pc());
      });
  if (last_write.empty()) return {};
  return fmt::format(
      "the last barrier that both came to, barrier {}{}, is between the write before{} and the read: another one is "
      "missing between the read{} and the next write{}",
      of_reader->number, line(of_reader->pc), last_write, line(before.pc()), line(now.record.pc()));
}

std::string RaceCause::met_at_two_lines(const ConflictSide& one, const ConflictSide& other) const {
  const uint32_t warps = order_.warps_per_block();
  if (one.warp / warps != other.warp / warps) return {};
  const auto last_meeting = [&](const ConflictSide& side) {
    const MeetingNote* last = nullptr;
    for (const MeetingNote& note : order_.warp(side.warp).meetings) {
      if (note.time == 0 || note.time >= side.time) continue;
      if (last == nullptr || note.time >= last->time) last = &note;
    }
    return last;
  };
  const MeetingNote *first = last_meeting(one), *second = last_meeting(other);
  if (first == nullptr || second == nullptr || first->number != second->number || first->phase != second->phase ||
      line(first->pc) == line(second->pc)) {
    return {};
  }
  // Two roles may well meet by calls of their own. A warp that comes to the call of the other, too, has met it with
  // another call than the one that both make.
  const auto comes_to = [&](uint32_t warp, uint32_t pc) {
    const auto& meetings = order_.warp(warp).meetings;
    return std::any_of(meetings.begin(), meetings.end(),
                       [&](const MeetingNote& note) { return note.time != 0 && line(note.pc) == line(pc); });
  };
  if (!comes_to(other.warp, first->pc) && !comes_to(one.warp, second->pc)) return {};
  return fmt::format(
      "; the two met last at barrier {}, warp {}{} and warp {}{}: is one of these two calls one too many, or in a "
      "branch that the other warp does not take?",
      first->number, one.warp % warps, line(first->pc), other.warp % warps, line(second->pc));
}

std::string RaceCause::barrier_left_out(const PastAccess& before, const PresentAccess& now) const {
  if (!before.writes() || before.is_asynchronous() || now.record.writes() || now.record.is_asynchronous()) return {};
  const machine::Kernel& kernel = cluster_.kernel();
  const auto after_write = next_block_barriers(kernel, before.pc());
  const auto after_read = next_block_barriers(kernel, now.record.pc());
  if (!after_write || !after_read || after_write->empty() || !after_read->empty()) return {};
  const uint32_t barrier = after_write->front(), warps = order_.warps_per_block();
  const bool is_one_line =
      std::all_of(after_write->begin(), after_write->end(), [&](uint32_t pc) { return line(pc) == line(barrier); });
  if (!is_one_line || line(barrier).empty()) return {};
  const std::string decided = decided_by_race(now.record.pc());
  return fmt::format("; warp {} comes to {}{} after the write, and warp {} to no barrier after the read: {}",
                     before.agent % warps, kernel.describe_instruction(barrier), line(barrier), now.warp % warps,
                     decided.empty() ? "is there one that it leaves out before?" : decided);
}

std::string RaceCause::decided_by_race(uint32_t pc) const {
  for (const auto& [load, other] : findings_.racing()) {
    if (!decides_way(cluster_.kernel(), load, pc)) continue;
    return fmt::format("which of the two a thread does depends on what it reads{}, and that races with the access{}",
                       line(load), line(other));
  }
  return {};
}

}  // namespace stagecraft::emulator::checks
