#include "emulator/scheduling/execution.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "emulator/state/fragments.hpp"

namespace stagecraft::emulator::machine {

namespace {

/// Instructions that one fragment may execute while others of its warp wait for their turn.
constexpr uint32_t kFragmentTurn = 1024;
/// Virtual cycles that a poll costs which found nothing.
constexpr Cycle kPollCycles = 32;
constexpr uint32_t kNoStop = 0xffffffffu;

void remove_exited(Warp& warp) {
  std::erase_if(warp.fragments, [](const auto& fragment) { return fragment->state == FragmentState::exited; });
}

/// Whether the whole warp waits with this fragment, lanes that have gone another way included. A wait for one's own
/// copies becomes a wait for a scoreboard, which the warp has: measured on an H200, the other lanes did nothing before
/// it ended, neither behind the branch nor on its other side, whereas those beside a loop over mbarrier.try_wait went
/// on.
bool stalls_warp(const Fragment& fragment) {
  return fragment.state == FragmentState::blocked && fragment.wait.kind == WaitKind::bulk_group;
}

/// The fragment to go on with; null when there is none: innermost call first, then the one that is furthest behind in
/// the code, because that is where the others are waiting to be met.
Fragment* choose(Warp& warp) {
  Fragment* best = nullptr;
  const auto goes_first = [](const Fragment& a, const Fragment& b) {
    if (a.held_back != b.held_back) return !a.held_back;
    if (a.return_stack.size() != b.return_stack.size()) return a.return_stack.size() > b.return_stack.size();
    if (a.pc != b.pc) return a.pc < b.pc;
    return a.sequence < b.sequence;
  };
  for (const auto& fragment : warp.fragments) {
    if (stalls_warp(*fragment)) return nullptr;
    if (fragment->state != FragmentState::ready) continue;
    if (best == nullptr || goes_first(*fragment, *best)) best = fragment.get();
  }
  if (best != nullptr && best->held_back) {
    for (const auto& fragment : warp.fragments) fragment->held_back = false;
    return choose(warp);
  }
  return best;
}

/// Merges the ready fragments that stand where `fragment` stands; returns the lowest place ahead where another one
/// waits, kNoStop when there is none.
uint32_t merge_and_find_stop(Fragment& fragment) {
  uint32_t stop = kNoStop;
  bool merged = false;
  for (const auto& other : fragment.warp->fragments) {
    if (other.get() == &fragment || other->state != FragmentState::ready) continue;
    if (same_place(fragment, *other)) {
      absorb(fragment, *other);
      merged = true;
    } else if (other->pc > fragment.pc) {
      stop = std::min(stop, other->pc);
    }
  }
  if (merged) remove_exited(*fragment.warp);
  return stop;
}

enum class Stopped { turn_over, met, changed, polled };

/// The loop that everything else exists for.
Stopped run_fragment(Fragment& fragment, uint32_t& budget, uint32_t stop, Counters& counters) {
  const Op* const code = fragment.grid().kernel->code.data();
  Warp& warp = *fragment.warp;
  std::byte* const registers = fragment.registers;
  uint32_t pc = fragment.pc;
  uint64_t threads = 0;
  uint32_t left = budget;
  Stopped stopped = Stopped::turn_over;
  while (left > 0) {
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
      pc = fragment.pc;
      // With one fragment, nothing can have changed but the place.
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
  while (budget > 0) {
    Fragment* fragment = choose(warp);
    if (fragment == nullptr) break;
    cluster.running = fragment;
    const uint32_t stop = merge_and_find_stop(*fragment);
    const bool alone = warp.fragments.size() == 1;
    uint32_t turn = alone ? budget : std::min(budget, kFragmentTurn);
    const uint32_t before = turn;
    if (fragment->idle_poll_pc == Fragment::kEffect) fragment->idle_poll_pc = Fragment::kNoPoll;
    const Stopped stopped = run_fragment(*fragment, turn, stop, counters);
    if (fragment->idle_poll_pc == Fragment::kEffect) ++*fragment->effects;
    budget -= before - turn;
    if (!alone && stopped == Stopped::turn_over) fragment->held_back = true;
    if (stopped == Stopped::changed) remove_exited(warp);
    if (stopped == Stopped::polled) {
      fragment->held_back = true;
      warp.clock += kPollCycles;
      break;
    }
  }
  cluster.running = nullptr;
}

}  // namespace stagecraft::emulator::machine
