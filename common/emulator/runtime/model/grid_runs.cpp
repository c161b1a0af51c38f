#include "emulator/runtime/model/grid_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "emulator/checks/checks.hpp"
#include "emulator/checks/reporting/report.hpp"
#include "emulator/exploration/exploration.hpp"
#include "emulator/runtime/model/interrupt.hpp"
#include "emulator/runtime/model/progress_line.hpp"
#include "emulator/runtime/model/recording.hpp"
#include "emulator/runtime/model/state.hpp"
#include "emulator/scheduling/findings.hpp"
#include "emulator/scheduling/schedule.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// Virtual time between a launch and the first instruction.
constexpr double kLaunchNanoseconds = 2000;

/// All that the checks of memory find involves shared memory, which holds the barriers, the targets of copies and the
/// address of tensor memory. A kernel without shared memory would only be slowed down.
bool has_shared_memory(const machine::LaunchRequest& request) {
  return request.kernel->static_shared_bytes + request.dynamic_shared_bytes != 0;
}

/// Explores other schedules of a launch. Returns whether something was found.
bool explore(State& state, const machine::LaunchRequest& request, bool memory, checks::GlobalHistory* history) {
  const Settings& settings = state.settings();
  const bool goes_on = !settings.findings_are_errors;
  const exploration::ExploredLaunch launch{
      .machine = state.machine(),
      .request = request,
      .number = state.launches + 1,
      .interleavings = settings.exhaust,
      .schedules = settings.explore,
      .threads = settings.threads,
      .limit_cycles = settings.limit_cycles,
      .lanes = settings.explore_lanes,
      .tolerates = goes_on,
      .in_one_part = history != nullptr,
      .observers = [memory, goes_on, history] { return checks::make_checks(memory, goes_on, history); },
      .interrupted = &InterruptibleKernel::interrupted(),
      .report = [&state](const machine::Diagnostic& diagnostic) { state.reporter.report(diagnostic); }};
  bool found = false;
  try {
    const InterruptibleKernel interruptible;
    found = state.exploration.explore(launch);
  } catch (const std::system_error& error) {
    throw ApiError(cudaErrorLaunchFailure, fmt::format("kernel {}: other schedules cannot be explored: {}",
                                                       request.kernel->display_name, error.what()));
  }
  if (InterruptibleKernel::interrupted()) tell_exploration(state);
  InterruptibleKernel::end_process();
  return found;
}

/// The choices of the schedule that the settings want replayed, if it is of the launch that is next; or else null.
std::unique_ptr<machine::ChosenSchedule> replayed_choices(const State& state, const Settings& settings) {
  if (!settings.schedule || settings.schedule->launch != state.launches + 1) return nullptr;
  return std::make_unique<machine::ChosenSchedule>(settings.schedule->schedule);
}

/// Says so where the schedule that was replayed is none of this launch.
void tell_unreached(Reporter& reporter, const ReplayedLaunch& replayed, const machine::ChosenSchedule& choices) {
  const size_t reached = choices.made().size(), all = replayed.schedule.size();
  if (reached == all) return;
  const std::string message = fmt::format(
      "{} of the {} switches of the schedule were not reached: is it of another program, of other "
      "arguments, or of another launch than {}?",
      all - reached, all, replayed.launch);
  reporter.tell(fmt::format("stagecraft: {}\n", message), {{"kind", "schedule"}, {"message", message}});
}

/// Says once that the record of global memory was too large.
void tell_forgotten(State& state, uint32_t before) {
  if (before != 0 || state.global_history.times_forgotten() == 0) return;
  const std::string message = fmt::format(
      "the check of global memory has forgotten the accesses so far, because its record has reached the limit of {} "
      "MiB: races with them are not found, nor are reads of what nothing wrote",
      state.global_history.most_bytes() >> 20);
  state.reporter.tell(fmt::format("stagecraft: {}\n", message), {{"kind", "global memory"}, {"message", message}});
}

}  // namespace

