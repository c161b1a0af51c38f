#include "emulator/checks/synchronisation/lost_copy_check.hpp"

#include <optional>
#include <utility>

#include "emulator/checks/reporting/place.hpp"
#include "emulator/state/fault.hpp"

namespace stagecraft::emulator::checks {

void LostCopyCheck::grid_started(const machine::Grid& grid) { findings_.start(*grid.kernel); }

bool LostCopyCheck::copy_lost(const machine::Cluster& cluster, const machine::Fault& fault) {
  const machine::Origin& issuer = cluster.origin;
  auto identity = issuer.block == nullptr ? std::nullopt : findings_.claim("lost copy", issuer.pc);
  if (!identity) return true;
  machine::Diagnostic finding;
  finding.kind = "illegal address";
  finding.message = fault.message;
  finding.place = place_of(*cluster.grid->kernel, issuer.block->index, issuer.warp, issuer.lanes, issuer.pc);
  finding.details = fault.details;
  finding.details.emplace_back("the copy is dropped; on a chip the memory may be another block's by then");
  finding.likely_cause = fault.likely_cause;
  findings_.add(machine::time_of(cluster), std::move(*identity), std::move(finding));
  return true;
}

}  // namespace stagecraft::emulator::checks
