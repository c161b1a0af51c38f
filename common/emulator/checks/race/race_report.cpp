#include "emulator/checks/race/race_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "emulator/checks/ordering/thread_knowledge.hpp"
#include "emulator/checks/ordering/wording.hpp"
#include "emulator/checks/race/race_cause.hpp"

namespace stagecraft::emulator::checks {

using machine::Diagnostic;
using machine::LaneMask;

namespace {

/// Whether a write left shared memory as it was.
bool changed_nothing(const machine::MemoryAccess& write, LaneMask lanes) {
  bool nothing = true;
  machine::for_each_lane(lanes, [&](uint32_t lane) {
    const uint32_t address = write.shared[lane];
    const machine::Block* block = write.fragment->cluster().block_of(address);
    nothing = nothing && block != nullptr &&
              std::memcmp(block->shared.data() + (address & machine::kSharedOffsetMask),
                          write.before + size_t{lane} * write.bytes, write.bytes) == 0;
  });
  return nothing;
}

/// Whether two stores write the same value whenever they write to one place: they are one instruction, whose threads
/// compute the same, or both store one constant. That two others have written the same value is chance.
bool must_agree(const machine::Kernel& kernel, uint32_t one_pc, uint32_t other_pc) {
  if (one_pc == other_pc) return true;
  const auto one = kernel.stored_constants.find(one_pc), other = kernel.stored_constants.find(other_pc);
  return one != kernel.stored_constants.end() && other != kernel.stored_constants.end() && one->second == other->second;
}

/// Whether a read comes after the write of one of several lanes that wrote this byte in one instruction: what the
/// others write later is the same, or they are reported.
bool has_seen_one(const PastAccess& before, const PresentAccess& now) {
  if (!before.writes() || before.is_asynchronous() || !before.is_even() || now.record.writes() ||
      now.record.is_asynchronous() || now.known == nullptr) {
    return false;
  }
  bool seen = false;
  machine::for_each_lane(before.lanes, [&](uint32_t lane) {
    seen = seen || now.known->at(ThreadKnowledge::component_of(before.agent, lane)) >= before.time;
  });
  return seen;
}

}  // namespace

void RaceReport::race(const ClusterRecord& cluster, const PastAccess& before, const PresentAccess& now,
                      uint32_t address) {
  const bool agree = before.writes() && !before.is_asynchronous() && now.written != nullptr &&
                     changed_nothing(*now.written, now.lanes);
  const bool same_value = agree && must_agree(cluster.kernel(), before.pc(), now.record.pc());
  const bool seen_one = has_seen_one(before, now);
  findings_.note_race(before.pc(), now.record.pc());
  const bool is_in_warpgroup = now.together != nullptr && cluster.order().knows_of_all(before, *now.together);
  const uint32_t warps = cluster.order().warps_per_block();
  const bool same_block = before.agent / warps == now.warp / warps;
  const uint32_t strength = before.is_asynchronous() || now.record.is_asynchronous() ? 3
                            : before.agent == now.warp                               ? 0
                            : same_block                                             ? 1
                                                                                     : 2;
  // What the chip tolerates must not hide a race of other threads on the same two lines.
  const auto identity = findings_.claim_pair(same_value || seen_one ? "race of equal values"
                                             : is_in_warpgroup      ? "race in a warpgroup"
                                                                    : "race",
                                             before.pc(), now.record.pc(), strength);
  if (!identity) return;
  const machine::Kernel& kernel = cluster.kernel();
  Diagnostic finding;
  finding.kind = "race";
  finding.place = place_of(cluster, now.warp, now.lanes, now.record.pc());
  const uint32_t rank = address >> machine::kSharedRankShift;
  const std::string what = kernel.name_of_shared_byte(address & machine::kSharedOffsetMask);
  const bool own = rank == now.warp / cluster.order().warps_per_block();
  const std::string owner = own ? std::string() : fmt::format(" of the block of rank {}", rank);
  finding.message =
      now.record.is_asynchronous()
          ? fmt::format("race: the {} issued here {} {} in shared memory{}", now.what,
                        now.record.writes() ? "writes" : "reads", what, owner)
          : fmt::format("race: {} {} in shared memory{}", now.record.writes() ? "writes" : "reads", what, owner);
  finding.details.push_back(describe(cluster, before));
  finding.details.push_back("nothing orders the two");
  if (agree && !same_value) {
    finding.details.push_back("both wrote the same value this time, but nothing says that they always do");
  }
  finding.likely_cause = RaceCause(findings_, cluster, address).of(before, now);
  finding.subject = variable_of(what);
  const uint32_t first = before.is_asynchronous() ? cluster.order().operation(before.operation()).warp : before.agent;
  finding.between = {std::min(first, now.warp), std::max(first, now.warp)};
  if (same_value) finding.tolerated = "both write the same value";
  if (seen_one) {
    finding.tolerated = "the write of one of these lanes is over, and the others write the same value";
    finding.likely_cause = "one lane is enough to write it; or put a __syncwarp() and a fence after the write";
  }
  if (is_in_warpgroup) {
    finding.tolerated =
        "it was over for another warp of the warpgroup when that issued its part, and on an H200 no warp's wgmma "
        "begins before all four have issued theirs";
  }
  findings_.add(cluster.cluster(), *identity, std::move(finding));
}

void RaceReport::race_in_instruction(const ClusterRecord& cluster, const PastAccess& now, LaneMask lanes,
                                     uint32_t address) {
  const auto identity = findings_.claim_pair("race", now.pc(), now.pc());
  if (!identity) return;
  const std::string what = cluster.kernel().name_of_shared_byte(address & machine::kSharedOffsetMask);
  Diagnostic finding;
  finding.kind = "race";
  finding.subject = variable_of(what);
  finding.place = place_of(cluster, now.agent, lanes, now.pc());
  finding.message =
      fmt::format("race: these lanes write different values to {} in shared memory, in one instruction", what);
  finding.details.push_back("which of them stays there is left to chance");
  finding.likely_cause = "the index does not depend on the lane as it should, or only one lane was meant to write";
  findings_.add(cluster.cluster(), *identity, std::move(finding));
}

void RaceReport::outlived(const ClusterRecord& cluster, const Operation& copy) {
  const auto identity = findings_.claim("outlived", copy.pc, copy.pc);
  if (!identity) return;
  Diagnostic finding;
  finding.kind = "missing wait";
  finding.place = place_of(cluster, copy.warp, 1u << copy.lane, copy.pc);
  finding.message = fmt::format(
      "the block ends, and nobody has waited until the {} issued here has read its shared memory", copy.what);
  finding.details.emplace_back("the shared memory of a block that has ended may be another's before it is read");
  finding.likely_cause = fmt::format(
      "the thread that issues the {} must commit it and wait, cp.async.bulk.wait_group.read 0, before it exits",
      copy.what);
  finding.tolerated = "kernels of CUTLASS and DeepGEMM end so";
  findings_.add(cluster.cluster(), *identity, std::move(finding));
}

}  // namespace stagecraft::emulator::checks
