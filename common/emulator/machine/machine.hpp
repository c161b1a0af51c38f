// The emulated chip as the runtime sees it: it translates kernels, launches them and reports their results.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "emulator/chip/architecture.hpp"
#include "emulator/scheduling/launch_result.hpp"
#include "emulator/state/device_memory.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/state/kernel.hpp"
#include "emulator/state/module_image.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::machine {

class Machine {
 public:
  explicit Machine(const Architecture& architecture);

  const Architecture& architecture() const { return architecture_; }
  DeviceMemory& memory() { return memory_; }
  /// Sets whether kernels that are translated from now on announce memory events to the observers that want them, which
  /// makes them slower. A kernel that was translated without announces none.
  void announce_memory_events(bool wanted) { announces_memory_events_ = wanted; }

  /// Sets whether they also announce weak accesses of global memory.
  void announce_global_accesses(bool wanted) { announces_global_ = wanted; }

  /// The same for what observers learn of each instruction (Observer::wants_instructions).
  void announce_instructions(bool wanted) { announces_instructions_ = wanted; }
  bool announces_instructions() const { return announces_instructions_; }

  /// Makes an entry function of a placed module executable. Throws ptx::Error with the position of what is not
  /// understood. `machine_registers` is what ptxas allocated per thread, 0 when unknown.
  std::unique_ptr<Kernel> translate(const ModuleImage& image, const ptx::Function& entry,
                                    uint32_t machine_registers = 0);

  /// Launches so far.
  uint64_t launches() const { return launches_; }

  Residency residency(const Kernel& kernel, Extent3 block, uint32_t dynamic_shared_bytes) const;

  /// Runs a grid to its end. The request must be within the chip's limits (the runtime checks them, because each has
  /// its own CUDA error). What the kernel does wrong is in the result, not thrown.
  /// @param observers  see all of the grid, which then runs on the calling thread.
  /// @param divided    without observers of the whole grid, and if its clusters do not interact, parts of it may run at
  ///                   the same time, each with observers of its own (grid_parts.hpp).
  LaunchResult launch(const LaunchRequest& request, const std::vector<Observer*>& observers,
                      std::function<void(std::string_view)> print, const Division& divided = {});

 private:
  const Architecture& architecture_;
  DeviceMemory memory_;
  uint64_t launches_ = 0;
  bool announces_memory_events_ = false, announces_global_ = false;
  bool announces_instructions_ = false;
};

}  // namespace stagecraft::emulator::machine
