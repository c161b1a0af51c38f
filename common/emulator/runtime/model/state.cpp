#include "emulator/runtime/model/state.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "emulator/runtime/model/api_call.hpp"
#include "emulator/runtime/model/code_images.hpp"
#include "emulator/runtime/model/host_faults.hpp"
#include "emulator/runtime/model/kernel_runs.hpp"

namespace stagecraft::emulator::runtime {
namespace {

const char* environment_variable(const char* name) { return std::getenv(name); }

/// A program whose kernel was diagnosed, or not launched without its knowledge, must not look as if it had succeeded;
/// nor must a run without the file that it was to write.
void check_exit_status(int status, void*) {
  State& state = State::instance();
  const bool is_copy = is_forked();  // its kernels are another process's
  if (!is_copy) {
    state.reporter.tell_summary();
    tell_exploration(state.reporter, state.launches.exploration);
    if (status != 0) {
      const Settings* const known = state.known_settings();
      tell_nan(state.reporter, state.launches.nan, known != nullptr && known->checks.global);
      tell_unread(state.reporter, state.launches.unread);
    }
  }
  if (status != 0) return;
  const std::string refused = state.refused_work.text();
  if (!refused.empty()) {
    state.reporter.tell(fmt::format("stagecraft: {}\n", refused), {{"kind", "refused work"}, {"message", refused}});
  }
  const bool has_findings =
      !is_copy && (state.reporter.diagnosed() != 0 || state.reporter.has_unwritten() || state.has_refused_variants());
  if (!has_findings && refused.empty()) return;
  const Settings* const settings = state.known_settings();  // null where they are the reason
  if (settings != nullptr && !settings->strict_exit_status) return;
  std::fflush(nullptr);
  if (settings == nullptr || settings->report_format == ReportFormat::text) {
    std::fprintf(stderr, "stagecraft: exit status 1, because of what was reported\n");
  }
  std::_Exit(1);
}

}  // namespace

State& State::instance() {
  static State* const state = [] {
#if defined(__EMSCRIPTEN__)  // which has no on_exit; in a page nobody sees an exit status
    std::atexit([] { instance().reporter.tell_summary(); });
#else
    on_exit(check_exit_status, nullptr);
#endif
    return new State();
  }();
  return *state;
}

const Settings& State::settings() {
  if (settings_) return *settings_;
  if (settings_failure_) throw_once(settings_failure_);
  try {
    Settings settings = read_settings(environment_variable);
    reporter.configure(settings);
    settings_ = std::move(settings);
  } catch (const std::invalid_argument& error) {
    settings_failure_ = ApiError(cudaErrorInitializationError, error.what());
    throw_once(settings_failure_);
  }
  return *settings_;
}

const machine::Architecture& State::architecture() {
  if (architecture_ != nullptr) return *architecture_;
  if (const machine::Architecture* wished = settings().architecture) return *(architecture_ = wished);
  architecture_ = &modules.suitable_chip();
  if (architecture_ != &machine::b200()) {
    reporter.tell(fmt::format("stagecraft: the program holds PTX for {0} and none for {1}: it runs on the {2} "
                              "(--device and STAGECRAFT_DEVICE choose)\n",
                              architecture_->target, machine::b200().target, architecture_->name),
                  {{"kind", "device chosen"}, {"device", architecture_->name}, {"target", architecture_->target}});
  }
  return *architecture_;
}

machine::Machine& State::machine() {
  if (machine_) return *machine_;
  if (machine_failure_) throw_once(machine_failure_);
  const machine::Architecture& chip = architecture();
  try {
    // Names are registered after their image, so this is the first moment at which all of the program's are known.
    if (!has_variants_) replace_images(modules, settings().ptx, chip);
    has_variants_ = true;
  } catch (const ApiError& error) {
    has_refused_variants_ = true;
    machine_failure_ = ApiError(error.code(), fmt::format("STAGECRAFT_PTX: {}", error.what()));
    throw_once(machine_failure_);
  }
  try {
    machine_ = std::make_unique<machine::Machine>(chip);
    machine_->announce_memory_events(settings().observes_memory());
    machine_->announce_global_accesses(settings().checks.global);
    machine_->announce_instructions(settings().timing.on);
    machine_->memory().host_memory().limit(settings().host_memory);
    explain_host_faults();
    constexpr bool kCanHide = sizeof(void*) == 8;  // from a host of 32 bits nothing is hidden, and there is no advice
    if (kCanHide && !machine_->memory().is_hidden_from_host()) {
      const char* const message =
          "the program uses the addresses that are meant for device memory: code of the host that follows a device "
          "pointer gets no fault";
      reporter.tell(fmt::format("stagecraft: {}\n", message), {{"kind", "device memory"}, {"message", message}});
    }
  } catch (const std::exception& error) {
    machine_failure_ =
        ApiError(cudaErrorInitializationError,
                 fmt::format("the {} cannot start: {}; a limit on virtual memory (ulimit -v) must allow for its device "
                             "memory, of which only what is used costs host memory",
                             chip.name, error.what()));
    throw_once(machine_failure_);
  }
  return *machine_;
}

void State::reset() {
  modules.unload_all();
  graphs.reset();
  streams.reset();
  memory.reset();
  limits = {};
  fault_.reset();
  launches.global_memory = {};
  machine_.reset();
}

}  // namespace stagecraft::emulator::runtime
