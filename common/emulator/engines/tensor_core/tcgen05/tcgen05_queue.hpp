// The queue of the tensor core: operations of a block, or of a pair of blocks, are executed in the order of issue, each
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
/// result that it would give on the chip. It does not run when a block of the units has ended by then.
/// `what` ("tcgen05.mma") and `footprint`, which returns what it reads and writes, are for the observers of memory;
/// `footprint` is called only if there are some.
void issue(Fragment& fragment, uint32_t lane, const TensorUnits& units, Cycle arithmetic, const char* what,
           const std::function<OperationFootprint()>& footprint, std::function<void(const TensorUnits&)> action);

/// Executes tcgen05.commit: arrives once on each of these mbarriers (shared addresses with rank) when all operations
/// that the lane has issued before are complete, or at once when there are none.
void commit(Fragment& fragment, uint32_t lane, std::vector<uint32_t> mbarriers);

}  // namespace stagecraft::emulator::machine
