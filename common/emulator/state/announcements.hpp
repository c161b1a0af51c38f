// Announces events to the observers that want memory events. Where an event costs time to describe, ask
// `observes_memory` first.
#pragma once

#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

inline bool observes_memory(const Fragment& fragment) { return !fragment.grid().memory_observers.empty(); }

inline bool observes_instructions(const Fragment& fragment) { return !fragment.grid().instruction_observers.empty(); }

/// Whether the observers of asynchronous operations want to know what these access in global memory.
inline bool observes_global(const Fragment& fragment) {
  return observes_instructions(fragment) || fragment.grid().kernel->announces_global;
}

/// Announces that lanes exchange registers in the instruction that the fragment is at.
void announce_exchange_to_observers(const Fragment& fragment, LaneMask lanes);
inline void announce_exchange(const Fragment& fragment, LaneMask lanes) {
  if (observes_memory(fragment)) announce_exchange_to_observers(fragment, lanes);
}
/// Announces each store still under way that lanes read too early. Called where memory is observed.
/// @param addresses  generic addresses of global memory, by lane
void announce_early_reads(const Fragment& fragment, uint32_t pc, LaneMask lanes, const uint64_t* addresses,
                          uint64_t bytes);
/// Announces the first store still under way that a copy of one lane reads too early.
void announce_early_copy(const Fragment& fragment, uint32_t lane, const std::vector<GlobalRange>& reads);
/// An access that an instruction makes beside AccessDetail, one address for one lane.
void announce_access(Fragment& fragment, uint32_t lane, AccessKind kind, uint32_t shared_address, uint32_t bytes);
/// Gives the operation its number and announces it. Returns the number.
uint64_t announce_operation(AsyncOperation operation);
void announce_group(const GroupEvent& event);
/// Announces what lanes do to tensor maps, once for each map. @param address  returns that of a lane
template <typename Address>
void announce_tensor_map(const Fragment& fragment, TensorMapEventKind kind, LaneMask lanes, Address address) {
  if (!observes_memory(fragment)) return;
  while (lanes != 0) {
    const uint64_t map = address(first_lane(lanes));
    LaneMask alike = 0;
    for_each_lane(lanes, [&](uint32_t lane) { alike |= (address(lane) == map ? 1u : 0u) << lane; });
    lanes &= ~alike;
    const TensorMapEvent event{kind, &fragment, alike, map};
    for (Observer* observer : fragment.grid().memory_observers) observer->tensor_map_changed(event);
  }
}
void announce_warpgroup_issue(const WarpgroupIssue& event);
void announce_warpgroup_wait(const WarpgroupWait& event);
void announce_warpgroup_fence(const Fragment& fragment);
void announce_warpgroup_registers(const WarpgroupRegisterUse& event);
void announce_rendezvous(const Rendezvous& event);
void announce_tensor(const TensorEvent& event);

}  // namespace stagecraft::emulator::machine
