#include "emulator/checks/history/phase_history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "emulator/checks/reporting/place.hpp"
#include "emulator/checks/reporting/report.hpp"
#include "emulator/state/kernel.hpp"

namespace stagecraft::emulator::checks {

namespace {

constexpr size_t kMostPlaces = 3;  // that a sentence names

using Kind = PhaseNote::Kind;

/// Whether a note belongs to the one before: the same threads go on with the same instruction.
bool continues(const PhaseNote& note, const PhaseNote& before) {
  return note.pc == before.pc && note.warp == before.warp && note.kind == before.kind && note.phase == before.phase &&
         note.block == before.block && note.relaxed == before.relaxed;
}

}  // namespace

std::string describe_arrival(const PhaseNote& note, const machine::Kernel& kernel) {
  std::string what = note.kind == Kind::arrival ? "arrival" : kernel.describe_instruction(note.pc);
  if (note.kind == Kind::commit) what = what.substr(0, what.find('.', what.find('.') + 1));  // "tcgen05.commit"
  return fmt::format("the {}{}", what, at_line(kernel, note.pc));
}

void PhaseHistory::add(const machine::BarrierEvent& event) {
  using machine::BarrierEventKind;
  PhaseNote note;
  note.phase = event.phase;
  switch (event.kind) {
    case BarrierEventKind::init:
      notes_.clear();
      oldest_ = 0;
      return;
    case BarrierEventKind::arrive: note.kind = event.fragment != nullptr ? Kind::arrival : Kind::commit; break;
    case BarrierEventKind::expect_tx: note.kind = Kind::announcement; break;
    case BarrierEventKind::complete_tx: note.kind = Kind::bytes; break;
    case BarrierEventKind::wait:
      if (event.phase == 0) return;
      note.kind = Kind::wait;
      --note.phase;
      break;
    default: return;
  }
  if (event.fragment != nullptr) {
    note.block = event.fragment->warp->block;
    note.warp = event.fragment->warp->index;
    note.pc = event.fragment->pc;
    note.lanes = event.lanes;
    note.clock = event.fragment->warp->clock;
  } else {
    const machine::Origin& origin = event.block->cluster->origin;
    note.block = origin.block;
    note.warp = origin.warp;
    note.pc = origin.pc;
    note.lanes = origin.lanes;
  }
  note.amount = event.amount;
  note.relaxed = event.semantics.relaxed;
  if (!notes_.empty()) {
    PhaseNote& last = oldest_ == 0 ? notes_.back() : notes_[oldest_ - 1];
    if (continues(note, last)) {
      last.lanes |= note.lanes;
      last.amount += note.amount;
      // The lanes of one instruction may come one after the other.
      if (event.fragment == nullptr || note.clock != last.clock) ++last.times;
      last.clock = note.clock;
      return;
    }
  }
  if (notes_.size() < kMostNotes) {
    notes_.push_back(note);
    return;
  }
  notes_[oldest_] = note;
  oldest_ = (oldest_ + 1) % kMostNotes;
}

bool PhaseHistory::has(uint64_t phase, Kind kind) const {
  return std::any_of(notes_.begin(), notes_.end(),
                     [&](const PhaseNote& note) { return note.phase == phase && note.kind == kind; });
}

const PhaseNote* PhaseHistory::sole_arrival(uint64_t phase, const machine::Block& block, uint32_t warp) const {
  const PhaseNote* own = nullptr;
  bool alone = true;
  for_each(phase, [&](const PhaseNote& note) {
    if (note.kind == Kind::wait) return;
    const bool same = note.block == &block && note.warp == warp;
    if (same && note.kind == Kind::arrival) own = &note;
    alone = alone && same;
  });
  return alone ? own : nullptr;
}

std::string PhaseHistory::describe_arrivals(uint64_t phase, const machine::Kernel& kernel) const {
  std::vector<std::string> places;
  for_each(phase, [&](const PhaseNote& note) {
    if (note.kind != Kind::arrival && note.kind != Kind::commit) return;
    std::string place = describe_arrival(note, kernel);
    if (std::find(places.begin(), places.end(), place) == places.end()) places.push_back(std::move(place));
  });
  return places.size() > kMostPlaces ? std::string() : join(places);
}

std::string PhaseHistory::describe_bytes(uint64_t phase, const machine::Kernel& kernel) const {
  std::map<std::string, uint64_t> bytes;  // by line
  for_each(phase, [&](const PhaseNote& note) {
    if (note.kind == Kind::bytes && note.block != nullptr) bytes[at_line(kernel, note.pc)] += note.amount;
  });
  if (bytes.empty() || bytes.size() > kMostPlaces) return {};
  std::vector<std::string> parts;
  for (const auto& [line, amount] : bytes) {
    if (line.empty()) return {};
    parts.push_back(fmt::format("{} by what was issued{}", amount, line));
  }
  return join(parts);
}

}  // namespace stagecraft::emulator::checks
