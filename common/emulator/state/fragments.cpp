#include "emulator/state/fragments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "emulator/state/waiting.hpp"

namespace stagecraft::emulator::machine {

void absorb(Fragment& fragment, Fragment& other) {
  fragment.mask |= other.mask;
  fragment.held_back = fragment.held_back && other.held_back;
  fragment.turn_used = std::max(fragment.turn_used, other.turn_used);
  const bool effect = fragment.idle_poll_pc == Fragment::kEffect || other.idle_poll_pc == Fragment::kEffect;
  fragment.idle_poll_pc = effect ? Fragment::kEffect : Fragment::kNoPoll;
  other.mask = 0;
  other.state = FragmentState::exited;
}

Fragment& split_off(Fragment& fragment, LaneMask lanes, uint32_t pc) {
  // Lanes that leave a loop one after another gather in one fragment after the loop.
  for (const auto& other : fragment.warp->fragments) {
    if (other->pc != pc || other.get() == &fragment || other->state != FragmentState::ready ||
        other->local_frame != fragment.local_frame || other->return_stack != fragment.return_stack) {
      continue;
    }
    fragment.mask &= ~lanes;
    other->mask |= lanes;
    other->turn_used = std::max(other->turn_used, fragment.turn_used);
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
  part->turn_used = fragment.turn_used;
  part->last_run = fragment.last_run;
  part->sequence = fragment.cluster().next_sequence++;
  fragment.mask &= ~lanes;
  fragment.warp->fragments.push_back(std::move(part));
  return *fragment.warp->fragments.back();
}

std::string describe_left_out(LaneMask members) {
  return fmt::format("lanes execute a .sync operation whose member mask {:#010x} leaves them out", members);
}

bool continues_alone(const Fragment& fragment) {
  return fragment.state == FragmentState::ready ||
         (fragment.state == FragmentState::blocked && (fragment.limited || fragment.wait.kind == WaitKind::sleep));
}

namespace {

/// The handler of an Op itself, behind those that announce what it does.
Handler plain_handler(const Kernel& kernel, uint32_t pc) {
  if (!kernel.observed.empty()) {
    const ObservedOp& observed = kernel.observed[pc];
    if (observed.masked != nullptr) return observed.masked;
    if (observed.registers != nullptr) return observed.registers->masked;
  }
  return kernel.traced.empty() ? kernel.code[pc].masked : kernel.traced[pc].masked;
}

/// Whether lanes at two Ops may execute one .sync operation together, whatever its registers are.
bool meet(const Kernel& kernel, uint32_t left, uint32_t right) {
  if (left == right) return true;
  const uint64_t variant = kernel.code[left].immediate & kSyncVariant;
  return plain_handler(kernel, left) == plain_handler(kernel, right) &&
         variant == (kernel.code[right].immediate & kSyncVariant) && variant != kMeetsInOnePlace;
}

/// Waits until all living lanes of `wanted` execute the operation of `fragment`, here or, unless `places` is null, in
/// other places, which are then appended to it. Makes those that are here one fragment, and returns their mask; 0 when
/// some are missing.
LaneMask come_together(Fragment& fragment, LaneMask mask, LaneMask wanted, std::vector<SyncPlace>* places) {
  Warp& warp = *fragment.warp;
  const LaneMask needed = wanted & warp.live;
  if (mask == needed) return mask;
  const auto is_waiting = [&](const Fragment& other) {
    return other.state == FragmentState::blocked && other.wait.kind == WaitKind::warp_sync &&
           other.wait.value == wanted &&
           (same_place(fragment, other) || (places != nullptr && meet(*fragment.grid().kernel, fragment.pc, other.pc)));
  };
  LaneMask present = mask;
  for (const auto& other : warp.fragments) {
    if (is_waiting(*other)) present |= other->mask;
  }
  if (const LaneMask others = fragment.mask & ~mask; others != 0) split_off(fragment, others, fragment.pc + 1);
  if ((present & needed) != needed) {
    sleep(fragment, {WaitKind::warp_sync, fragment.pc, wanted});
    return 0;
  }
  for (const auto& other : warp.fragments) {
    if (other.get() == &fragment || !is_waiting(*other)) continue;
    if (same_place(fragment, *other)) {
      absorb(fragment, *other);
    } else {
      places->push_back({other.get(), &fragment.grid().kernel->code[other->pc], other->mask});
    }
  }
  // The execution loop removes the absorbed ones, because it sees more than one fragment.
  return fragment.mask;
}

}  // namespace

LaneMask converge(Fragment& fragment, LaneMask mask, LaneMask wanted, std::vector<SyncPlace>& elsewhere) {
  if (const LaneMask strangers = mask & ~wanted; strangers != 0) {
    // Measured on an H200, 2026-11-22: when all 32 lanes execute it with one mask that names some of them, all take
    // part, as if the mask were full (shfl, vote, match, redux, bar.warp). When the other lanes are elsewhere, or each
    // lane has a mask of its own, it is an illegal instruction.
    if (mask != kAllLanes || wanted == 0) {
      throw Fault(FaultKind::illegal_instruction, describe_left_out(wanted), {kMembersAdvice}, strangers);
    }
    for (Observer* observer : fragment.grid().observers) observer->lanes_left_out(fragment, strangers, wanted);
    return mask;
  }
  return come_together(fragment, mask, wanted, &elsewhere);
}

LaneMask lanes_of_first_group(const Fragment& fragment, LaneMask mask, RegisterOffset members) {
  const auto* masks = lanes_at<LaneMask>(fragment.registers, members);
  const LaneMask wanted = masks[first_lane(mask)];
  // Nearly always all lanes have the same mask; the compiler makes vector code of this test.
  LaneMask differences = 0;
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) differences |= (masks[lane] ^ wanted) & (0u - (mask >> lane & 1));
  if (differences == 0) return mask;
  LaneMask group = 0;
  for_each_lane(mask, [&](uint32_t lane) { group |= (masks[lane] == wanted ? 1u : 0u) << lane; });
  return group;
}

LaneMask converge_warp(Fragment& fragment, LaneMask mask) {
  return come_together(fragment, mask, fragment.warp->live | mask, nullptr);
}

}  // namespace stagecraft::emulator::machine
