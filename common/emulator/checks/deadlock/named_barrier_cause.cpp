// Which threads a barrier of the block counts that do not come to it: they wait at another, or have exited.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "emulator/checks/causes/control_flow.hpp"
#include "emulator/checks/deadlock/causes.hpp"
#include "emulator/checks/deadlock/wording.hpp"
#include "emulator/checks/reporting/place.hpp"

namespace stagecraft::emulator::checks {

using machine::Block;
using machine::Fragment;
using machine::WaitKind;
using machine::Warp;

namespace {

/// Threads that a barrier waits for; __syncthreads() counts all that have not exited.
uint32_t threads_counted(const Block& block, const machine::NamedBarrier& barrier) {
  if (barrier.expected != 0) return barrier.expected;
  return std::accumulate(block.warps.begin(), block.warps.end(), 0u, [](uint32_t threads, const Warp& warp) {
    return threads + static_cast<uint32_t>(std::popcount(warp.live));
  });
}

}  // namespace

uint32_t threads_missing_at(const Fragment& waiter) {
  const machine::NamedBarrier& barrier = waiter.block().named_barriers[waiter.wait.address];
  return threads_counted(waiter.block(), barrier) - std::min(threads_counted(waiter.block(), barrier), barrier.arrived);
}

std::string two_numbers_for_one_meeting(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const Block& block = first.block();
  const machine::NamedBarrier& own = block.named_barriers[first.wait.address];
  for (const Group& other : sleepers.groups()) {
    const Fragment& there = *other.first;
    if (there.wait.kind != WaitKind::named_barrier || &there.block() != &block) continue;
    if (there.wait.address == first.wait.address) continue;
    const machine::NamedBarrier& barrier = block.named_barriers[there.wait.address];
    if (threads_counted(block, barrier) != threads_counted(block, own) ||
        barrier.arrived + own.arrived != threads_counted(block, own))
      continue;
    return fmt::format(
        "barriers {} and {} both count {} threads, and those that the one misses wait at the other, {}: are they meant "
        "to meet at one number?",
        first.wait.address, there.wait.address, threads_counted(block, own), describe_warps(other));
  }
  return {};
}

std::string exited_before_the_barrier(const Sleepers&, const Group& group) {
  const Fragment& first = *group.first;
  const Block& block = first.block();
  const machine::NamedBarrier& barrier = block.named_barriers[first.wait.address];
  if (barrier.expected <= barrier.arrived) return {};
  uint32_t living = 0, gone = 0;
  std::string names;
  for (const Warp& warp : block.warps) {
    living += static_cast<uint32_t>(std::popcount(warp.live));
    if (warp.live != 0) continue;
    names += fmt::format("{}{}", gone == 0 ? "" : ", ", warp.index);
    ++gone;
  }
  // Those who arrived by barrier.arrive may still live; they only make this silent.
  uint32_t here = 0;
  for (const Fragment* each : barrier.waiting) here += static_cast<uint32_t>(std::popcount(each->mask));
  const uint32_t missing = barrier.expected - barrier.arrived;
  if (gone == 0 || living - here >= missing) return {};
  const char* skipped =
      "is there a return, or a branch that skips the barrier, before it? Every warp that it counts must reach it "
      "before exiting";
  // As if each warp had come once.
  if (barrier.generation * barrier.expected + barrier.arrived == block.warps.size() * machine::kWarpSize) {
    return fmt::format(
        "barrier {} counts {} threads{}: so many ended it before, and {} have come since, which makes {}, all threads "
        "of the block. Is it to count all of them? Otherwise {}",
        first.wait.address, barrier.expected, at_line(*first.grid().kernel, first.pc), barrier.arrived,
        block.warps.size() * machine::kWarpSize, skipped);
  }
  return fmt::format("barrier {} counts {} threads, and {} of them are still to come, but warp{} {} {} exited: {}",
                     first.wait.address, barrier.expected, missing, gone == 1 ? "" : "s", names,
                     gone == 1 ? "has" : "have", skipped);
}

std::string nobody_else_can_come(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const machine::Kernel& kernel = *first.grid().kernel;
  const machine::NamedBarrier& barrier = first.block().named_barriers[first.wait.address];
  if (barrier.expected <= barrier.arrived) return {};
  // Where a part of a warp has come, a branch of its lanes is the mistake.
  const auto is_part = [](const Fragment* each) { return each->mask != each->warp->live; };
  if (std::any_of(barrier.waiting.begin(), barrier.waiting.end(), is_part)) return {};
  const uint32_t missing = barrier.expected - barrier.arrived;
  size_t others = 0;  // that may still come; a warp counts whole
  for (const Group& other : sleepers.groups()) {
    const Fragment& there = *other.first;
    if (&there.block() != &first.block()) continue;
    if (there.wait.kind == WaitKind::named_barrier && there.wait.address == first.wait.address) continue;
    if (may_come_to_barrier(kernel, there.pc, first.wait.address)) others += other.warps.size() * machine::kWarpSize;
  }
  if (others >= missing) return {};
  std::string elsewhere;
  for (uint32_t pc = 0; pc < kernel.places.size() && elsewhere.empty(); ++pc) {
    if (kernel.places[pc].function == nullptr || !kernel.traits_at(pc).meets_block) continue;
    const std::vector<ptx::Operand>& operands =
        kernel.places[pc].function->body[kernel.places[pc].instruction].operands;
    const auto is_integer = [](const ptx::Operand& operand) { return operand.kind == ptx::OperandKind::integer; };
    if (operands.size() != 2 || !is_integer(operands[0]) || !is_integer(operands[1])) continue;
    if (operands[0].bits != first.wait.address || operands[1].bits == barrier.expected) continue;
    elsewhere = fmt::format(" It is used with {} threads{}.", operands[1].bits, at_line(kernel, pc));
  }
  return fmt::format(
      "barrier {} counts {} threads{}, and {} have come. {} of the block can still come to it from where they are.{} "
      "Does it count too many, or has a warp gone past it?",
      first.wait.address, barrier.expected, at_line(kernel, first.pc), barrier.arrived,
      others == 0 ? "No others" : fmt::format("Only {} others", others), elsewhere);
}

std::string barrier_in_a_branch_of_warps(const Sleepers&, const Group& group) {
  return fmt::format(
      "not every thread that barrier {} counts comes to it: is a __syncthreads() inside a branch that some warps do "
      "not take?",
      group.first->wait.address);
}

}  // namespace stagecraft::emulator::checks
