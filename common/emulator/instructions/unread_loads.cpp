#include "emulator/instructions/unread_loads.hpp"

#include "emulator/state/fault.hpp"
#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {
namespace {

bool is_of_address(FaultKind kind) {
  return kind == FaultKind::illegal_address || kind == FaultKind::misaligned_address ||
         kind == FaultKind::invalid_address_space;
}

Outcome may_fail(Fragment& fragment, const Op& op, LaneMask mask) {
  const UnreadLoad& load = fragment.grid().kernel->unread_loads.at(fragment.pc);
  try {
    return mask == kAllLanes ? load.full(fragment, op, mask) : load.masked(fragment, op, mask);
  } catch (const Fault& fault) {
    if (!is_of_address(fault.kind)) throw;
    return Outcome::next;
  }
}

}  // namespace

void let_unread_loads_fail(Kernel& kernel) {
  for (auto& [pc, load] : kernel.unread_loads) {
    Op& op = kernel.code[pc];
    load = {op.full, op.masked};
    op.full = op.masked = may_fail;
  }
}

}  // namespace stagecraft::emulator::machine
