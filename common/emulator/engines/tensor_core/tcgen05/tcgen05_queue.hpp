// The tensor unit as a queue: operations of a block, or of a pair of blocks, are executed in the order of issue, each
// at the virtual time at which the chip might have finished it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "emulator/engines/tensor_core/operation_footprint.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/state/tensor_units.hpp"

namespace stagecraft::emulator::machine {

/// Issues an operation of one lane that keeps the units busy for `arithmetic` cycles. `action` runs when it completes:
/// only then are shared memory and the accumulator read, so that a stage that is refilled too early gives the wrong
/// result that it would give on the chip. Not run when a block of the units has ended by then.
/// `what` and `footprint` tell observers of memory what it is: "tcgen05.mma", and what it reads and writes; `footprint`
/// is called only if somebody observes.
void issue(Fragment& fragment, uint32_t lane, const TensorUnits& units, Cycle arithmetic, const char* what,
           const std::function<OperationFootprint()>& footprint, std::function<void(const TensorUnits&)> action);

/// tcgen05.commit: arrives once on each of these mbarriers (shared addresses with rank) when all that the lane has
/// issued before is complete; at once when that is nothing.
void commit(Fragment& fragment, uint32_t lane, std::vector<uint32_t> mbarriers);

}  // namespace stagecraft::emulator::machine
