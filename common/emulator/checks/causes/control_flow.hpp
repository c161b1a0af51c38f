// Where threads can come to from an instruction, as the PTX of their function says.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "emulator/state/kernel.hpp"

namespace stagecraft::emulator::checks {

/// The instructions that can follow one, as indices in the body of its function; none after a return. Nothing where
/// that is not understood, as for an indirect branch.
std::optional<std::vector<uint32_t>> successors(const machine::Kernel& kernel, const ptx::Function& function,
                                                uint32_t at);

/// Whether threads which have come to one of two places where all must meet have passed the other by: the way from that
/// leads on to theirs before it comes round again, and theirs need not lead through it. False where the code is not
/// understood, or both may be so.
/// @param pc  the place that they have passed by
bool is_passed_by(const machine::Kernel& kernel, uint32_t pc, uint32_t other_pc);

/// Whether a thread that waits for an mbarrier can come to such a wait on another line next. False where the code is
/// not understood.
bool has_later_wait(const machine::Kernel& kernel, uint32_t pc);

/// Whether a thread may come from an instruction, or from the start of the kernel, to another before it comes to a
/// third. False where the code is not understood.
/// @param pc  nothing: the start
/// @param meeting_stops  whether it also comes to no barrier of the block on the way
bool may_come_before(const machine::Kernel& kernel, std::optional<uint32_t> pc, uint32_t to_pc, uint32_t other_pc,
                     bool meeting_stops);

/// The barriers of the block (bar.sync and its kind) that a thread can come to next, as pcs; no barrier of a warp or a
/// cluster. Nothing where the code is not understood.
std::optional<std::vector<uint32_t>> next_block_barriers(const machine::Kernel& kernel, uint32_t pc);

/// Whether what a load brings decides if a thread comes to an instruction before any barrier of the block: a branch was
/// computed from it, through registers, of which one way may lead there and the other leads to a barrier only. False
/// where the code is not understood.
bool decides_way(const machine::Kernel& kernel, uint32_t load_pc, uint32_t to_pc);

/// Whether a thread may come to a barrier of the block with this number, from an instruction. True where the code is
/// not understood.
bool may_come_to_barrier(const machine::Kernel& kernel, uint32_t pc, uint32_t number);

}  // namespace stagecraft::emulator::checks
