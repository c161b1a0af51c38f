#include "emulator/checks/race/stale_wait.hpp"

#include <fmt/format.h>

#include <utility>

#include "emulator/checks/ordering/wording.hpp"

namespace stagecraft::emulator::checks {

void report_stale_wait(FindingLog& findings, const ClusterRecord& cluster, uint32_t warp, const WaitNote& note,
                       const BarrierOrder& barrier) {
  const auto identity = findings.claim(kBarrierMisuse, note.pc);
  if (!identity) return;
  machine::Diagnostic finding;
  finding.kind = kBarrierMisuse;
  finding.place = place_of(cluster, warp, note.lanes, note.pc);
  finding.message =
      fmt::format("stale parity: waits for phase {} of {}, which it has already seen end in an earlier round",
                  note.phases - 1, name_of(cluster, barrier));
  finding.details.push_back(fmt::format("{} has ended {} phase{}; the wait is for parity {}, so it passes at once",
                                        name_of(cluster, barrier), note.phases, note.phases == 1 ? "" : "s",
                                        (note.phases - 1) & 1));
  finding.likely_cause =
      "the parity must flip once from each wait for this barrier to the next: is a flip (a step) forgotten, or is "
      "there one "
      "too many?";
  findings.add(cluster.cluster(), *identity, std::move(finding));
}

}  // namespace stagecraft::emulator::checks
