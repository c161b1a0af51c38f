#include "emulator/exploration/exploration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "emulator/exploration/decided_run.hpp"
#include "emulator/exploration/launch_copy.hpp"
#include "emulator/scheduling/findings.hpp"
#include "emulator/scheduling/schedule.hpp"
#include "emulator/scheduling/shrinking.hpp"

namespace stagecraft::emulator::exploration {

using machine::ChosenSchedule;
using machine::Diagnostic;
using machine::Schedule;

namespace {

/// Runs that may be spent on shrinking one schedule.
constexpr uint32_t kShrinkingRuns = 400;
/// Steps of an interleaving that is run; a longer one is one of a loop that polls, or of a kernel that is not small.
constexpr size_t kMostSteps = 20'000;
/// A run is cut off that takes longer than the default schedule by this factor, and then some. The time is virtual, so
/// that the host's speed does not matter.
constexpr machine::Cycle kMostTimes = 64, kAlways = machine::Cycle{1} << 27;

constexpr const char* kFollows = "all that they show follows from what the default schedule shows";

/// What makes a mistake the same as another one.
std::string identity_of(const Diagnostic& report) {
  return fmt::format("{}|{}", report.kind, report.identity.empty() ? report.place.source : report.identity);
}

}  // namespace

/// The exploration of one launch.
class LaunchExploration {
 public:
  LaunchExploration(const ExploredLaunch& launch, Exploration& totals) : launch_(launch), totals_(totals) {}

  /// Returns whether something was found.
  bool run() {
    const CopyOutcome usual = outcome_of(start(nullptr));
    if (usual.interrupted) return false;
    if (usual.stopped) {  // the launch itself will show why
      ++totals_.skipped_;
      return false;
    }
    for (const Diagnostic& each : usual.diagnostics) {
      usual_.insert(identity_of(each));
      if (!launch_.tolerates || each.tolerated.empty()) ++totals_.usual_;
    }
    totals_.coverage_.add(launch_);
    limit_ = kMostTimes * usual.cycles + kAlways;
    if (launch_.interleavings != 0) {
      run_all();
    } else {
      run_some();
    }
    return tell(usual.diagnostics);
  }

 private:
  using MakeChoices = std::function<std::unique_ptr<ChosenSchedule>()>;

  void run_some() {
    // The schedule without switches is the first, and says how many turns there are to choose from.
    const CopyOutcome first = outcome_of(start(Schedule{}));
    points_ = first.points;
    judge(first, 1);
    std::deque<LaunchCopy> under_way;
    uint64_t started = 1;
    for (uint64_t number = 2; number <= launch_.schedules && !totals_.was_interrupted_; ++number) {
      while (started < launch_.schedules && under_way.size() < launch_.threads) {
        ++started;
        under_way.push_back(start([this, started] {
          return std::make_unique<ChosenSchedule>(launch_.request.seed, started, points_, launch_.lanes);
        }));
      }
      const CopyOutcome outcome = outcome_of(std::move(under_way.front()));
      under_way.pop_front();
      judge(outcome, number);
    }
  }

  /// Reports what was found: one report for each mistake, in however many schedules it shows. What follows from a
  /// mistake of the default schedule is left for its report. Returns whether there was anything else.
  bool tell(std::vector<Diagnostic> all) {
    bool is_new = false;
    all.insert(all.end(), found_.begin(), found_.end());
    machine::fold_consequences(all);
    for (Diagnostic& each : all) {
      if (usual_.contains(identity_of(each))) {
        std::copy_if(each.consequences.begin(), each.consequences.end(), std::back_inserter(totals_.consequences_),
                     [&](const Diagnostic& other) { return !usual_.contains(identity_of(other)); });
        continue;
      }
      ++totals_.mistakes_;
      launch_.report(each);
      is_new = true;
    }
    return is_new;
  }

  /// Starts a copy with these choices; with null, the launch as it is when it is not explored.
  LaunchCopy start(const MakeChoices& choices) {
    return LaunchCopy([&] { return run_here(choices ? choices() : nullptr); });
  }
  LaunchCopy start(const Schedule& schedule) {
    return start([&] { return std::make_unique<ChosenSchedule>(schedule); });
  }

  /// Runs all interleavings, up to the limit or to one that fails.
  void run_all() {
    Interleavings interleavings;
    uint64_t count = 0, runs = 0;
    while (const std::optional<Guide> guide = interleavings.next()) {
      if (runs++ == launch_.interleavings || totals_.was_interrupted_) {
        ++totals_.incomplete_;
        return;
      }
      const CopyOutcome outcome = outcome_of(LaunchCopy([&] { return decided(*guide); }));
      const bool is_complete = !outcome.cut_off && !outcome.has_diverged && !outcome.interrupted;
      if (!outcome.is_redundant) ++count, ++totals_.interleavings_;
      totals_.coverage_.add(launch_, outcome);
      const std::set<std::string> found = mistakes_in(outcome);
      if (found.empty()) {
        if (is_complete) {
          interleavings.add(trace_of(outcome.steps));
          continue;
        }
        ++totals_.incomplete_;
        return;
      }
      for (Diagnostic each : outcome.diagnostics) {
        if (!found.contains(identity_of(each))) continue;
        each.details.push_back(fmt::format("found in interleaving {}, with the same options always", count));
        found_.push_back(std::move(each));
      }
      ++totals_.failed_;
      return;
    }
  }

