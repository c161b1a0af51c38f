// Announcing what a kernel does to memory, to the observers that want it.
//
// Loads, stores, atomics, .sync operations and fences are announced by wrapping their handlers after translation
// (`observe`): the Ops of a kernel that nobody observes are untouched. What is rare anyway (barriers, asynchronous
// copies) is announced where it happens, if `observes_memory` says that somebody listens.
#pragma once

#include <utility>

#include "emulator/state/grid.hpp"
#include "emulator/translation/registration.hpp"

namespace stagecraft::emulator::machine {

/// Wraps the handlers of a translated kernel whose effects are to be announced.
void observe(Kernel& kernel, const InstructionSet& instructions);

inline bool observes_memory(const Fragment& fragment) { return !fragment.grid().memory_observers.empty(); }

/// An access that an instruction makes beside AccessDetail, one address for one lane.
void announce_access(Fragment& fragment, uint32_t lane, AccessKind kind, uint32_t shared_address, uint32_t bytes);
/// Gives the operation its number and announces it. Returns the number.
uint64_t announce_operation(AsyncOperation operation);
void announce_group(const GroupEvent& event);
void announce_warpgroup_issue(const WarpgroupIssue& event);
void announce_warpgroup_wait(const WarpgroupWait& event);
void announce_rendezvous(const Rendezvous& event);
void announce_tensor(const TensorEvent& event);

}  // namespace stagecraft::emulator::machine
