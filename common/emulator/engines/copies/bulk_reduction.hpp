// Which bulk reductions there are. Their arithmetic is in numerics/atomic_arithmetic.hpp.
#pragma once

#include "emulator/numerics/atomic_arithmetic.hpp"

namespace stagecraft::emulator::machine {

/// Whether bulk reductions exist for the pair, to global memory or to the shared memory of a cluster (PTX ISA,
/// "cp.reduce.async.bulk").
bool bulk_reduction_exists(AtomicOperation operation, ptx::Type type, bool to_shared);

}  // namespace stagecraft::emulator::machine