  CopyOutcome decided(const Guide& guide) const {
    DecidedRun choices(guide, kMostSteps);
    machine::LaunchRequest request = launch_.request;
    request.choices = &choices;
    const machine::Division divided{.observers =
                                        [&] {
                                          auto observers = launch_.observers();
                                          observers.push_back(choices.make_observer());
                                          return observers;
                                        },
                                    .threads = 1,
                                    .interrupted = launch_.interrupted,
                                    .limit = limit_};
    machine::LaunchResult result = launch_.machine.launch(
        request, {}, [](std::string_view) {}, divided);
    CopyOutcome outcome;
    outcome.stopped = result.stopped;
    outcome.interrupted = result.interrupted;
    outcome.cut_off = choices.is_too_long() || (!result.interrupted && result.fault == machine::FaultKind::timeout);
    outcome.diagnostics = std::move(result.diagnostics);
    outcome.steps = text_of(choices.trace());
    outcome.is_redundant = choices.is_redundant();
    outcome.has_diverged = choices.has_diverged();
    outcome.parts_lanes = choices.parts_lanes();
    outcome.tries_once = choices.tries_once();
    return outcome;
  }

  CopyOutcome run_here(const std::unique_ptr<ChosenSchedule>& choices) const {
    machine::LaunchRequest request = launch_.request;
    request.choices = choices.get();
    const machine::Division divided{.observers = launch_.observers,
                                    .threads = 1,
                                    .in_one_part = launch_.in_one_part,
                                    .interrupted = launch_.interrupted,
                                    .limit = choices ? limit_ : launch_.limit_cycles};
    machine::LaunchResult result = launch_.machine.launch(
        request, {}, [](std::string_view) {}, divided);
    CopyOutcome outcome;
    outcome.stopped = result.stopped;
    outcome.interrupted = result.interrupted;
    outcome.cut_off = choices && !result.interrupted && result.fault == machine::FaultKind::timeout;
    outcome.cycles = result.cycles;
    if (choices) {
      outcome.points = choices->points();
      outcome.sentences = choices->sentences();
      outcome.parts_lanes = choices->parts_lanes();
      if (!result.diagnostics.empty()) outcome.switches = choices->made();
    }
    outcome.diagnostics = std::move(result.diagnostics);
    return outcome;
  }

  CopyOutcome outcome_of(LaunchCopy copy) {
    CopyOutcome outcome = copy.outcome(launch_.interrupted);
    totals_.was_interrupted_ = totals_.was_interrupted_ || outcome.interrupted;
    return outcome;
  }

  /// Returns the mistakes of a run that the default schedule does not show; none of one that was cut off, which a
  /// replay would not end.
  std::set<std::string> mistakes_of(const CopyOutcome& outcome) const {
    return outcome.cut_off ? std::set<std::string>() : mistakes_in(outcome);
  }

  /// The same, also of a run that was cut off, which is no mistake itself.
  std::set<std::string> mistakes_in(const CopyOutcome& outcome) const {
    std::set<std::string> mistakes;
    if (outcome.interrupted) return mistakes;
    for (const Diagnostic& each : outcome.diagnostics) {
      if (outcome.cut_off && each.kind == "limit") continue;
      // What the chip carries on with does not count where findings are no errors.
      if (launch_.tolerates && !each.tolerated.empty()) continue;
      if (const std::string identity = identity_of(each); !usual_.contains(identity)) mistakes.insert(identity);
    }
    return mistakes;
  }

  void judge(const CopyOutcome& outcome, uint64_t number) {
    ++totals_.runs_;
    totals_.cut_off_ += outcome.cut_off ? 1 : 0;
    totals_.coverage_.add(launch_, outcome);
    const std::set<std::string> mistakes = mistakes_of(outcome);
    if (mistakes.empty()) return;
    ++totals_.failed_;
    // A mistake often has several consequences: what is found together is reported once, as its shortest schedule shows
    // it.
    const bool is_new =
        std::none_of(mistakes.begin(), mistakes.end(), [&](const auto& each) { return reported_.contains(each); });
    reported_.insert(mistakes.begin(), mistakes.end());
    if (is_new) report(outcome, mistakes, number);
  }

  void report(const CopyOutcome& outcome, const std::set<std::string>& mistakes, uint64_t number) {
    const auto fails = [&](const Schedule& schedule) {
      if (totals_.was_interrupted_) return false;
      const std::set<std::string> found = mistakes_of(outcome_of(start(schedule)));
      return std::any_of(found.begin(), found.end(), [&](const auto& each) { return mistakes.contains(each); });
    };
    const Schedule shortest = machine::shrink(outcome.switches, fails, kShrinkingRuns);
    if (totals_.was_interrupted_) return;
    const CopyOutcome shown = outcome_of(start(shortest));
    const std::set<std::string> found = mistakes_of(shown);
    reported_.insert(found.begin(), found.end());
    for (Diagnostic each : shown.diagnostics) {
      if (!found.contains(identity_of(each))) continue;
      add_schedule(each, shown, number);
      found_.push_back(std::move(each));
    }
  }

