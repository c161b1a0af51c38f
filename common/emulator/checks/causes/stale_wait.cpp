#include "emulator/checks/causes/stale_wait.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "emulator/checks/causes/asked_once.hpp"
#include "emulator/checks/ordering/wording.hpp"
#include "emulator/state/register_writes.hpp"

namespace stagecraft::emulator::checks {

namespace {

/// " at ring.cu:41": the arrival of a warp that alone ended a phase for which others wait; empty: it is not so.
std::string arrival_for_others(const ClusterRecord& cluster, uint32_t warp, uint64_t phase,
                               const BarrierOrder& barrier) {
  const uint32_t warps = cluster.order().warps_per_block();
  const machine::Block& block = *cluster.cluster().blocks[warp / warps];
  const PhaseNote* own = barrier.phases.sole_arrival(phase, block, warp % warps);
  bool others_wait = false;
  barrier.phases.for_each(phase, [&](const PhaseNote& note) {
    const bool same = note.block == &block && note.warp == warp % warps;
    others_wait = others_wait || (note.kind == PhaseNote::Kind::wait && !same);
  });
  return own == nullptr || !others_wait ? std::string() : line_of(cluster, own->pc);
}

/// " at ring.cu:41": the arrival of a warp in the first phase of a barrier, if all who have arrived there wait there as
/// well, like this warp, so that the phase is one for others; empty: it is not so.
std::string arrival_among_waiters(const ClusterRecord& cluster, uint32_t warp, const BarrierOrder& barrier) {
  const ClusterOrder& order = cluster.order();
  const PhaseNote* own = nullptr;
  bool others_arrive = false;
  barrier.phases.for_each(0, [&](const PhaseNote& note) {
    if (note.kind == PhaseNote::Kind::wait || note.block == nullptr) return;
    const uint32_t number = note.block->rank * order.warps_per_block() + note.warp;
    const auto& waits = order.warp(number).waits;
    const bool waits_there = std::any_of(waits.begin(), waits.end(),
                                         [&](const auto& each) { return &order.barrier(each.first) == &barrier; });
    if (number == warp) own = &note;
    others_arrive = others_arrive || !waits_there;
  });
  return own == nullptr || others_arrive ? std::string() : line_of(cluster, own->pc);
}

/// The parity that a wait asks for each time, where it is a constant, and where no other wait of its line asks for
/// another, as in a loop that was unrolled. Nothing: it may change.
std::optional<uint64_t> constant_parity(const machine::Kernel& kernel, uint32_t pc) {
  const auto parity_at = [&](uint32_t at) -> std::optional<uint64_t> {
    const ptx::Function& function = *kernel.places[at].function;
    const std::vector<ptx::Operand>& operands = function.body[kernel.places[at].instruction].operands;
    if (operands.size() < 3) return std::nullopt;
    const ptx::Operand& parity = operands[2];  // after the answer and the address
    if (parity.kind == ptx::OperandKind::integer) return parity.bits & 1;
    if (parity.kind != ptx::OperandKind::reg) return std::nullopt;
    std::optional<uint64_t> value;
    size_t writes = 0;
    machine::for_each_write(function, parity.reg, [&](uint32_t i) {
      const ptx::Instruction& each = function.body[i];
      ++writes;
      const bool is_copy = kernel.traits.at(&function)[i].computes == machine::Computation::copy;
      if (is_copy && !each.guarded && each.operands[1].kind == ptx::OperandKind::integer) {
        value = each.operands[1].bits & 1;
      }
    });
    return writes == 1 ? value : std::nullopt;
  };
  const std::string line = kernel.describe_source(pc);
  const std::optional<uint64_t> parity = parity_at(pc);
  for (uint32_t other = 0; other < kernel.places.size() && parity; ++other) {
    if (kernel.places[other].function == nullptr || !kernel.traits_at(other).polls) continue;
    if (kernel.describe_source(other) == line && parity_at(other) != parity) return std::nullopt;
  }
  return parity;
}

}  // namespace

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
      "there one too many?";
  if (const auto parity = constant_parity(cluster.kernel(), note.pc)) {
    finding.likely_cause += fmt::format(
        " The wait asks for parity {} each time, because what it is given is a constant there. If the source flips it, "
        "the flip is lost: is the variable set back, or made once more, in each round?",
        *parity);
  }
  if (is_asked_once(cluster.kernel(), note.pc)) {
    finding.likely_cause = fmt::format(
        "the question is asked once only. In an earlier round the answer was no, and the thread went on: it is a round "
        "behind since. Ask again until the answer is yes: `while (!try_wait(...)) {{}}`");
  }
  const std::string own = note.phases == 0 ? arrival_among_waiters(cluster, warp, barrier)
                                           : arrival_for_others(cluster, warp, note.phases - 1, barrier);
  // Who announces bytes does not end the phase alone, and may well be among those who wait for them.
  if (!own.empty() && note.phases != 0 && barrier.is_for_copies) {
    finding.likely_cause += fmt::format(
        " Or, since others wait for {} and this warp announces what comes there{}: is this wait for the barrier at "
        "which they arrive?",
        name, own);
  } else if (!own.empty()) {
    finding.likely_cause = fmt::format(
        "others wait for the phases of {}, and this warp ends them itself{}: is it to wait for the barrier at which "
        "the others arrive? Otherwise the parity must flip once from each wait to the next",
        name, own);
  }
  finding.subject = variable_of(cluster, barrier);
  findings.add(cluster.cluster(), *identity, std::move(finding));
}

}  // namespace stagecraft::emulator::checks
