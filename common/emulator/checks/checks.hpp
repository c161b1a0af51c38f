// All checks of a launch: where a new one is registered.
#pragma once

#include <memory>
#include <vector>

#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::checks {

class GlobalHistory;

/// The checks over the shared record of memory accesses and their order (memory_checks.hpp), as one observer.
/// @param history  with it, global memory is checked, too (global_memory/); `begin` must have been called for the
///                 launch. The grid must run as one part then. Null: it is not.
/// @param reuse    whether barriers are judged whose memory was used for something else without mbarrier.inval
std::unique_ptr<machine::Observer> make_memory_checks(GlobalHistory* history = nullptr, bool reuse = false);

/// The observers that diagnose a launch, or one part of a grid that runs in parts.
/// @param memory   whether the checks of memory are among them, which cost time
/// @param goes_on  whether the program is to go on after findings: then a copy for a block that has exited is one, and
///                 does not stop the kernel; and what foreign programs do without harm is not reported
///                 (make_memory_checks: `reuse`)
/// @param history  as for make_memory_checks
std::vector<std::unique_ptr<machine::Observer>> make_checks(bool memory, bool goes_on = false,
                                                            GlobalHistory* history = nullptr);

}  // namespace stagecraft::emulator::checks
