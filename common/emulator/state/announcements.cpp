#include "emulator/state/announcements.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace stagecraft::emulator::machine {

void announce_exchange_to_observers(const Fragment& fragment, LaneMask lanes) {
  for (Observer* observer : fragment.grid().memory_observers) observer->lanes_exchanged(fragment, lanes);
}

void announce_early_reads(const Fragment& fragment, uint32_t pc, LaneMask lanes, const uint64_t* addresses,
                          uint64_t bytes) {
  if (lanes == 0) return;
  const Grid& grid = fragment.grid();
  // Nearly always no store concerns anything between the lowest and the highest of the addresses.
  uint64_t lowest = addresses[first_lane(lanes)], highest = lowest;
  for_each_lane(lanes, [&](uint32_t lane) {
    lowest = std::min(lowest, addresses[lane]);
    highest = std::max(highest, addresses[lane]);
  });
  if (find_store(grid.stores_under_way, lowest, highest - lowest + bytes) == nullptr) return;
  while (lanes != 0) {
    const uint32_t first = first_lane(lanes);
    const StoreUnderWay* store = find_store(grid.stores_under_way, addresses[first], bytes);
    LaneMask alike = 0;
    for_each_lane(lanes, [&](uint32_t lane) {
      const bool same = lane == first || find_store(grid.stores_under_way, addresses[lane], bytes) == store;
      alike |= (same ? 1u : 0u) << lane;
    });
    lanes &= ~alike;
    if (store == nullptr) continue;
    const EarlyRead event{&fragment, pc, alike, addresses[first], store};
    for (Observer* observer : grid.memory_observers) observer->store_read_early(event);
  }
}

void announce_early_copy(const Fragment& fragment, uint32_t lane, const std::vector<GlobalRange>& reads) {
  const Grid& grid = fragment.grid();
  for (const GlobalRange& range : reads) {
    const StoreUnderWay* const store = find_store(grid.stores_under_way, range.address, range.bytes);
    if (store == nullptr) continue;
    const EarlyRead event{&fragment, fragment.pc, 1u << lane, range.address, store};
    for (Observer* observer : grid.memory_observers) observer->store_read_early(event);
    return;
  }
}

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

void announce_warpgroup_fence(const Fragment& fragment) {
  for (Observer* observer : fragment.grid().memory_observers) observer->warpgroup_fenced(fragment);
}

void announce_warpgroup_registers(const WarpgroupRegisterUse& event) {
  for (Observer* observer : event.fragment->grid().memory_observers) observer->warpgroup_registers_used(event);
}

void announce_rendezvous(const Rendezvous& event) {
  for (Observer* observer : event.cluster->grid->memory_observers) observer->threads_met(event);
}

void announce_tensor(const TensorEvent& event) {
  for (Observer* observer : event.fragment->grid().memory_observers) observer->tensor_memory_changed(event);
}

}  // namespace stagecraft::emulator::machine
