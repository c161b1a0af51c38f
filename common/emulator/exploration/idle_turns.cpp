#include "emulator/exploration/idle_turns.hpp"

#include <algorithm>
#include <utility>

namespace stagecraft::emulator::exploration {

using machine::Warp;

namespace {

/// States that are kept of a warp, each with its registers. A loop of more turns is not recognised.
constexpr size_t kMostStates = 32;

/// Whether the turn ended because others can notice what comes next. Those of a long computation end anywhere.
bool ended_at_choice(const Warp& warp) {
  const std::vector<machine::OrderedPlace>& order = warp.grid->kernel->order;
  return std::any_of(warp.fragments.begin(), warp.fragments.end(), [&](const auto& fragment) {
    return fragment->state == machine::FragmentState::ready && order[fragment->pc].visible;
  });
}

}  // namespace

uint32_t IdleTurns::turn_ended(const Warp& warp, bool noticed) {
  Record& record = records_[&warp];
  ++record.turns;
  record.repeats = false;
  if (noticed) record.known = 0;
  if (noticed || !ended_at_choice(warp)) return 0;
  const uint64_t effects = warp.grid->effects;
  size_t here = 0;
  while (here < record.known && !record.states[here].snapshot.has_places_of(warp)) ++here;
  if (here < record.known && record.states[here].snapshot.matches(warp)) {
    // What is known of the states in between is of turns that have not been, as it were.
    std::swap(record.states[0], record.states[here]);
    record.known = 1;
    State& state = record.states[0];
    record.repeats = state.effects == effects;
    state.effects = effects;
    return static_cast<uint32_t>(record.turns - std::exchange(state.turn, record.turns));
  }
  if (here == kMostStates) here = record.known = 0;
  if (here == record.states.size()) record.states.emplace_back();
  record.known = std::max(record.known, here + 1);
  State& state = record.states[here];
  state.turn = record.turns;
  state.effects = effects;
  state.snapshot.take(warp);
  return 0;
}

bool IdleTurns::will_be_idle(const Warp& warp) const {
  const auto found = records_.find(&warp);
  if (found == records_.end() || !found->second.repeats) return false;
  const State& state = found->second.states[0];
  return state.effects == warp.grid->effects && state.snapshot.has_places_of(warp);
}

}  // namespace stagecraft::emulator::exploration
