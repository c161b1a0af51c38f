#include "emulator/checks/initialisation/unwritten_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "emulator/checks/causes/brought_bytes.hpp"
#include "emulator/checks/ordering/warp_addresses.hpp"
#include "emulator/checks/ordering/wording.hpp"
#include "emulator/checks/reporting/report.hpp"
#include "emulator/state/mbarrier_table.hpp"

namespace stagecraft::emulator::checks {

using machine::AccessKind;

namespace {

/// Where the variable that holds some bytes has barriers of its own, as a ring in a struct does, and a warp has waited
/// for none of them; empty: it is not so.
std::string barriers_beside(const ClusterRecord& cluster, uint32_t address, uint32_t warp) {
  const uint32_t rank = address >> machine::kSharedRankShift;
  const auto& blocks = cluster.cluster().blocks;
  if (rank >= blocks.size()) return {};
  const std::string variable = variable_of(cluster.kernel().name_of_shared_byte(address & machine::kSharedOffsetMask));
  const ClusterOrder& order = cluster.order();
  const auto& waits = order.warp(warp).waits;
  std::string first, last;
  for (const auto& [offset, barrier] : blocks[rank]->mbarriers.live) {
    if (variable_of(cluster.kernel().name_of_shared(offset, machine::kMbarrierBytes)) != variable) continue;
    const std::string name = cluster.kernel().name_of_barrier(offset);
    if (const uint32_t index = order.find_barrier(rank, offset); waits.find(index) != waits.end()) return {};
    if (first.empty()) first = name;
    last = name;
  }
  if (first.empty() || first == last || variable.empty()) return {};
  return fmt::format(
      "{} has barriers of its own, {} to {}, and this warp has waited for none of them: is the wait "
      "before this read missing?",
      variable, first, last);
}

constexpr const char* kUndefined = "what shared memory holds when a block starts is not defined, and not zero";

}  // namespace

void UnwrittenCheck::WrittenBytes::add(uint32_t offset, uint32_t bytes) {
  if (offset >= kBytes || bytes == 0 || bytes > kBytes - offset) return;
  const size_t last = (offset + bytes - 1) / 64;
  if (last >= words_.size()) words_.resize(std::max(last + 1, 2 * words_.size()));
  while (bytes != 0) {
    const uint32_t bit = offset % 64, count = std::min(bytes, 64 - bit);
    words_[offset / 64] |= (count == 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1) << bit;
    offset += count;
    bytes -= count;
  }
}

bool UnwrittenCheck::WrittenBytes::has_any_in_words(uint32_t offset, uint32_t bytes) const {
  if (offset >= kBytes || bytes > kBytes - offset) return true;
  while (bytes != 0 && offset / 64 < words_.size()) {
    const uint32_t bit = offset % 64, count = std::min(bytes, 64 - bit);
    const uint64_t mask = (count == 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1) << bit;
    if ((words_[offset / 64] & mask) != 0) return true;
    offset += count;
    bytes -= count;
  }
  return false;
}

void UnwrittenCheck::cluster_started(ClusterRecord& cluster) {
  states_.start(cluster);
  states_[cluster].blocks.resize(cluster.memory.size());
}

void UnwrittenCheck::note_write(State& state, const machine::MemoryAccess& access) {
  for_each_run(access.shared, access.lanes, access.bytes, [&](uint32_t address, uint32_t bytes) {
    const uint32_t rank = address >> machine::kSharedRankShift;
    if (rank < state.blocks.size()) state.blocks[rank].add(address & machine::kSharedOffsetMask, bytes);
  });
}

/// A barrier's word is written by what happens at it.
void UnwrittenCheck::barrier_changed(ClusterRecord& cluster, const machine::BarrierEvent& event) {
  if (event.kind != machine::BarrierEventKind::init) return;
  states_[cluster].blocks[event.block->rank].add(event.offset, machine::kMbarrierBytes);
}

void UnwrittenCheck::report_load(const ClusterRecord& cluster, const machine::MemoryAccess& access) {
  const uint32_t pc = access.pc;
  const ClusterOrder& order = cluster.order();
  const uint32_t warp = order.warp_number(*access.fragment);
  // What does the last wait say that its threads passed before?
  const WaitNote* last = nullptr;
  const BarrierOrder* barrier = nullptr;
  for (const auto& [index, note] : order.warp(warp).waits) {
    if ((note.lanes & access.lanes) == 0 || (last != nullptr && note.time < last->time)) continue;
    last = &note;
    barrier = &order.barrier(index);
  }
  const uint32_t first = access.shared[machine::first_lane(access.lanes)];
  const std::string neighbours = barriers_beside(cluster, first, warp);
  const bool passed_at_once = last != nullptr && last->phases == 0 && neighbours.empty();
  auto identity = findings_.claim(passed_at_once ? "unwritten after a wait" : "unwritten", pc, pc);
  if (!identity) return;
  const uint32_t offset = first & machine::kSharedOffsetMask;
  const std::string what = cluster.kernel().name_of_shared_byte(offset);
  machine::Diagnostic finding;
  finding.kind = "uninitialised read";
  finding.subject = variable_of(what);
  finding.place = place_of(cluster, warp, access.lanes, pc);
  finding.message = fmt::format("{} {} in shared memory, and nothing has written what these lanes read",
                                access.kind == AccessKind::update ? "updates" : "reads", what);
  finding.details.emplace_back(kUndefined);
  finding.likely_cause =
      "no store and no copy has been issued for these bytes: is one forgotten, or does it go to another address or "
      "stage?";
  if (passed_at_once) {
    finding.likely_cause = fmt::format(
        "the wait{} for {} passed at once, because it was for parity 1 and no phase had ended: what waits "
        "for data begins with parity 0",
        line_of(cluster, last->pc), name_of(cluster, *barrier));
  } else if (!neighbours.empty()) {
    finding.likely_cause = neighbours;
    if (last != nullptr) {
      finding.likely_cause +=
          fmt::format(" The last wait{} was for {}", line_of(cluster, last->pc), name_of(cluster, *barrier));
    }
  } else if (last != nullptr) {
    const std::string came = barrier->phases.describe_bytes(last->phases - 1, cluster.kernel());
    const std::string ended = barrier->phases.describe_arrivals(last->phases - 1, cluster.kernel());
    if (!came.empty()) {
      finding.likely_cause += fmt::format(" The last wait{} was for {}, to which came {}", line_of(cluster, last->pc),
                                          name_of(cluster, *barrier), came);
    } else if (!ended.empty()) {
      finding.likely_cause +=
          fmt::format(" The last wait{} was for {}, and was ended by {}: is what is to be read written before that?",
                      line_of(cluster, last->pc), name_of(cluster, *barrier), ended);
    }
  }
  findings_.add_suspicion(cluster.cluster(), pc, std::move(*identity), std::move(finding));
}

void UnwrittenCheck::note_lanes(const ClusterRecord& cluster, const State& state, const machine::MemoryAccess& access) {
  latest_noted_ = access.pc;
  std::string& note = noted_[access.pc];
  if (!note.empty()) return;
  machine::LaneMask lanes = 0;
  machine::for_each_lane(access.lanes, [&](uint32_t lane) {
    if (!is_written(state, access, lane)) lanes |= 1u << lane;
  });
  const uint32_t first = access.shared[machine::first_lane(lanes)] & machine::kSharedOffsetMask;
  note = fmt::format("nothing has written {} in shared memory, which {} of warp {}{} at {}",
                     cluster.kernel().name_of_shared_byte(first), describe_lanes(lanes), access.fragment->warp->index,
                     std::popcount(lanes) == 1 ? " reads" : " read", cluster.kernel().describe_source(access.pc));
}

void UnwrittenCheck::add_results(std::vector<machine::WrittenResult>& results) {
  for (auto& [pc, note] : noted_) results.push_back({fmt::format("unwritten {}", pc), std::move(note), false});
  noted_.clear();
  latest_noted_ = kNone;
}

void UnwrittenCheck::operation_issued(ClusterRecord& cluster, const IssuedOperation& issued) {
  State& state = states_[cluster];
  const bool multiplies = issued.event.product.m != 0;
  for (size_t i = 0; multiplies && i < issued.event.matrices.size(); ++i) check_operand(cluster, state, issued, i);
  if (!multiplies) check_source(cluster, state, issued);
  for (const machine::SharedRange& range : issued.event.writes) {
    const uint32_t rank = range.address >> machine::kSharedRankShift;
    if (rank < state.blocks.size()) state.blocks[rank].add(range.address & machine::kSharedOffsetMask, range.bytes);
  }
}

void UnwrittenCheck::check_source(const ClusterRecord& cluster, const State& state, const IssuedOperation& issued) {
  const machine::AsyncOperation& operation = issued.event;
  if (operation.completion != machine::AsyncCompletion::bulk_group || operation.reads.empty()) return;
  for (const machine::SharedRange& range : operation.reads) {
    const uint32_t rank = range.address >> machine::kSharedRankShift;
    if (rank >= state.blocks.size()) return;
    if (state.blocks[rank].has_any(range.address & machine::kSharedOffsetMask, range.bytes)) return;
  }
  const uint32_t pc = operation.fragment->pc;
  auto identity = findings_.claim("unwritten source", pc, pc);
  if (!identity) return;
  const uint32_t offset = operation.reads.front().address & machine::kSharedOffsetMask;
  const std::string what = cluster.kernel().name_of_shared_byte(offset);
  machine::Diagnostic finding;
  finding.kind = "uninitialised read";
  finding.subject = variable_of(what);
  finding.place = place_of(cluster, operation);
  finding.message =
      fmt::format("the {} issued here stores from {} in shared memory on, of which nothing has written a byte",
                  operation.what, what);
  finding.details.emplace_back(kUndefined);
  finding.likely_cause =
      "no store has been executed for these bytes: is it for another buffer, or does it come after the copy?";
  findings_.add(cluster.cluster(), std::move(*identity), std::move(finding));
}

void UnwrittenCheck::check_operand(const ClusterRecord& cluster, const State& state, const IssuedOperation& issued,
                                   size_t matrix) {
  const machine::AsyncOperation& operation = issued.event;
  const machine::MatrixRead& read = operation.matrices[matrix];
  const size_t end =
      matrix + 1 < operation.matrices.size() ? operation.matrices[matrix + 1].first : operation.reads.size();
  if (read.first >= end) return;
  for (size_t i = read.first; i < end; ++i) {
    const machine::SharedRange& range = operation.reads[i];
    const uint32_t rank = range.address >> machine::kSharedRankShift;
    if (rank >= state.blocks.size()) return;
    if (state.blocks[rank].has_any(range.address & machine::kSharedOffsetMask, range.bytes)) return;
  }
  const uint32_t pc = operation.fragment->pc;
  auto identity = findings_.claim(fmt::format("unwritten {}", read.name), pc, pc);
  if (!identity) return;
  const uint32_t first = operation.reads[read.first].address, offset = first & machine::kSharedOffsetMask;
  const uint32_t rank = first >> machine::kSharedRankShift;
  machine::Diagnostic finding;
  finding.kind = "uninitialised operand";
  finding.subject = variable_of(cluster.kernel().name_of_shared_byte(offset));
  finding.place = place_of(cluster, operation);
  finding.message = fmt::format(
      "the {} issued here reads {} from {} in shared memory{} on, of which nothing has written "
      "a byte",
      operation.what, read.name, cluster.kernel().name_of_shared_byte(offset),
      cluster.has_one_block() ? std::string() : fmt::format(" of the block of rank {}", rank));
  finding.details.emplace_back(kUndefined);
  finding.likely_cause =
      "no copy and no store has been issued for these bytes: is one forgotten, does it go to another address or stage, "
      "or is the descriptor's start address wrong?";
  const ClusterOrder& order = cluster.order();
  const AwaitedPhase& awaited = order.warp(order.warp_number(*operation.fragment)).awaited;
  if (awaited.barrier != AwaitedPhase::kNone) {
    const std::string places = spell_brought(cluster, brought_in(cluster, awaited.barrier, awaited.phase));
    if (!places.empty()) {
      finding.likely_cause = fmt::format(
          "the copies of the phase that its thread waited for last (phase {} of {}) brought {}: does one of them go to "
          "another address or stage than it should, is a group of tiles that is not full multiplied as if it were, or "
          "is the descriptor's start address wrong?",
          awaited.phase, name_of(cluster, order.barrier(awaited.barrier)), places);
    }
  }
  findings_.add_suspicion(cluster.cluster(), pc, std::move(*identity), std::move(finding));
}

}  // namespace stagecraft::emulator::checks