  /// Adds to a report how to replay the schedule in which it was found, and what is particular in it.
  void add_schedule(Diagnostic& report, const CopyOutcome& outcome, uint64_t number) const {
    report.details.push_back(fmt::format("found in schedule {} of {}; to replay it: ./stagecraft run --schedule {}:{}",
                                         number, launch_.schedules, launch_.number,
                                         machine::text_of(outcome.switches)));
    for (const std::string& sentence : outcome.sentences) report.details.push_back("  " + sentence);
    if (outcome.switches.empty()) {
      report.details.emplace_back("  as by default, but turns end wherever others could notice it");
    }
  }

  const ExploredLaunch& launch_;
  Exploration& totals_;
  std::set<std::string> usual_;     ///< what the default schedule shows
  std::set<std::string> reported_;  ///< mistakes that were found in other schedules
  uint64_t points_ = 1;
  machine::Cycle limit_ = 0;
  std::vector<Diagnostic> found_;  ///< of these schedules, as their shortest ones show them
};

bool Exploration::explore(const ExploredLaunch& launch) {
  if (was_interrupted_) return false;
  ++launches_;
  schedules_ = launch.schedules;
  all_ = launch.interleavings != 0;
  return LaunchExploration(launch, *this).run();
}

std::string Exploration::text() const {
  const std::string text = all_ ? text_of_interleavings() : text_of_schedules();
  return launches_ == skipped_ || failed_ != 0 ? text : text + coverage_.text();
}

std::string Exploration::nothing() const {
  return usual_ == 0 ? "nothing found"
                     : "nothing more than the default schedule shows, which is reported with its launch";
}

std::vector<Diagnostic> Exploration::take_consequences() { return std::exchange(consequences_, {}); }

std::string Exploration::text_of_interleavings() const {
  const auto several = [](uint64_t count, const char* one) {
    return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
  };
  const auto launches = [](uint64_t count) { return fmt::format("{} launch{}", count, count == 1 ? "" : "es"); };
  std::string text = several(interleavings_, "interleaving");
  const bool proves = coverage_.is_complete(), is_whole = failed_ == 0 && incomplete_ == 0 && !was_interrupted_;
  if (is_whole && !proves) text += " of the synchronisation";
  if (launches_ - skipped_ > 1) text += fmt::format(" of {} launches", launches_ - skipped_);
  if (failed_ != 0) {
    text += mistakes_ == 0 ? std::string(" explored: ") + kFollows
                           : fmt::format(" explored: {}, reported above", several(mistakes_, "mistake"));
  } else if (incomplete_ != 0 || was_interrupted_) {
    const std::string rest = incomplete_ == 0
                                 ? "interrupted"
                                 : fmt::format("{} {} more", launches(incomplete_), incomplete_ == 1 ? "has" : "have");
    text += fmt::format(" explored without a finding; not all: {}", rest);
  } else {
    text = fmt::format("all {} explored: {}", text, nothing());
  }
  if (skipped_ != 0) text += fmt::format("; stopped in the default schedule already: {}", launches(skipped_));
  return text;
}

std::string Exploration::text_of_schedules() const {
  const uint64_t explored = launches_ - skipped_;
  std::string text = explored == 0 ? std::string("explored no schedule")
                                   : fmt::format("explored {} schedule{}", schedules_, schedules_ == 1 ? "" : "s");
  if (explored > 1) text += fmt::format(" of each of {} launches", explored);
  if (was_interrupted_) text = fmt::format("explored {} schedules before the interruption", runs_);
  if (failed_ != 0) {
    text += fmt::format(": {} fail{}, and {}", failed_, failed_ == 1 ? "s" : "",
                        mistakes_ == 0
                            ? kFollows
                            : fmt::format("{} mistake{} reported above", mistakes_, mistakes_ == 1 ? " is" : "s are"));
  } else if (explored != 0) {
    text += ": " + nothing();
  }
  if (skipped_ != 0) {
    text += fmt::format("; {} launch{} stopped by the default schedule already", skipped_,
                        skipped_ == 1 ? " is" : "es are");
  }
  if (cut_off_ != 0) text += fmt::format("; {} took too long, and were cut off", cut_off_);
  return text;
}

nlohmann::json Exploration::json() const {
  return {{"kind", "exploration"},     {"launches", launches_},           {"schedules", runs_},
          {"failed", failed_},         {"mistakes", mistakes_},           {"skipped", skipped_},
          {"cut_off", cut_off_},       {"interrupted", was_interrupted_}, {"interleavings", interleavings_},
          {"incomplete", incomplete_}, {"not_varied", coverage_.json()}};
}

}  // namespace stagecraft::emulator::exploration
