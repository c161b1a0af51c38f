// A wait whose parity was not flipped, so that it passed at once for a phase that had already ended.
#pragma once

#include <cstdint>
#include <string>

#include "emulator/checks/ordering/ordering_record.hpp"
#include "emulator/checks/reporting/finding_log.hpp"

namespace stagecraft::emulator::checks {

/// "phase 3", or "the phase before the first": the phase that a wait saw ended.
std::string spell_phase_seen(const WaitNote& note);

/// Reports a stale wait. A wait that sees the same phase twice may be harmless: it is reported only where a race or a
/// deadlock results from it.
/// @param warp  that waited: its number in the cluster
void report_stale_wait(FindingLog& findings, const ClusterRecord& cluster, uint32_t warp, const WaitNote& note,
                       const BarrierOrder& barrier);

}  // namespace stagecraft::emulator::checks
