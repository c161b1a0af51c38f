#include "emulator/machine/machine.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "emulator/instructions/announcing_handlers.hpp"
#include "emulator/instructions/traced_instructions.hpp"
#include "emulator/instructions/unread_loads.hpp"
#include "emulator/machine/instruction_set.hpp"
#include "emulator/ptx/demangling.hpp"
#include "emulator/scheduling/grid_parts.hpp"
#include "emulator/translation/kernel_translator.hpp"

namespace stagecraft::emulator::machine {

Machine::Machine(const Architecture& architecture) : architecture_(architecture), memory_(architecture.memory_bytes) {}

std::unique_ptr<Kernel> Machine::translate(const ModuleImage& image, const ptx::Function& entry,
                                           uint32_t machine_registers) {
  auto kernel = std::make_unique<Kernel>();
  kernel->name = entry.name;
  kernel->display_name = ptx::short_function_name(entry.name);
  kernel->module = image.module();
  kernel->entry = &entry;
  kernel->own_file = own_file_of(*kernel->module, entry);
  kernel->machine_registers = machine_registers;
  KernelTranslator(*kernel, image, architecture_, instruction_set()).run();
  if (announces_memory_events_) observe(*kernel, announces_global_);
  if (announces_instructions_) trace_instructions(*kernel);
  let_unread_loads_fail(*kernel);
  return kernel;
}

Residency Machine::residency(const Kernel& kernel, Extent3 block, uint32_t dynamic_shared_bytes) const {
  return residency_of(resources_of(architecture_), resources_of_block(kernel, block.count(), dynamic_shared_bytes));
}

LaunchResult Machine::launch(const LaunchRequest& request, const std::vector<Observer*>& observers,
                             std::function<void(std::string_view)> print, const Division& divided) {
  LaunchResult result;
  GridConstants grid;
  grid.request = &request;
  grid.kernel = request.kernel;
  grid.kernel->barrier_names.forget();
  grid.architecture = &architecture_;
  grid.latencies = &latencies_of(architecture_);
  grid.memory = &memory_;
  ++launches_;
  grid.id = request.grid_id != 0 ? request.grid_id : launches_;
  grid.print = std::move(print);
  // cooperative_groups/details/driver_abi.h, grid_workspace: its size, and a counter that begins at 0.
  constexpr uint64_t kWorkspaceBytes = 8;
  const auto workspace = request.cooperative ? memory_.allocate(kWorkspaceBytes, AllocationKind::device,
                                                                "the workspace of a cooperative grid")
                                             : std::optional<uint64_t>(0);
  const auto parameters = memory_.allocate(std::max<uint64_t>(request.parameters.size(), 1), AllocationKind::parameters,
                                           "kernel parameters");
  if (!parameters || !workspace) {
    result.fault = FaultKind::launch_failure;
    result.stopped = true;
    result.diagnostics.push_back({"launch failure",
                                  "no device memory is left for the parameters of the launch and what belongs to it",
                                  {},
                                  {},
                                  {}});
    return result;
  }
  grid.parameters_address = *parameters;
  std::copy(request.parameters.begin(), request.parameters.end(), DeviceMemory::host(*parameters));
  grid.workspace_address = *workspace;
  if (request.cooperative) {
    const std::array<uint32_t, 2> contents{kWorkspaceBytes, 0};
    std::memcpy(DeviceMemory::host(*workspace), contents.data(), sizeof contents);
  }
  const bool may_divide = observers.empty() && divided.observers && !divided.in_one_part && request.choices == nullptr;
  const uint32_t parts = may_divide ? parts_of(request, architecture_) : 1;
  result = run_in_parts(grid, parts, observers, divided);
  memory_.release(*parameters);
  if (request.cooperative) memory_.release(*workspace);
  return result;
}

}  // namespace stagecraft::emulator::machine
