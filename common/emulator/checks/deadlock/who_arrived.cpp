#include "emulator/checks/deadlock/who_arrived.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "emulator/checks/deadlock/wording.hpp"
#include "emulator/checks/reporting/place.hpp"
#include "emulator/checks/reporting/report.hpp"

namespace stagecraft::emulator::checks {

namespace {

constexpr size_t kMostParts = 4;  // that a sentence names

}  // namespace

std::vector<Came> who_came(const BarrierHistory& history, uint64_t phase, uint64_t amount) {
  std::vector<Came> all;
  uint64_t known = 0;
  bool is_complete = true;
  history.phases.for_each(phase, [&](const PhaseNote& note) {
    const bool by_operation = note.kind == PhaseNote::Kind::commit;
    if (note.kind != PhaseNote::Kind::arrival && !by_operation) return;
    is_complete = is_complete && note.block != nullptr;
    known += note.amount;
    const Came now{note.block, note.warp, note.lanes, note.pc, by_operation, note.amount, note.times};
    const auto same = std::find_if(all.begin(), all.end(),
                                   [&](const Came& each) { return each.is_same_warp(now) && each.pc == now.pc; });
    if (same == all.end()) {
      all.push_back(now);
    } else {
      same->lanes |= now.lanes;
      same->amount += now.amount;
      same->times += now.times;
    }
  });
  if (!is_complete || known != amount) all.clear();
  return all;
}

std::string describe_came(const std::vector<Came>& came, const machine::Cluster& cluster) {
  const machine::Kernel& kernel = *cluster.grid->kernel;
  std::vector<std::string> parts;
  std::vector<bool> said(came.size(), false);
  for (size_t i = 0; i < came.size(); ++i) {
    if (said[i]) continue;
    std::vector<uint32_t> warps;
    for (size_t j = i; j < came.size(); ++j) {
      const bool alike = came[j].block == came[i].block && came[j].pc == came[i].pc &&
                         came[j].by_operation == came[i].by_operation && came[j].lanes == came[i].lanes;
      if (!alike) continue;
      said[j] = true;
      warps.push_back(came[j].warp);
    }
    std::sort(warps.begin(), warps.end());
    std::string what;
    if (came[i].by_operation) {
      what = kernel.describe_instruction(came[i].pc);
      what = fmt::format("the {} of ", what.substr(0, what.find('.', what.find('.') + 1)));
    }
    if (cluster.blocks.size() > 1) what += fmt::format("block rank {} ", came[i].block->rank);
    parts.push_back(fmt::format("{}{} [{}]{}", what, describe_numbers(warps), describe_lanes(came[i].lanes),
                                at_line(kernel, came[i].pc)));
  }
  return parts.size() > kMostParts ? std::string() : join(parts);
}

std::string describe_partial_phase(const Sleepers& sleepers, const machine::Fragment& waiter) {
  const machine::Mbarrier& barrier = *sleepers.barrier_of(waiter);
  const machine::Kernel& kernel = *waiter.grid().kernel;
  const BarrierHistory& history = sleepers.history_of(waiter);
  const auto amount = static_cast<uint64_t>(barrier.expected - barrier.pending);
  std::string by = describe_came(who_came(history, barrier.phase, amount), sleepers.cluster());
  if (by.empty()) by = history.phases.describe_arrivals(barrier.phase, kernel);
  return fmt::format("{} was initialised{} for {} arrivals per phase, and {} came{}{}", name_of_barrier(waiter),
                     at_line(kernel, barrier.initialised.pc), barrier.expected, amount, by.empty() ? "" : ", by ", by);
}

std::string describe_repeated_arrivals(const Sleepers& sleepers, const machine::Fragment& waiter, uint64_t phase) {
  const machine::Mbarrier& barrier = *sleepers.barrier_of(waiter);
  const auto expected = static_cast<uint64_t>(barrier.expected);
  const uint64_t amount = phase == barrier.phase ? expected - static_cast<uint64_t>(barrier.pending) : expected;
  std::vector<Came> warps;  // one element for each, wherever it arrived
  for (const Came& each : who_came(sleepers.history_of(waiter), phase, amount)) {
    const auto same =
        std::find_if(warps.begin(), warps.end(), [&](const Came& other) { return other.is_same_warp(each); });
    if (same == warps.end()) {
      warps.push_back(each);
      continue;
    }
    same->lanes |= each.lanes;
    same->amount += each.amount;
    same->times += each.times;
  }
  uint64_t threads = 0;
  const Came* repeated = nullptr;
  for (const Came& each : warps) {
    const auto lanes = static_cast<uint64_t>(std::popcount(each.lanes));
    threads += lanes;
    if (!each.by_operation && each.times > 1 && each.amount == lanes * each.times) repeated = &each;
  }
  if (repeated == nullptr || threads >= expected) return {};
  return fmt::format(
      "{} arrived {} times in phase {} of {}, which waits for {} arrivals, and so took the place of others. Are they "
      "to arrive once in each round, or does nothing make them wait for the next?",
      describe_came({*repeated}, sleepers.cluster()), repeated->times, phase, name_of_barrier(waiter), expected);
}

}  // namespace stagecraft::emulator::checks
