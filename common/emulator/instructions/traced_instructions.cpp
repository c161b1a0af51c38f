#include "emulator/instructions/traced_instructions.hpp"

#include <array>

#include "emulator/instructions/memory_access.hpp"
#include "emulator/state/announcements.hpp"

namespace stagecraft::emulator::machine {
namespace {

/// What makes an address of this space generic.
uint64_t window_of(AccessSpace space) {
  if (space == AccessSpace::shared || space == AccessSpace::shared_cluster) return kSharedWindow;
  return space == AccessSpace::local ? kLocalWindow : 0;
}

AccessKind kind_of(AccessVerb verb) {
  if (verb == AccessVerb::updates) return AccessKind::update;
  return verb == AccessVerb::reads ? AccessKind::read : AccessKind::write;
}

Outcome traced(Fragment& fragment, const Op& op, LaneMask mask) {
  const Grid& grid = fragment.grid();
  const uint32_t pc = fragment.pc;
  const TracedOp& plain = grid.kernel->traced[pc];
  const auto execute = [&] {
    return mask == kAllLanes ? plain.full(fragment, op, mask) : plain.masked(fragment, op, mask);
  };
  if (grid.instruction_observers.empty()) return execute();
  // A load may overwrite the register that holds its address.
  std::array<uint64_t, kWarpSize> addresses;
  const auto* const access = static_cast<const AccessDetail*>(plain.access);
  LaneMask lanes = mask;
  if (access != nullptr) {
    if (access->suppliers != 0) lanes = access->suppliers;
    const uint64_t window = window_of(access->space);
    for_each_lane(lanes, [&](uint32_t lane) { addresses[lane] = window + address_of_lane(fragment, *access, lane); });
  }
  const Outcome outcome = execute();
  if (outcome == Outcome::blocked) return outcome;
  // Strong loads and exchanges yield always, whatever they read. What yields and accesses no memory is a poll of an
  // mbarrier, and it has failed.
  const bool poll_failed = outcome == Outcome::yield && access == nullptr;
  ExecutedInstruction event{&fragment, pc, lanes, poll_failed, nullptr, 0, AccessKind::read};
  if (access != nullptr) {
    event.addresses = addresses.data();
    event.bytes = access->bytes;
    event.kind = kind_of(access->verb);
  }
  for (Observer* observer : grid.instruction_observers) observer->instruction_executed(event);
  return outcome;
}

bool is_in_memory(AccessSpace space) {
  return space != AccessSpace::kernel_parameter && space != AccessSpace::call_parameter;
}

}  // namespace

void trace_instructions(Kernel& kernel) {
  kernel.traced.resize(kernel.code.size());
  for (size_t pc = 0; pc < kernel.code.size(); ++pc) {
    Op& op = kernel.code[pc];
    TracedOp& plain = kernel.traced[pc];
    plain = {op.full, op.masked};
    const auto* access = dynamic_cast<const AccessDetail*>(op.detail);
    if (access != nullptr && is_in_memory(access->space)) plain.access = access;
    op.full = op.masked = traced;
  }
}

}  // namespace stagecraft::emulator::machine
