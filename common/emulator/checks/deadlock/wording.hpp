// How a report of a deadlock names barriers, warps, and what they wait for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/checks/deadlock/sleepers.hpp"
#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::checks {

/// "full[2]"
std::string name_of_barrier(const machine::Kernel& kernel, uint32_t address);
/// The same of the barrier that a fragment waits for.
std::string name_of_barrier(const machine::Fragment& waiter);
/// The variable of an array that a barrier is in; empty where there is no array. A ring's barriers are in one, mostly,
/// whatever the source calls them.
std::string array_of(const machine::Kernel& kernel, uint32_t address);
/// "barrier 0", "barrier.cluster": where a group waits for others to come.
std::string name_of_meeting(const Group& group);
/// "block (0,0,0) warp 1"
std::string describe_warp(const machine::Block& block, uint32_t warp);
/// "warp 1", "warps 1, 3-5"
std::string describe_numbers(const std::vector<uint32_t>& warps);
/// "block (0,0,0) warps 1, 3-5 [all lanes]"
std::string describe_warps(const Group& group);
/// "waits for full[2] to complete phase 1 (the phase of parity 1)"
std::string describe_wait(const machine::Fragment& fragment);
/// Describes a group with its place and its wait.
std::string describe_group(const Group& group);

}  // namespace stagecraft::emulator::checks
