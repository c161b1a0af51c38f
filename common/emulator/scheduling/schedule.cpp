#include "emulator/scheduling/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>

#include "emulator/state/kernel.hpp"

namespace stagecraft::emulator::machine {
namespace {

/// A warp whose priority is lower by one has its turns later by so much: longer than warps usually run before they
/// wait.
constexpr Cycle kPriorityLag = 1 << 18;
constexpr uint32_t kPriorities = 8;
/// Sentences that are kept; a schedule that is shown to people has few switches.
constexpr size_t kMostSentences = 16;

uint64_t number_of(const Cluster& cluster) {
  const Extent3& grid = cluster.grid->request->grid;
  const Extent3& first = cluster.first_block;
  return first.x + grid.x * (first.y + uint64_t{grid.y} * first.z);
}

uint32_t number_of(const Warp& warp) {
  return warp.block->rank * static_cast<uint32_t>(warp.block->warps.size()) + warp.index;
}

std::string name_of(const Warp& warp) {
  const Extent3& block = warp.block->index;
  if (warp.grid->request->grid.count() == 1) return fmt::format("warp {}", warp.index);
  return fmt::format("warp {} of block ({}, {}, {})", warp.index, block.x, block.y, block.z);
}

std::string place_of(const Warp& warp, uint32_t pc) {
  const std::string source = warp.grid->kernel->describe_source(pc);
  return fmt::format("{}{}{}", warp.grid->kernel->describe_instruction(pc), source.empty() ? "" : " at ", source);
}

/// Reads a number at the start of `text`, and removes it.
template <typename Number>
bool take_number(std::string_view& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

bool take(std::string_view& text, char letter) {
  if (!text.starts_with(letter)) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::string text_of(const Schedule& schedule) {
  std::string text;
  for (const Switch& each : schedule) {
    if (!text.empty()) text += ',';
    if (each.cluster != 0) text += fmt::format("c{}", each.cluster);
    text += fmt::format("w{}.{}", each.warp, each.choice);
    if (each.amount != 1) text += fmt::format("+{}", each.amount);
  }
  return text;
}

std::optional<Schedule> parse_schedule(std::string_view text) {
  Schedule schedule;
  while (!text.empty()) {
    Switch& each = schedule.emplace_back();
    if (take(text, 'c') && !take_number(text, each.cluster)) return std::nullopt;
    if (!take(text, 'w') || !take_number(text, each.warp)) return std::nullopt;
    if (!take(text, '.') || !take_number(text, each.choice)) return std::nullopt;
    if (take(text, '+') && (!take_number(text, each.amount) || each.amount == 0)) return std::nullopt;
    if (!text.empty() && (!take(text, ',') || text.empty())) return std::nullopt;
  }
  return schedule;
}

ChosenSchedule::ChosenSchedule(const Schedule& plan) {
  for (const Switch& each : plan) plan_[{each.cluster, each.warp, each.choice}] = each.amount;
}

ChosenSchedule::ChosenSchedule(uint64_t seed, uint64_t run, uint64_t points, bool lanes)
    : draws_(true), points_(std::max<uint64_t>(points, 1)) {
  std::seed_seq sequence{seed, seed >> 32, run, run >> 32};
  random_.seed(sequence);
  constexpr std::array<uint32_t, 4> kTurns{2, 8, 24, 64}, kOthers{0, 0, 16, 128};
  const auto any = [&](const auto& rates) { return rates[random_() % rates.size()]; };
  manner_.has_priorities = run % 2 != 0;
  manner_.lowered = run / 2 % 4;
  manner_.turns = any(kTurns);
  manner_.completions = any(kOthers);
  const uint32_t rate_of_lanes = any(kOthers);  // drawn in any case, so that the others are the same
  manner_.lanes = lanes ? rate_of_lanes : 0;
  manner_.polls = any(kOthers);
}

template <typename Draw>
uint64_t ChosenSchedule::decide(Warp& warp, Draw draw) {
  const uint32_t choice = warp.choices_made++;
  uint64_t amount = 0;
  if (draws_) {
    amount = draw();
  } else if (!plan_.empty()) {
    const auto found = plan_.find({number_of(*warp.block->cluster), number_of(warp), choice});
    if (found != plan_.end()) amount = found->second;
  }
  if (amount != 0) made_.push_back({number_of(*warp.block->cluster), number_of(warp), choice, amount});
  return amount;
}

template <typename Sentence>
void ChosenSchedule::note(Sentence sentence) {
  if (!draws_ && sentences_.size() < kMostSentences) sentences_.push_back(sentence());
}

uint64_t ChosenSchedule::draw_cycles() { return uint64_t{16} << 2 * (random_() % 8); }

uint64_t ChosenSchedule::draw_turn(const Warp& warp, ClusterState& cluster) {
  if (!manner_.has_priorities) {
    if (!chance(manner_.turns)) return 0;
    return warp.lag != 0 && chance(128) ? 1 : draw_cycles();
  }
  if (warp.choices_made == 1) {  // it starts
    const uint64_t priority = random_() % kPriorities;
    return priority == 0 ? 0 : priority * kPriorityLag;
  }
  if (cluster.lowered_at.empty() || cluster.turns < cluster.lowered_at.back()) return 0;
  cluster.lowered_at.pop_back();
  return (kPriorities + cluster.lowered++) * kPriorityLag;
}

void ChosenSchedule::turn_ended(Warp& warp) {
  if (warp.live == 0) return;
  ClusterState& cluster = clusters_[number_of(*warp.block->cluster)];
  if (cluster.turns++ == 0 && manner_.has_priorities) {
    for (uint32_t i = 0; i < manner_.lowered; ++i) cluster.lowered_at.push_back(random_() % points_);
    std::sort(cluster.lowered_at.begin(), cluster.lowered_at.end(), std::greater<>());
  }
  const uint64_t amount = decide(warp, [&] { return draw_turn(warp, cluster); });
  if (amount == 0) return;
  warp.lag = amount == 1 ? 0 : amount;
  note([&] {
    return fmt::format("{} {} {}", name_of(warp), amount == 1 ? "is no longer held back at" : "is held back before",
                       place_of(warp, warp.fragments.front()->pc));
  });
}

bool ChosenSchedule::stands_aside(const Fragment& fragment) {
  Warp& warp = *fragment.warp;
  parts_lanes_ = true;
  if (decide(warp, [&] { return chance(manner_.lanes) ? 1 : 0; }) == 0) return false;
  note([&] {
    return fmt::format("lanes {:#010x} of {} let the others go first before {}", fragment.mask, name_of(warp),
                       place_of(warp, fragment.pc));
  });
  return true;
}

Cycle ChosenSchedule::completion(const Fragment& issuer, Cycle usual) {
  Warp& warp = *issuer.warp;
  const uint64_t amount = decide(warp, [&] {
    return !chance(manner_.completions) ? 0 : chance(64) ? 1 : draw_cycles();
  });
  if (amount == 0) return usual;
  note([&] {
    return fmt::format("what {} begins with {} takes effect {}", name_of(warp), place_of(warp, issuer.pc),
                       amount == 1 ? "at once" : fmt::format("{} cycles later than usual", amount));
  });
  return amount == 1 ? std::min<Cycle>(usual, 1) : usual + amount;
}

bool ChosenSchedule::gives_up(const Fragment& fragment) {
  Warp& warp = *fragment.warp;
  if (decide(warp, [&] { return chance(manner_.polls) ? 1 : 0; }) == 0) return false;
  note([&] { return fmt::format("{} of {} answers false", place_of(warp, fragment.pc), name_of(warp)); });
  return true;
}

uint64_t ChosenSchedule::points() const {
  uint64_t most = 0;
  for (const auto& [number, cluster] : clusters_) most = std::max(most, cluster.turns);
  return most;
}

}  // namespace stagecraft::emulator::machine
