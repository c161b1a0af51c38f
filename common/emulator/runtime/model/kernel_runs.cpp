#include "emulator/runtime/model/kernel_runs.hpp"

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

/// Whether a kernel may begin before the one before it in its stream has ended.
bool may_overlap(const LaunchConfiguration& configuration) {
  return std::any_of(configuration.attributes.begin(), configuration.attributes.end(),
                     [](const cudaLaunchAttribute& attribute) {
                       return attribute.id == cudaLaunchAttributeProgrammaticStreamSerialization &&
                              attribute.val.programmaticStreamSerializationAllowed != 0;
                     });
}

/// What checks a launch. Each part of its grid that runs independently has checks of its own.
struct LaunchChecks {
  bool memory = false;                       ///< shared and tensor memory
  bool goes_on = false;                      ///< findings do not stop the kernel
  checks::GlobalHistory* history = nullptr;  ///< null: global memory is not checked

  LaunchChecks(const Settings& settings, LaunchHistory& launches, const machine::LaunchRequest& request)
      : goes_on(!settings.findings_are_errors), history(settings.checks.global ? &launches.global_memory : nullptr) {
    // All that the checks of memory find involves shared memory, which holds the barriers, the targets of copies and
    // the address of tensor memory. A kernel without shared memory would only be slowed down.
    const bool has_shared_memory = request.kernel->static_shared_bytes + request.dynamic_shared_bytes != 0;
    memory = settings.checks.race && has_shared_memory;
  }

  std::vector<std::unique_ptr<machine::Observer>> make() const { return checks::make_checks(memory, goes_on, history); }
};

/// The schedule that the settings want replayed, if it is of the launch that is next; else the launch has the default
/// schedule.
class Replay {
 public:
  /// @param launch  the number of the launch that is next, from 1 on.
  Replay(const std::optional<ReplayedLaunch>& wanted, uint64_t launch) {
    if (!wanted || wanted->launch != launch) return;
    wanted_ = &*wanted;
    choices_ = std::make_unique<machine::ChosenSchedule>(wanted_->schedule);
  }

  machine::Choices* choices() { return choices_.get(); }

  /// Says so where the schedule is none of this launch.
  void tell_unreached(Reporter& reporter) const {
    if (wanted_ == nullptr) return;
    const size_t reached = choices_->made().size(), all = wanted_->schedule.size();
    if (reached == all) return;
    const std::string message = fmt::format(
        "{} of the {} switches of the schedule were not reached: is it of another program, of other "
        "arguments, or of another launch than {}?",
        all - reached, all, wanted_->launch);
    reporter.tell(fmt::format("stagecraft: {}\n", message), {{"kind", "schedule"}, {"message", message}});
  }

 private:
  const ReplayedLaunch* wanted_ = nullptr;
  std::unique_ptr<machine::ChosenSchedule> choices_;
};

/// What the check of global memory has forgotten so far.
struct Forgotten {
  bool accesses, writes;
  explicit Forgotten(const checks::GlobalHistory& history)
      : accesses(history.times_forgotten() != 0), writes(history.has_forgotten_writes()) {}
};

/// Says once that the record of global memory was too large, and once more if all of it had to go.
/// @param before  what was forgotten by the beginning of the launch.
void tell_forgotten(Reporter& reporter, const checks::GlobalHistory& history, Forgotten before) {
  const Forgotten now(history);
  if (now.accesses == before.accesses && now.writes == before.writes) return;
  const std::string message = fmt::format(
      "the check of global memory has forgotten {}, because its record has reached the limit of {} MiB: races with "
      "them are not found{}",
      now.writes ? "the accesses so far" : "the oldest accesses", history.most_bytes() >> 20,
      now.writes ? ", nor are reads of what nothing wrote" : "");
  reporter.tell(fmt::format("stagecraft: {}\n", message), {{"kind", "global memory"}, {"message", message}});
}

/// What a launch takes, and the error of later calls, if it makes them fail.
struct Ended {
  Cost cost;
  std::optional<cudaError_t> fault;
};

/// One launch, from its other schedules to its reports.
class KernelRun {
 public:
  /// @param order  how it follows the launch before it, for the model of the chip's speed.
  KernelRun(State& state, const machine::LaunchRequest& request, timing::LaunchOrder order)
      : settings_(state.settings()),
        machine_(state.machine()),
        reporter_(state.reporter),
        launches_(state.launches),
        request_(request),
        progress_(request.kernel->display_name, request.grid.count()),
        checks_(settings_, launches_, request),
        resident_blocks_(machine_.residency(*request.kernel, request.block, request.dynamic_shared_bytes).blocks),
        overlaps_(order.overlaps),
        recording_(settings_, uint64_t{resident_blocks_} * machine_.architecture().multiprocessors, order) {
    // Each launch is another draw, so that replays of a graph do not all go the same way.
    if (request_.seed != 0) request_.seed = machine::draw(request_.seed, launches_.count);
  }

