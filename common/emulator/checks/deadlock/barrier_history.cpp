#include "emulator/checks/deadlock/barrier_history.hpp"

#include <algorithm>
#include <utility>

namespace stagecraft::emulator::checks {

namespace {

/// Returns the element for a warp; null: there is none. `next` is where it is expected, because warps come to a barrier
/// in much the same order in each phase.
template <typename Element>
Element* find_warp(std::vector<Element>& elements, uint32_t& next, const machine::Block* block, uint32_t warp) {
  const auto is_same = [&](const Element& element) { return element.block == block && element.warp == warp; };
  const auto expected = elements.begin() + (next < elements.size() ? next : 0);
  auto found = std::find_if(expected, elements.end(), is_same);
  if (found == elements.end()) found = std::find_if(elements.begin(), expected, is_same);
  if (found == expected && (elements.empty() || !is_same(*found))) return nullptr;
  next = static_cast<uint32_t>(found - elements.begin()) + 1;
  return &*found;
}

void note_waiter(BarrierHistory& history, const machine::BarrierEvent& event) {
  const machine::Warp& warp = *event.fragment->warp;
  BarrierHistory::Waiter* same = find_warp(history.waiters, history.next_waiter, warp.block, warp.index);
  if (same == nullptr) {
    history.waiters.push_back({warp.block, warp.index, event.phase, warp.clock, 0, 0, event.fragment->pc});
  } else {
    same->pc = event.fragment->pc;
    if (same->skipped_to == 0 && event.phase > same->phases + 1) {
      same->skipped_from = same->phases;
      same->skipped_to = event.phase;
    }
    same->phases = event.phase;
    same->clock = warp.clock;
  }
}

}  // namespace

void forget(BarrierHistories& histories, const machine::Block& block) {
  const auto first = histories.lower_bound({&block, 0});
  const auto last = std::find_if(first, histories.end(), [&](const auto& each) { return each.first.first != &block; });
  histories.erase(first, last);
}

void record(BarrierHistories& histories, const machine::BarrierEvent& event) {
  using Kind = machine::BarrierEventKind;
  if (event.kind == Kind::invalidate || event.kind == Kind::reinitialise) return;
  BarrierHistory& history = histories[{event.block, event.offset}];
  if (event.kind == Kind::init) {
    std::vector<BarrierHistory::Initialisation> before = std::move(history.initialisations);
    if (history.was_used) before.clear();
    std::vector<uint32_t> arrival_pcs = std::move(history.arrival_pcs);
    history = {};
    history.arrival_pcs = std::move(arrival_pcs);
    history.initialisations = std::move(before);
    history.initialisations.push_back({event.fragment->pc, event.amount});
    return;
  }
  history.was_used = true;
  history.phases.add(event);
  if (event.kind == Kind::wait) {
    history.was_waited_for = true;
    history.passed_before_first = history.passed_before_first || event.phase == 0;
    note_waiter(history, event);
    return;
  }
  if (event.kind == Kind::expect_tx || event.kind == Kind::complete_tx) return;
  if (event.kind == Kind::phase_complete) {
    if (event.fragment != nullptr && history.overrun_lanes != 0 && history.is_same_instruction(*event.fragment)) {
      history.overrun_phases = event.phase + 1 - history.first_phase;
    }
    return;
  }
  history.arrived_by_operation = history.arrived_by_operation || event.fragment == nullptr;
  const machine::Origin& origin = event.block->cluster->origin;
  const uint32_t pc = event.fragment == nullptr ? origin.pc : event.fragment->pc;
  if (std::find(history.arrival_pcs.begin(), history.arrival_pcs.end(), pc) == history.arrival_pcs.end()) {
    history.arrival_pcs.push_back(pc);
  }
  BarrierHistory::Arriver now{origin.block, origin.warp, origin.lanes, event.phase, BarrierHistory::kByOperation};
  if (event.fragment != nullptr) {
    const machine::Warp& warp = *event.fragment->warp;
    now = {warp.block, warp.index, event.lanes, event.phase, warp.clock};
    if (!history.is_same_instruction(*event.fragment)) {
      history.warp = &warp;
      history.clock = warp.clock;
      history.pc = event.fragment->pc;
      history.lanes = 0;
      history.first_phase = event.phase;
    }
    history.lanes |= event.lanes;
    if (event.phase != history.first_phase) {
      history.overrun_lanes = history.lanes;
      history.overrun_pc = history.pc;
    }
  }
  BarrierHistory::Arriver* same = find_warp(history.arrivers, history.next_arriver, now.block, now.warp);
  if (same == nullptr) {
    history.arrivers.push_back(now);
  } else {
    same->lanes |= now.lanes;
    same->phase = now.phase;
    same->clock = now.clock;
  }
}

}  // namespace stagecraft::emulator::checks
