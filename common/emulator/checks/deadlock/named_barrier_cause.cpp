// Which threads a barrier of the block counts that do not come to it: they wait at another, or have exited.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "emulator/checks/deadlock/causes.hpp"
#include "emulator/checks/deadlock/wording.hpp"

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
  return fmt::format(
      "barrier {} counts {} threads, and {} of them are still to come, but warp{} {} {} exited: is there a return, or "
      "a branch that skips the barrier, before it? Every warp that it counts must come before it leaves",
      first.wait.address, barrier.expected, missing, gone == 1 ? "" : "s", names, gone == 1 ? "has" : "have");
}

std::string barrier_in_a_branch_of_warps(const Sleepers&, const Group& group) {
  return fmt::format(
      "not every thread that barrier {} counts comes to it: is a __syncthreads() inside a branch that some warps do "
      "not take?",
      group.first->wait.address);
}

}  // namespace stagecraft::emulator::checks