  Ended run() {
    const bool found_by_exploring = explore();
    Replay replay(settings_.schedule, launches_.count + 1);
    const Forgotten forgotten(launches_.global_memory);
    machine::LaunchResult result = execute(replay.choices());
    if (result.interrupted) stop_with_program();
    const std::string report = report_findings(result.diagnostics);
    launches_.unread = {request_.kernel->display_name, std::move(result.unread)};
    tell_ignored_registers(reporter_, launches_.noted_kernels, *request_.kernel);
    replay.tell_unreached(reporter_);
    if (checks_.history != nullptr) tell_forgotten(reporter_, *checks_.history, forgotten);
    tell_recordings(report, result.stopped);
    // Also where the kernel ended before it noticed the signal.
    InterruptibleKernel::end_process();
    return {cost_of(result.cycles), fault_of(result, found_by_exploring)};
  }

 private:
  /// Runs other schedules of the launch, if the settings ask for it. Returns whether something was found.
  bool explore() {
    if (settings_.explore == 0 && settings_.exhaust == 0) return false;
    const exploration::ExploredLaunch launch{
        .machine = machine_,
        .request = request_,
        .number = launches_.count + 1,
        .interleavings = settings_.exhaust,
        .schedules = settings_.explore,
        .threads = settings_.threads,
        .limit_cycles = settings_.limit_cycles,
        .lanes = settings_.explore_lanes,
        .tolerates = checks_.goes_on,
        .overlaps = overlaps_,
        .checks_global = checks_.history != nullptr,
        .in_one_part = checks_.history != nullptr,
        .observers = [this] { return checks_.make(); },
        .interrupted = &InterruptibleKernel::interrupted(),
        .report = [this](const machine::Diagnostic& diagnostic) { reporter_.report(diagnostic); }};
    bool found = false;
    try {
      const InterruptibleKernel interruptible;
      found = launches_.exploration.explore(launch);
    } catch (const std::system_error& error) {
      throw ApiError(cudaErrorLaunchFailure, fmt::format("kernel {}: other schedules cannot be explored: {}",
                                                         request_.kernel->display_name, error.what()));
    }
    if (InterruptibleKernel::interrupted()) stop_with_program();
    if (InterruptibleKernel::interrupted()) tell_exploration(reporter_, launches_.exploration);
    InterruptibleKernel::end_process();
    return found;
  }

  /// Runs the grid under the checks and recordings.
  machine::LaunchResult execute(machine::Choices* choices) {
    request_.choices = choices;
    std::vector<machine::Observer*> whole_grid;
    recording_.join(whole_grid);
    // The text is printed at once, not at the next synchronisation, and so keeps its order with the text of the host.
    const auto print = [this](std::string_view text) {
      progress_.erase();
      std::fwrite(text.data(), 1, text.size(), stdout);
    };
    const auto make_observers = [this] {
      auto made = checks_.make();
      recording_.join_part(made);
      return made;
    };
    const bool checks_global = checks_.history != nullptr;
    const machine::Division divided{.observers = make_observers,
                                    .threads = settings_.threads,
                                    .in_one_part = checks_global,
                                    .needs = recording_.needed_clusters(checks_global),
                                    .interrupted = &InterruptibleKernel::interrupted(),
                                    .limit = settings_.limit_cycles,
                                    .watcher = settings_.progress ? &progress_ : nullptr};
    const auto begin = std::chrono::steady_clock::now();
    machine::LaunchResult result = [&] {
      const InterruptibleKernel interruptible;
      return machine_.launch(request_, whole_grid, print, divided);
    }();
    progress_.erase();
    launches_.seconds_in_kernels += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    launches_.thread_instructions += result.thread_instructions;
    return result;
  }

  /// Leaves the launch if it was stopped because the program has ended in another thread.
  void stop_with_program() const {
    if (!InterruptibleKernel::program_ended()) return;
    const std::string message =
        fmt::format("the program ends while kernel {} runs, which is stopped", request_.kernel->display_name);
    reporter_.tell(fmt::format("stagecraft: {}\n", message), {{"kind", "end"}, {"message", message}});
    throw ApiError(cudaErrorCudartUnloading, "");
  }

  /// Reports what was found, and returns its text.
  std::string report_findings(std::vector<machine::Diagnostic>& found) {
    std::string report;
    for (machine::Diagnostic& each : launches_.exploration.take_consequences()) found.push_back(std::move(each));
    machine::fold_consequences(found);
    for (const machine::Diagnostic& diagnostic : found) {
      reporter_.report(diagnostic);
      report += checks::render_text(diagnostic);
    }
    return report;
  }

  void tell_recordings(const std::string& report, bool was_stopped) {
    recording_.tell(reporter_, launches_.count++, report);
    if (!was_stopped) recording_.tell_time(reporter_, machine_.architecture(), resident_blocks_, launches_.l2);
  }

  Cost cost_of(machine::Cycle cycles) const {
    const double clock_khz = std::max(machine_.architecture().clock_khz, 1u);
    return {Engine::compute, kLaunchNanoseconds + static_cast<double>(cycles) * 1e6 / clock_khz};
  }

