#include "emulator/scheduling/execution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "emulator/instructions/block_barriers.hpp"
#include "emulator/instructions/observation.hpp"

namespace stagecraft::emulator::machine {

namespace {

/// Instructions that one fragment may execute while others of its warp wait for their turn.
constexpr uint32_t kFragmentTurn = 1024;
/// Virtual cycles that a poll costs which found nothing.
constexpr Cycle kPollCycles = 32;
constexpr uint32_t kNoStop = 0xffffffffu;

bool same_place(const Fragment& left, const Fragment& right) {
  return left.pc == right.pc && left.local_frame == right.local_frame && left.return_stack == right.return_stack;
}

void absorb(Fragment& fragment, Fragment& other) {
  fragment.mask |= other.mask;
  fragment.held_back = fragment.held_back && other.held_back;
  const bool effect = fragment.idle_poll_pc == Fragment::kEffect || other.idle_poll_pc == Fragment::kEffect;
  fragment.idle_poll_pc = effect ? Fragment::kEffect : Fragment::kNoPoll;
  other.mask = 0;
  other.state = FragmentState::exited;
}

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

Fragment& split_off(Fragment& fragment, LaneMask lanes, uint32_t pc) {
  // Where lanes leave a loop one after the other, they gather in one fragment behind it.
  for (const auto& other : fragment.warp->fragments) {
    if (other->pc != pc || other.get() == &fragment || other->state != FragmentState::ready ||
        other->local_frame != fragment.local_frame || other->return_stack != fragment.return_stack) {
      continue;
    }
    fragment.mask &= ~lanes;
    other->mask |= lanes;
    if (other->idle_poll_pc != Fragment::kEffect) other->idle_poll_pc = Fragment::kNoPoll;
    return *other;
  }
  auto part = std::make_unique<Fragment>();
  part->registers = fragment.registers;
  part->warp = fragment.warp;
  part->effects = fragment.effects;
  part->pc = pc;
  part->mask = lanes;
  part->return_stack = fragment.return_stack;
  part->local_frame = fragment.local_frame;
  part->local_top = fragment.local_top;
  part->sequence = fragment.cluster().next_sequence++;
  fragment.mask &= ~lanes;
  fragment.warp->fragments.push_back(std::move(part));
  return *fragment.warp->fragments.back();
}

void exit_lanes(Fragment& fragment, LaneMask lanes) {
  Warp& warp = *fragment.warp;
  warp.live &= ~lanes;
  fragment.mask &= ~lanes;
  if (fragment.mask == 0) fragment.state = FragmentState::exited;
  // Whoever waits for these lanes need not any more.
  for (const auto& other : warp.fragments) {
    if (other->state == FragmentState::blocked && other->wait.kind == WaitKind::warp_sync) wake(*other);
  }
  if (!fragment.grid().memory_observers.empty()) {
    announce_rendezvous({RendezvousKind::exit, warp.block->cluster, warp.block, 0, &fragment, lanes});
  }
  lanes_have_exited(warp, lanes);
  if (warp.live == 0) --warp.block->live_warps;
  if (fragment.mask != 0) return;
  for (Observer* observer : fragment.grid().observers) observer->fragment_exited(fragment);
}

namespace {

constexpr const char* kMembersAdvice =
    "every lane that executes it must be in the mask: pass the mask of the lanes that are active here";

std::string left_out(LaneMask wanted) {
  return fmt::format("lanes execute a .sync operation whose member mask {:#010x} leaves them out", wanted);
}

/// Takes note of lanes outside of their member mask, which do not stop the kernel; once for an instruction.
void tell_left_out(const Fragment& fragment, LaneMask strangers, LaneMask wanted) {
  Cluster& cluster = fragment.cluster();
  std::vector<Finding>& findings = cluster.grid->findings;
  std::string identity = fmt::format("member mask: instruction {}", fragment.pc);
  const auto is_this = [&](const Finding& finding) { return finding.diagnostic.identity == identity; };
  if (findings.size() >= kMostFindings || std::any_of(findings.begin(), findings.end(), is_this)) return;
  const Kernel& kernel = *cluster.grid->kernel;
  const Extent3& block = fragment.block().index;
  Diagnostic diagnostic;
  diagnostic.kind = "wrong member mask";
  diagnostic.message = left_out(wanted);
  diagnostic.place = {kernel.display_name,
                      kernel.source_file(),
                      true,
                      block.x,
                      block.y,
                      block.z,
                      true,
                      fragment.warp->index,
                      strangers,
                      kernel.describe_source(fragment.pc),
                      kernel.describe_instruction(fragment.pc)};
  diagnostic.details.emplace_back(kMembersAdvice);
  diagnostic.tolerated = "an H200 lets all lanes of a warp that is together take part";
  diagnostic.identity = std::move(identity);
  findings.push_back({std::move(diagnostic), time_of(cluster), {}});
}

}  // namespace

LaneMask converge(Fragment& fragment, LaneMask mask, LaneMask wanted) {
  Warp& warp = *fragment.warp;
  if (const LaneMask strangers = mask & ~wanted; strangers != 0) {
    // Measured on an H200, 2026-11-22: when all 32 lanes execute it with one mask that holds some of them, all take
    // part, as if the mask were full (shfl, vote, match, redux, bar.warp). When the others are elsewhere, or each lane
    // has a mask of its own, it is an illegal instruction.
    if (mask != kAllLanes || wanted == 0) {
      throw Fault(FaultKind::illegal_instruction, left_out(wanted), {kMembersAdvice}, strangers);
    }
    tell_left_out(fragment, strangers, wanted);
    return mask;
  }
  const LaneMask needed = wanted & warp.live;
  if (mask == needed) return mask;
  LaneMask present = mask;
  const auto is_waiting_here = [&](const Fragment& other) {
    return other.state == FragmentState::blocked && other.wait.kind == WaitKind::warp_sync &&
           other.wait.value == wanted && same_place(fragment, other);
  };
  for (const auto& other : warp.fragments) {
    if (is_waiting_here(*other)) present |= other->mask;
  }
  if (const LaneMask others = fragment.mask & ~mask; others != 0) split_off(fragment, others, fragment.pc + 1);
  if ((present & needed) != needed) {
    sleep(fragment, {WaitKind::warp_sync, fragment.pc, wanted});
    return 0;
  }
  for (const auto& other : warp.fragments) {
    if (other.get() != &fragment && is_waiting_here(*other)) absorb(fragment, *other);
  }
  // The absorbed ones are removed by the loop, which sees more than one fragment.
  return fragment.mask;
}

LaneMask lanes_of_first_group(const Fragment& fragment, LaneMask mask, RegisterOffset members) {
  const auto* masks = lanes_at<LaneMask>(fragment.registers, members);
  const LaneMask wanted = masks[first_lane(mask)];
  // Nearly always all have the same, which the compiler's vector code sees at once.
  LaneMask differences = 0;
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) differences |= (masks[lane] ^ wanted) & (0u - (mask >> lane & 1));
  if (differences == 0) return mask;
  LaneMask group = 0;
  for_each_lane(mask, [&](uint32_t lane) { group |= (masks[lane] == wanted ? 1u : 0u) << lane; });
  return group;
}

LaneMask converge_warp(Fragment& fragment, LaneMask mask) {
  return converge(fragment, mask, fragment.warp->live | mask);
}

Cycle time_of(const Cluster& cluster) {
  return cluster.running != nullptr ? std::max(cluster.now, cluster.running->warp->clock) : cluster.now;
}

void sleep(Fragment& fragment, Wait wait) {
  fragment.state = FragmentState::blocked;
  fragment.wait = wait;
  fragment.limited = false;
  for (Observer* observer : fragment.grid().observers) observer->fragment_blocked(fragment);
}

void sleep_at_most(Fragment& fragment, Wait wait, Cycle limit) {
  sleep(fragment, wait);
  fragment.limited = true;
  Cluster& cluster = fragment.cluster();
  cluster.time_limits.add({time_of(cluster) + limit, cluster.next_sequence++}, fragment);
}

void end_sleep(Fragment& fragment) {
  fragment.warp->block->mbarriers.forget(fragment);  // barriers are waited for in the own block only
  fragment.timed_out = true;
  wake(fragment);
}

void wake(Fragment& fragment) {
  if (fragment.state != FragmentState::blocked) return;
  if (fragment.limited) fragment.cluster().time_limits.remove(fragment);
  fragment.limited = false;
  fragment.state = FragmentState::ready;
  fragment.wait = {};
  fragment.held_back = false;
  fragment.warp->clock = std::max(fragment.warp->clock, time_of(fragment.cluster()));
  for (Observer* observer : fragment.grid().observers) observer->fragment_woken(fragment);
}

void wake_for_tensor_memory(Sm& sm, Cycle at) {
  for (Fragment* fragment : std::exchange(sm.waiting_for_tensor_memory, {})) {
    Cluster& cluster = fragment->cluster();
    if (cluster.stuck) cluster.now = std::max(cluster.now, at);  // nothing happened in it meanwhile
    cluster.stuck = false;
    fragment->warp->clock = std::max(fragment->warp->clock, at);
    wake(*fragment);
  }
}

void resume_after(Fragment& fragment) {
  wake(fragment);
  ++fragment.pc;
}

void Cluster::schedule(Cycle delay, std::function<void()> action) {
  Origin from = origin;
  if (running != nullptr) from = {&running->block(), running->warp->index, running->pc, running->mask};
  events.push({{time_of(*this) + delay, next_sequence++}, std::move(action), from});
}

Block* Cluster::block_of(uint32_t shared_address) const {
  const uint32_t rank = shared_address >> kSharedRankShift;
  return rank < blocks.size() ? blocks[rank].get() : nullptr;
}

}  // namespace stagecraft::emulator::machine
