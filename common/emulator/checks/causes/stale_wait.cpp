#include "emulator/checks/causes/stale_wait.hpp"

#include <fmt/format.h>

#include <utility>

#include "emulator/checks/causes/asked_once.hpp"
#include "emulator/checks/ordering/wording.hpp"

namespace stagecraft::emulator::checks {

std::string spell_phase_seen(const WaitNote& note) {
  return note.phases == 0 ? "the phase before the first" : fmt::format("phase {}", note.phases - 1);
}

void report_stale_wait(FindingLog& findings, const ClusterRecord& cluster, uint32_t warp, const WaitNote& note,
                       const BarrierOrder& barrier) {
  const auto identity = findings.claim(kBarrierMisuse, note.pc);
  if (!identity) return;
  machine::Diagnostic finding;
  finding.kind = kBarrierMisuse;
  finding.place = place_of(cluster, warp, note.lanes, note.pc);
  const std::string name = name_of(cluster, barrier);
  finding.message = fmt::format("stale parity: waits for {} of {}, which it has already seen end in an earlier round",
                                spell_phase_seen(note), name);
  finding.details.push_back(fmt::format("{} has ended {} phase{}; the wait is for parity {}, so it passes at once",
                                        name, note.phases, note.phases == 1 ? "" : "s",
                                        note.phases == 0 ? 1 : (note.phases - 1) & 1));
  finding.likely_cause =
      "the parity must flip once from each wait for this barrier to the next: is a flip (a step) forgotten, or is "
      "there one "
      "too many?";
  if (is_asked_once(cluster.kernel(), note.pc)) {
    finding.likely_cause = fmt::format(
        "the question is asked once only. In an earlier round the answer was no, and the thread went on: it is a round "
        "behind since. Ask again until the answer is yes: `while (!try_wait(...)) {{}}`");
  }
  finding.subject = variable_of(name);
  findings.add(cluster.cluster(), *identity, std::move(finding));
}

}  // namespace stagecraft::emulator::checks
