// Which instruction keeps the lanes of a warp apart, where some of them wait for others that wait elsewhere.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "emulator/checks/causes/control_flow.hpp"
#include "emulator/checks/deadlock/causes.hpp"
#include "emulator/checks/reporting/place.hpp"
#include "emulator/checks/reporting/report.hpp"

namespace stagecraft::emulator::checks {

using machine::Fragment;
using machine::Kernel;
using machine::WaitKind;

namespace {

constexpr const char* kDifferentPaths =
    "lanes of one warp took different paths, and an operation of the whole warp is on one of them";

/// Whether it waits at an instruction of the warp for lanes of another fragment of the same warp.
bool waits_for(const Fragment& fragment, const Fragment& other) {
  return fragment.wait.kind == WaitKind::warp_sync &&
         (static_cast<machine::LaneMask>(fragment.wait.value) & other.mask) != 0;
}

bool is_at_barrier(const Fragment& fragment) {
  return fragment.wait.kind == WaitKind::named_barrier || fragment.wait.kind == WaitKind::cluster_barrier;
}

/// Two fragments of one warp, of which the first came to an instruction that the other went past.
struct Apart {
  const Fragment* alone = nullptr;
  const Fragment* other = nullptr;
};

/// What keeps a fragment and other lanes of its warp apart; empty: nothing, or it is not sure which is the first.
Apart find_apart(const Fragment& fragment) {
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

/// Where two fragments came to one line by different calls; empty: they did not, or nothing is known of them.
std::string calls_that_differ(const Fragment& one, const Fragment& other) {
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

}  // namespace

std::string lanes_wait_for_each_other(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const bool is_mutual = std::any_of(first.warp->fragments.begin(), first.warp->fragments.end(), [&](const auto& each) {
    return each.get() != &first && each->state == machine::FragmentState::blocked && waits_for(first, *each) &&
           waits_for(*each, first);
  });
  return is_mutual ? operation_in_a_branch_of_lanes(sleepers, group) : std::string();
}

std::string operation_in_a_branch_of_lanes(const Sleepers& sleepers, const Group& group) {
  const auto [alone, other] = find_apart(*group.first);
  // It is itself the mistake, unless one of the lanes waits for something else.
  const bool among_themselves =
      !group.needs.empty() && std::all_of(group.needs.begin(), group.needs.end(), [&](size_t index) {
        return sleepers.groups()[index].first->wait.kind == WaitKind::warp_sync;
      });
  const bool is_cause = alone != nullptr && alone->wait.kind == WaitKind::warp_sync;
  if (!among_themselves && !is_cause) return {};
  std::string text = kDifferentPaths;
  if (is_cause) {
    const Kernel& kernel = *alone->grid().kernel;
    text += fmt::format(
        ": only {} came to {}{}, which needs {}; a branch that only some lanes take, such as one of "
        "elect_one(), must not hold it{}",
        describe_lanes(alone->mask), kernel.describe_instruction(alone->pc), at_line(kernel, alone->pc),
        alone->wait.value == machine::kAllLanes ? "all 32 lanes" : "all lanes of its mask",
        calls_that_differ(*alone, *other));
  }
  return text;
}

std::string other_lanes_held_up(const Sleepers&, const Group&) { return kDifferentPaths; }

std::string barrier_waits_for_lanes_held_up(const Sleepers&, const Group& group) {
  const bool held_up = std::any_of(group.all.begin(), group.all.end(), [](const Fragment* each) {
    const Fragment* alone = find_apart(*each).alone;
    return alone != nullptr && alone != each;
  });
  return held_up ? "lanes that it counts wait for others of their warp, which have come here" : "";
}

std::string barrier_in_a_branch_of_lanes(const Sleepers&, const Group& group) {
  const Fragment& first = *group.first;
  const Kernel& kernel = *first.grid().kernel;
  uint32_t elsewhere = 0;
  std::string text;
  for (const Fragment* each : group.all) {
    const auto [alone, other] = find_apart(*each);
    if (alone == nullptr) continue;
    elsewhere += static_cast<uint32_t>(std::popcount(other->mask));
    if (!text.empty()) continue;
    text = fmt::format(
        "lanes of one warp took different paths, and a barrier of the block is on one of them: only {} of warp {} "
        "came to {}{}, and {} went on to {}{}; a branch that only some lanes take must not hold it",
        describe_lanes(alone->mask), alone->warp->index, kernel.describe_instruction(alone->pc),
        at_line(kernel, alone->pc), describe_lanes(other->mask), kernel.describe_instruction(other->pc),
        at_line(kernel, other->pc));
  }
  return elsewhere == threads_missing_at(first) ? text : std::string();
}

}  // namespace stagecraft::emulator::checks