  /// Later calls fail where the kernel was stopped, and where findings are errors.
  std::optional<cudaError_t> fault_of(const machine::LaunchResult& result, bool found_by_exploring) const {
    if (result.fault && (result.stopped || settings_.findings_are_errors)) return error_of(*result.fault);
    if (found_by_exploring && settings_.findings_are_errors) return cudaErrorLaunchFailure;
    return std::nullopt;
  }

  const Settings& settings_;
  machine::Machine& machine_;
  Reporter& reporter_;
  LaunchHistory& launches_;
  machine::LaunchRequest request_;
  ProgressLine progress_;
  const LaunchChecks checks_;
  const uint32_t resident_blocks_;  ///< of a multiprocessor
  const bool overlaps_;             ///< it may begin before the launch before it has ended
  Recording recording_;
};

}  // namespace

Cost run_kernel(State& state, Stream& stream, const KernelWork& work, bool in_graph) {
  if (const auto fault = state.fault()) throw ApiError(*fault, "");
  if (InterruptibleKernel::program_ended()) throw ApiError(cudaErrorCudartUnloading, "");
  const bool overlaps = may_overlap(work.configuration);
  if (state.settings().checks.global) {
    state.launches.global_memory.begin(state.streams.begin(stream, true, overlaps),
                                       fmt::format("kernel {}", work.request.kernel->display_name), true);
  }
  state.machine().memory().limit_heap(state.limits.heap_bytes);
  const Ended ended = KernelRun(state, work.request, {.in_graph = in_graph, .overlaps = overlaps}).run();
  if (ended.fault) state.set_fault(*ended.fault);
  if (state.settings().checks.global) {
    Streams::kernel_ended(stream, state.launches.global_memory.has_waited(), work.request.kernel->lets_next_grid_start);
  }
  return ended.cost;
}

void tell_unread(Reporter& reporter, const UnreadResults& unread) {
  constexpr size_t kMost = 4;
  if (reporter.diagnosed() != 0 || unread.results.empty()) return;
  std::string text = fmt::format(
      "stagecraft: the program ends with an error, and no mistake was found. In its last kernel, {}:\n", unread.kernel);
  for (size_t i = 0; i < std::min(kMost, unread.results.size()); ++i) text += fmt::format("  {}\n", unread.results[i]);
  text += "is that meant, or is something else read in its place?\n";
  reporter.tell(text, {{"kind", "unread"}, {"kernel", unread.kernel}, {"results", unread.results}});
}

void tell_ignored_registers(Reporter& reporter, std::set<std::string>& noted, const machine::Kernel& kernel) {
  const auto is_one = [](const machine::InstructionTraits& traits) { return traits.sets_register_count; };
  if (kernel.launch_registers() != 0 || !kernel.has_instruction(is_one)) return;
  if (!noted.insert(kernel.display_name).second) return;
  std::vector<std::string> places;
  for (uint32_t pc = 0; pc < kernel.code.size(); ++pc) {
    const machine::OpPlace& place = kernel.places[pc];
    const bool is_instruction = place.function != nullptr && place.instruction < place.function->body.size();
    if (!is_instruction || !is_one(kernel.traits_at(pc))) continue;
    const std::string line = kernel.describe_source(pc);
    if (!line.empty() && std::find(places.begin(), places.end(), line) == places.end()) places.push_back(line);
  }
  const std::string message = fmt::format(
      "setmaxnreg{}{} has no effect in kernel {}: ptxas ignores it (its warning C7508) where nothing tells it how many "
      "registers a thread begins with; give the kernel __launch_bounds__(threads, blocks) or __maxnreg__",
      places.empty() ? "" : " at ", fmt::join(places, ", "), kernel.display_name);
  reporter.tell(fmt::format("stagecraft: note: {}\n", message), {{"kind", "note"}, {"message", message}});
}

void tell_nan(Reporter& reporter, const CopiedNan& nan, bool global) {
  if (reporter.diagnosed() != 0 || nan.count == 0) return;
  const std::string message = fmt::format(
      "the program ends with an error, and {} word{} that it has copied from {} {} NaN as floats, the first at byte "
      "{}{}. Fresh memory of the device is NaN here, and mostly zero on a chip: does a kernel read, or leave, what "
      "nothing has written (0 * NaN is NaN){}?{}",
      nan.count, nan.count == 1 ? "" : "s", nan.from, nan.count == 1 ? "is" : "are", nan.first,
      nan.fresh ? ", which nothing has written" : "", nan.fresh ? "" : ", or make a NaN of numbers, as 0 * infinity is",
      global ? "" : " --checks global names the line that reads it");
  reporter.tell(fmt::format("stagecraft: {}\n", message), {{"kind", "NaN"}, {"message", message}});
}

void tell_exploration(Reporter& reporter, const exploration::Exploration& explored) {
  if (!explored.has_launches()) return;
  reporter.tell(fmt::format("stagecraft: {}\n", explored.text()), explored.json());
}

}  // namespace stagecraft::emulator::runtime
