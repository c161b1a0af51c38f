// Everything that one process has of the emulated GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "emulator/machine/machine.hpp"
#include "emulator/runtime/model/contexts.hpp"
#include "emulator/runtime/model/errors.hpp"
#include "emulator/runtime/model/graphs.hpp"
#include "emulator/runtime/model/launch_history.hpp"
#include "emulator/runtime/model/memory_records.hpp"
#include "emulator/runtime/model/modules.hpp"
#include "emulator/runtime/model/refused_work.hpp"
#include "emulator/runtime/model/reporting.hpp"
#include "emulator/runtime/model/settings.hpp"
#include "emulator/runtime/model/streams.hpp"

namespace stagecraft::emulator::runtime {

/// Limits that cudaDeviceSetLimit sets; they start as on an H200.
struct Limits {
  uint64_t stack_bytes = 1024;
  uint64_t printf_bytes = 8650752;
  uint64_t heap_bytes = 8 << 20;
  uint64_t pending_launches = 2048;
  uint64_t fetch_granularity = 64;
  uint64_t persisting_l2_bytes = 11796480;
};

class State {
 public:
  /// The one object of the process. It is made on first use and never destroyed: programs free device memory in static
  /// destructors.
  static State& instance();

  std::recursive_mutex mutex;  ///< held during every function of the API except while host callbacks run

  /// Throws ApiError when the environment's settings are illegal; the message is printed once.
  const Settings& settings();
  /// Those that settings() has returned; null before, and where they are illegal.
  const Settings* known_settings() const { return settings_ ? &*settings_ : nullptr; }
  /// What the emulated chip is: STAGECRAFT_DEVICE, or else what suits the modules that are registered when this is
  /// first called. It stays so. Throws as settings().
  const machine::Architecture& architecture();
  /// The chip; started on first use. Throws ApiError.
  machine::Machine& machine();
  /// Whether STAGECRAFT_PTX names a file that could not be used.
  bool has_refused_variants() const { return has_refused_variants_; }
  bool machine_is_started() const { return machine_ != nullptr; }

  /// What cuInit does. Throws ApiError when the environment's settings are illegal.
  void initialise_driver() {
    settings();
    driver_is_initialised_ = true;
  }
  bool driver_is_initialised() const { return driver_is_initialised_; }

  ModuleTable modules;
  Contexts contexts;
  Limits limits;
  MemoryRecords memory;
  Streams streams;
  GraphTable graphs;
  LaunchHistory launches;
  Reporter reporter;
  RefusedWork refused_work;

  /// Records that a kernel was stopped: every later call that touches the device returns this error, until
  /// cudaDeviceReset. (On a chip only a new process helps. Here the reset does, so that one test program can show
  /// several faults.)
  void set_fault(cudaError_t error) {
    if (!fault_) fault_ = error;
  }
  std::optional<cudaError_t> fault() const { return fault_; }

  /// cudaDeviceReset.
  void reset();

 private:
  State() = default;

  bool driver_is_initialised_ = false;
  std::optional<Settings> settings_;
  std::optional<ApiError> settings_failure_;
  const machine::Architecture* architecture_ = nullptr;  // not chosen yet
  std::unique_ptr<machine::Machine> machine_;
  std::optional<ApiError> machine_failure_;
  bool has_variants_ = false, has_refused_variants_ = false;
  std::optional<cudaError_t> fault_;
};

}  // namespace stagecraft::emulator::runtime
