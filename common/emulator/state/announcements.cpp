#include "emulator/state/announcements.hpp"

#include <array>
#include <utility>

namespace stagecraft::emulator::machine {

void announce_access(Fragment& fragment, uint32_t lane, AccessKind kind, uint32_t shared_address, uint32_t bytes) {
  std::array<uint32_t, kWarpSize> addresses{};
  addresses[lane] = shared_address;
  const MemoryAccess event{&fragment, fragment.pc,      1u << lane, kind,   AccessOrder::weak,
                           bytes,     addresses.data(), nullptr,    nullptr};
  for (Observer* observer : fragment.grid().memory_observers) observer->memory_accessed(event);
}

uint64_t announce_operation(AsyncOperation operation) {
  Grid& grid = operation.fragment->grid();
  operation.number = ++grid.operations;
  for (Observer* observer : grid.memory_observers) observer->operation_issued(operation);
  return operation.number;
}

void announce_group(const GroupEvent& event) {
  for (Observer* observer : event.fragment->grid().memory_observers) observer->group_changed(event);
}

void announce_warpgroup_issue(const WarpgroupIssue& event) {
  for (Observer* observer : event.fragment->grid().memory_observers) observer->warpgroup_issued(event);
}

void announce_warpgroup_wait(const WarpgroupWait& event) {
  for (Observer* observer : event.fragment->grid().memory_observers) observer->warpgroup_waited(event);
}

void announce_rendezvous(const Rendezvous& event) {
  for (Observer* observer : event.cluster->grid->memory_observers) observer->threads_met(event);
}

void announce_tensor(const TensorEvent& event) {
  for (Observer* observer : event.fragment->grid().memory_observers) observer->tensor_memory_changed(event);
}

}  // namespace stagecraft::emulator::machine
