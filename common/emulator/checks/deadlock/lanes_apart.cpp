// Which instruction keeps the lanes of a warp apart, where some of them wait for others that wait elsewhere.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "emulator/checks/causes/control_flow.hpp"
#include "emulator/checks/deadlock/sleepers.hpp"
#include "emulator/checks/reporting/place.hpp"
#include "emulator/checks/reporting/report.hpp"

namespace stagecraft::emulator::checks {

using machine::Fragment;
using machine::Kernel;
using machine::WaitKind;

namespace {

/// Whether it waits at an instruction of the warp for lanes of another fragment of the same warp.
bool waits_for(const Fragment& fragment, const Fragment& other) {
  return fragment.wait.kind == WaitKind::warp_sync &&
         (static_cast<machine::LaneMask>(fragment.wait.value) & other.mask) != 0;
}

bool is_at_barrier(const Fragment& fragment) {
  return fragment.wait.kind == WaitKind::named_barrier || fragment.wait.kind == WaitKind::cluster_barrier;
}

}  // namespace

Sleepers::Apart Sleepers::find_apart(const Fragment& fragment) const {
  const Kernel& kernel = *fragment.grid().kernel;
  for (const auto& each : fragment.warp->fragments) {
    const Fragment& other = *each;
    if (&other == &fragment || other.state != machine::FragmentState::blocked) continue;
    if (!waits_for(fragment, other) && !waits_for(other, fragment)) continue;
    if (!is_at_barrier(fragment) && !is_at_barrier(other) &&
        !(waits_for(fragment, other) && waits_for(other, fragment)))
      continue;
    if (is_passed_by(kernel, fragment.pc, other.pc)) return {&fragment, &other};
    if (is_passed_by(kernel, other.pc, fragment.pc)) return {&other, &fragment};
    if (is_at_barrier(fragment) || is_at_barrier(other)) continue;
    const int lanes = std::popcount(fragment.mask), other_lanes = std::popcount(other.mask);
    if (lanes < other_lanes) return {&fragment, &other};
    if (other_lanes < lanes) return {&other, &fragment};
  }
  return {};
}

Cause Sleepers::cause_at_warp_operation(const Group& group) const {
  const auto [alone, other] = find_apart(*group.first);
  // It is itself the mistake, unless one of the lanes waits for something else.
  const bool among_themselves =
      !group.needs.empty() && std::all_of(group.needs.begin(), group.needs.end(), [&](size_t index) {
        return groups_[index].first->wait.kind == WaitKind::warp_sync;
      });
  const bool is_cause = alone != nullptr && alone->wait.kind == WaitKind::warp_sync;
  std::string text = "lanes of one warp took different paths, and an operation of the whole warp is on one of them";
  if (is_cause) {
    const Kernel& kernel = *alone->grid().kernel;
    text += fmt::format(
        ": only {} came to {}{}, which needs {}; a branch that only some lanes take, such as one of "
        "elect_one(), must not hold it{}",
        describe_lanes(alone->mask), kernel.describe_instruction(alone->pc), at_line(kernel, alone->pc),
        alone->wait.value == machine::kAllLanes ? "all 32 lanes" : "all lanes of its mask",
        calls_that_differ(*alone, *other));
  }
  return {among_themselves || is_cause ? 7 : 1, std::move(text)};
}

Cause Sleepers::cause_at_barrier_of_lanes(const Group& group) const {
  const Fragment& first = *group.first;
  const Kernel& kernel = *first.grid().kernel;
  uint32_t elsewhere = 0;
  std::string text;
  for (const Fragment* each : group.all) {
    const auto [alone, other] = find_apart(*each);
    if (alone == nullptr) continue;
    if (alone != each) return {1, "lanes that it counts wait for others of their warp, which have come here"};
    elsewhere += static_cast<uint32_t>(std::popcount(other->mask));
    if (!text.empty()) continue;
    text = fmt::format(
        "lanes of one warp took different paths, and a barrier of the block is on one of them: only {} of warp {} "
        "came to {}{}, and {} went on to {}{}; a branch that only some lanes take must not hold it",
        describe_lanes(alone->mask), alone->warp->index, kernel.describe_instruction(alone->pc),
        at_line(kernel, alone->pc), describe_lanes(other->mask), kernel.describe_instruction(other->pc),
        at_line(kernel, other->pc));
  }
  return elsewhere == threads_missing_at(first) ? Cause{7, std::move(text)} : Cause{};
}

std::string Sleepers::calls_that_differ(const Fragment& one, const Fragment& other) {
  const Kernel& kernel = *one.grid().kernel;
  if (kernel.describe_source(one.pc) != kernel.describe_source(other.pc)) return {};
  const std::vector<std::string> calls = kernel.describe_calls(one.pc), others = kernel.describe_calls(other.pc);
  for (size_t i = 0; i < std::min(calls.size(), others.size()); ++i) {
    if (calls[i] == others[i]) continue;
    return fmt::format("; {} came there through {}, and {} through {}", describe_lanes(one.mask), calls[i],
                       describe_lanes(other.mask), others[i]);
  }
  return {};
}

}  // namespace stagecraft::emulator::checks
