// Why a wait does not end that is neither for an mbarrier nor for other threads of the block.
#include <fmt/format.h>

#include "emulator/checks/causes/control_flow.hpp"
#include "emulator/checks/deadlock/causes.hpp"
#include "emulator/checks/deadlock/register_demand.hpp"
#include "emulator/checks/reporting/place.hpp"
#include "emulator/state/tensor_units.hpp"

namespace stagecraft::emulator::checks {

std::string registers_asked_for_in_vain(const Sleepers&, const Group& group) {
  return explain_register_demand(group.first->block());
}

std::string tensor_memory_never_freed(const Sleepers&, const Group&) {
  return "tensor memory that was allocated earlier has not been freed: is there a tcgen05.dealloc on every path?";
}

std::string one_block_of_a_pair(const Sleepers&, const Group& group) {
  const machine::Fragment& first = *group.first;
  const machine::Block& peer = *machine::peer_of(first.block());
  return fmt::format(
      "with cta_group::2 {} is executed by one warp of each block of a pair, together: block ({},{},{}) {} it. Does "
      "only one of the two execute it, or does its peer wait for it before?",
      machine::name_of(static_cast<machine::Tcgen05PairInstruction>(first.wait.value)), peer.index.x, peer.index.y,
      peer.index.z, peer.exited ? "has ended without" : "does not come to");
}

std::string part_of_a_warpgroup(const Sleepers&, const Group&) {
  return "a wgmma.mma_async begins when all four warps of the warpgroup have issued it: does each come to it?";
}

std::string one_block_meets_once_more(const Sleepers& sleepers, const Group& group) {
  const machine::Fragment& first = *group.first;
  const machine::Kernel& kernel = *first.grid().kernel;
  const machine::Block *here = &first.block(), *gone = nullptr;
  for (const Group& other : sleepers.groups()) {
    const machine::Fragment& there = *other.first;
    const bool meets = there.wait.kind == machine::WaitKind::cluster_barrier;
    if (&there.block() == here) {
      if (!meets || there.pc != first.pc) return {};
    } else if (!meets) {
      if (!is_passed_by(kernel, first.pc, there.pc)) return {};
      gone = &there.block();
    }
  }
  if (gone == nullptr) return {};
  return fmt::format(
      "all threads of block rank {0} wait at barrier.cluster{1}, and those of rank {2} have gone past it and wait "
      "elsewhere. Each barrier.cluster takes all threads of the cluster: does rank {0} execute one more before, as in "
      "a branch by rank?",
      here->rank, at_line(kernel, first.pc), gone->rank);
}

std::string not_all_of_the_cluster(const Sleepers&, const Group&) {
  return "a thread of the cluster never arrives at barrier.cluster";
}

}  // namespace stagecraft::emulator::checks
