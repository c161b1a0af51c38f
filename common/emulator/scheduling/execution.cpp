#include "emulator/scheduling/execution.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "emulator/state/choices.hpp"
#include "emulator/state/fragments.hpp"

namespace stagecraft::emulator::machine {

namespace {

/// Instructions that a fragment executes, while others of its warp wait for their turn, before it is held back where a
/// loop begins again: one that may wait for what others do, and any other loop. The chip lets others overtake the
/// former at once and the latter never (loop_order.hpp); here they may at last, because what a loop waits for is not
/// always recognised.
constexpr uint32_t kPollingTurn = 64, kComputingTurn = 1u << 20;
/// Virtual cycles that a failed poll costs.
constexpr Cycle kPollCycles = 32;
constexpr uint32_t kNoStop = 0xffffffffu;

void remove_exited(Warp& warp) {
  std::erase_if(warp.fragments, [](const auto& fragment) { return fragment->state == FragmentState::exited; });
}

/// Whether the whole warp waits with this fragment, including lanes that took another branch. A wait for a thread's own
/// copies becomes a wait for a scoreboard, and a scoreboard belongs to the warp. Measured on an H200: the other lanes
/// did nothing before such a wait ended, neither after the branch nor on its other side, but went on when the wait was
/// a loop over mbarrier.try_wait.
bool stalls_warp(const Fragment& fragment) {
  return fragment.state == FragmentState::blocked && fragment.wait.kind == WaitKind::bulk_group;
}

/// Returns the fragment to go on with; null when none is ready. It is the one in the innermost call, among those the
/// one with the lowest rank, because the others wait further on for it to join them.
Fragment* choose(Warp& warp) {
  Fragment* best = nullptr;
  uint32_t candidates = 0;
  const OrderedPlace* const order = warp.grid->kernel->order.data();
  const auto goes_first = [order](const Fragment& a, const Fragment& b) {
    if (a.held_back != b.held_back) return !a.held_back;
    if (a.return_stack.size() != b.return_stack.size()) return a.return_stack.size() > b.return_stack.size();
    if (a.pc != b.pc) return order[a.pc].rank < order[b.pc].rank;
    return a.sequence < b.sequence;
  };
  for (const auto& fragment : warp.fragments) {
    if (stalls_warp(*fragment)) return nullptr;
    if (fragment->state != FragmentState::ready) continue;
    candidates += fragment->held_back ? 0 : 1;
    if (best == nullptr || goes_first(*fragment, *best)) best = fragment.get();
  }
  if (best != nullptr && best->held_back) {
    for (const auto& fragment : warp.fragments) {
      fragment->held_back = fragment->stands_aside = false;
      fragment->turn_used = 0;
    }
    return choose(warp);
  }
  if (candidates > 1) {
    Choices* const choices = warp.block->cluster->choices;
    if (choices != nullptr && choices->stands_aside(*best)) {
      best->held_back = best->stands_aside = true;
      return choose(warp);
    }
  }
  return best;
}

/// Merges the ready fragments that are at the same place as `fragment`, except those that stand aside. Returns the
/// place ahead at which the next one must be chosen again, because another one waits there or others may have lower
/// ranks; kNoStop when there is none.
uint32_t merge_and_find_stop(Fragment& fragment) {
  uint32_t stop = kNoStop;
  bool merged = false;
  for (const auto& other : fragment.warp->fragments) {
    if (other.get() == &fragment || other->state != FragmentState::ready) continue;
    if (other->stands_aside) continue;
    if (same_place(fragment, *other)) {
      absorb(fragment, *other);
      merged = true;
    } else if (other->pc > fragment.pc) {
      stop = std::min(stop, other->pc);
    }
  }
  if (merged) remove_exited(*fragment.warp);
  if (fragment.warp->fragments.size() == 1) return kNoStop;
  return std::min(stop, fragment.grid().kernel->order[fragment.pc].run_end);
}

/// Whether a fragment that has come from the Op `last` begins a loop again and has had its turn.
bool turn_is_over(const Fragment& fragment, uint32_t last) {
  const std::vector<OrderedPlace>& order = fragment.grid().kernel->order;
  const OrderedPlace& place = order[fragment.pc];
  if (place.head == LoopHead::none || place.rank > order[last].rank) return false;
  return fragment.turn_used >= (place.head == LoopHead::polls ? kPollingTurn : kComputingTurn);
}

enum class Stopped { turn_over, met, changed, polled, at_choice };

/// Executes instructions of one fragment: this is the emulator's hot loop. `last` becomes the Op that jumped, if one
/// did. Where the schedule is chosen, it stops before an Op that is visible, unless the turn begins with it: then
/// `is_fresh` is true, and becomes false.
template <bool kChosen>
Stopped run_fragment(Fragment& fragment, uint32_t& budget, uint32_t stop, uint32_t& last, Counters& counters,
                     [[maybe_unused]] bool& is_fresh) {
  const Op* const code = fragment.grid().kernel->code.data();
  [[maybe_unused]] const OrderedPlace* const order = fragment.grid().kernel->order.data();
  Warp& warp = *fragment.warp;
  std::byte* const registers = fragment.registers;
  uint32_t pc = fragment.pc;
  uint64_t threads = 0;
  uint32_t left = budget;
  Stopped stopped = Stopped::turn_over;
  while (left > 0) {
    if constexpr (kChosen) {
      if (order[pc].visible && !is_fresh) {
        stopped = Stopped::at_choice;
        break;
      }
      is_fresh = false;
    }
    const Op& op = code[pc];
    LaneMask mask = fragment.mask;
    --left;
    ++warp.clock;
    if (op.guard != kNoRegister) {
      mask &= *lanes_at<LaneMask>(registers, op.guard) ^ op.guard_flip;
      if (mask == 0) {
        if (++pc >= stop) {
          stopped = Stopped::met;
          break;
        }
        continue;
      }
    }
    threads += static_cast<uint64_t>(std::popcount(mask));
    fragment.pc = pc;
    const Outcome outcome = mask == kAllLanes ? op.full(fragment, op, mask) : op.masked(fragment, op, mask);
    if (outcome == Outcome::next) [[likely]] {
      if (++pc < stop) [[likely]]
        continue;
      stopped = Stopped::met;
      break;
    }
    if (outcome == Outcome::jump) {
      last = pc;
      pc = fragment.pc;
      // When there is only one fragment, only its place can have changed.
      if (stop == kNoStop && warp.fragments.size() == 1 && fragment.state == FragmentState::ready) continue;
      stopped = Stopped::changed;
      break;
    }
    if (outcome == Outcome::blocked) {
      if (const LaneMask others = fragment.mask & ~mask; others != 0) split_off(fragment, others, pc + 1);
      stopped = Stopped::changed;
      break;
    }
    ++pc;
    stopped = Stopped::polled;
    break;
  }
  fragment.pc = pc;
  counters.warp_instructions += budget - left;
  counters.thread_instructions += threads;
  budget = left;
  return stopped;
}

}  // namespace

bool is_ready(const Warp& warp) {
  bool ready = false;
  for (const auto& fragment : warp.fragments) {
    if (stalls_warp(*fragment)) return false;
    ready = ready || fragment->state == FragmentState::ready;
  }
  return ready;
}

void run_warp(Warp& warp, uint32_t budget, Counters& counters) {
  Cluster& cluster = *warp.block->cluster;
  bool is_fresh = true;
  while (budget > 0) {
    Fragment* fragment = choose(warp);
    if (fragment == nullptr) break;
    cluster.running = fragment;
    const uint32_t stop = merge_and_find_stop(*fragment);
    const bool alone = warp.fragments.size() == 1;
    const uint32_t before = budget;
    fragment->last_run = ++warp.runs;
    uint32_t last = fragment->pc;
    if (fragment->idle_poll_pc == Fragment::kEffect) fragment->idle_poll_pc = Fragment::kNoPoll;
    const Stopped stopped = cluster.choices == nullptr
                                ? run_fragment<false>(*fragment, budget, stop, last, counters, is_fresh)
                                : run_fragment<true>(*fragment, budget, stop, last, counters, is_fresh);
    if (fragment->idle_poll_pc == Fragment::kEffect) ++*fragment->effects;
    if (alone) {
      fragment->turn_used = 0;
    } else {
      fragment->turn_used += before - budget + (stopped == Stopped::polled ? kPollCycles : 0);
      if (fragment->state == FragmentState::ready && turn_is_over(*fragment, last)) fragment->held_back = true;
    }
    if (stopped == Stopped::changed) remove_exited(warp);
    if (stopped == Stopped::polled) warp.clock += kPollCycles;
    if (stopped == Stopped::polled || stopped == Stopped::at_choice) break;
  }
  cluster.running = nullptr;
}

}  // namespace stagecraft::emulator::machine