Cost run_grid(State& state, machine::LaunchRequest request, timing::LaunchOrder order) {
  ProgressLine progress(request.kernel->display_name, request.grid.count());
  // The text is printed at once, not at the next synchronisation, and so keeps its order with the text of the host.
  const auto print = [&progress](std::string_view text) {
    progress.erase();
    std::fwrite(text.data(), 1, text.size(), stdout);
  };
  std::vector<machine::Observer*> observers;
  const machine::Residency residency =
      state.machine().residency(*request.kernel, request.block, request.dynamic_shared_bytes);
  Recording recording(state.settings(), uint64_t{residency.blocks} * state.architecture().multiprocessors, order);
  recording.join(observers);
  // Each part of the grid that runs independently has checks of its own; recordings are of the whole grid.
  const bool memory = state.settings().checks.race && has_shared_memory(request);
  const bool goes_on = !state.settings().findings_are_errors;
  state.machine().memory().limit_heap(state.limits.heap_bytes);
  checks::GlobalHistory* const history = state.settings().checks.global ? &state.global_history : nullptr;
  const bool explores = state.settings().explore != 0 || state.settings().exhaust != 0;
  const bool found = explores && explore(state, request, memory, history);
  const auto choices = replayed_choices(state, state.settings());
  request.choices = choices.get();
  const uint32_t forgotten = state.global_history.times_forgotten();
  const auto make_observers = [memory, goes_on, history, &recording] {
    auto made = checks::make_checks(memory, goes_on, history);
    recording.join_part(made);
    return made;
  };
  const machine::Division divided{.observers = make_observers,
                                  .threads = state.settings().threads,
                                  .in_one_part = history != nullptr,
                                  .needs = recording.needed_clusters(history != nullptr),
                                  .interrupted = &InterruptibleKernel::interrupted(),
                                  .limit = state.settings().limit_cycles,
                                  .watcher = state.settings().progress ? &progress : nullptr};
  const auto begin = std::chrono::steady_clock::now();
  machine::LaunchResult result = [&] {
    const InterruptibleKernel interruptible;
    return state.machine().launch(request, observers, print, divided);
  }();
  progress.erase();
  state.seconds_in_kernels += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  state.thread_instructions += result.thread_instructions;
  std::string report;
  machine::fold_consequences(result.diagnostics);
  for (const machine::Diagnostic& diagnostic : result.diagnostics) {
    state.reporter.report(diagnostic);
    report += checks::render_text(diagnostic);
  }
  state.unread = {request.kernel->display_name, std::move(result.unread)};
  if (choices != nullptr) tell_unreached(state.reporter, *state.settings().schedule, *choices);
  if (history != nullptr) tell_forgotten(state, forgotten);
  recording.tell(state.reporter, state.launches++, report);
  if (!result.stopped) recording.tell_time(state.reporter, state.architecture(), residency.blocks, state.l2);
  // Also where the kernel ended before it noticed the signal.
  InterruptibleKernel::end_process();
  if (result.fault && (result.stopped || state.settings().findings_are_errors))
    state.set_fault(error_of(*result.fault));
  if (found && state.settings().findings_are_errors) state.set_fault(cudaErrorLaunchFailure);
  const double clock_khz = std::max(state.architecture().clock_khz, 1u);
  return {Engine::compute, kLaunchNanoseconds + static_cast<double>(result.cycles) * 1e6 / clock_khz};
}

void tell_unread(State& state) {
  constexpr size_t kMost = 4;
  const UnreadResults& unread = state.unread;
  if (state.reporter.diagnosed() != 0 || unread.results.empty()) return;
  std::string text = fmt::format(
      "stagecraft: the program ends with an error, and no mistake was found. In its last kernel, {}, nothing reads\n",
      unread.kernel);
  for (size_t i = 0; i < std::min(kMost, unread.results.size()); ++i) text += fmt::format("  {}\n", unread.results[i]);
  text += "is that meant, or is something else read in its place?\n";
  state.reporter.tell(text, {{"kind", "unread"}, {"kernel", unread.kernel}, {"results", unread.results}});
}

void tell_exploration(State& state) {
  if (!state.exploration.has_launches()) return;
  state.reporter.tell(fmt::format("stagecraft: {}\n", state.exploration.text()), state.exploration.json());
}

}  // namespace stagecraft::emulator::runtime
