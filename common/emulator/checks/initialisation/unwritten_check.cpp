#include "emulator/checks/initialisation/unwritten_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "emulator/checks/ordering/wording.hpp"

namespace stagecraft::emulator::checks {

using machine::AccessKind;

namespace {

constexpr const char* kUndefined = "what shared memory holds when a block starts is not defined, and not zero";

}  // namespace

void UnwrittenCheck::WrittenBytes::add(uint32_t offset, uint32_t bytes) {
  if (offset >= kBytes || bytes > kBytes - offset) return;
  if (words_.empty()) words_.resize(kBytes / 64);
  while (bytes != 0) {
    const uint32_t bit = offset % 64, count = std::min(bytes, 64 - bit);
    words_[offset / 64] |= (count == 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1) << bit;
    offset += count;
    bytes -= count;
  }
}

bool UnwrittenCheck::WrittenBytes::has_any(uint32_t offset, uint32_t bytes) const {
  if (offset >= kBytes || bytes > kBytes - offset) return true;
  if (words_.empty()) return false;
  while (bytes != 0) {
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
  if (cluster.kernel().has_async_proxy) states_[cluster].blocks.resize(cluster.memory.size());
}

void UnwrittenCheck::memory_accessed(ClusterRecord& cluster, const RecordedAccess& recorded) {
  const machine::MemoryAccess& access = recorded.event;
  if (access.shared == nullptr || access.kind == AccessKind::read) return;
  State& state = states_[cluster];
  if (state.blocks.empty()) return;
  machine::for_each_lane(access.lanes, [&](uint32_t lane) {
    const uint32_t rank = access.shared[lane] >> machine::kSharedRankShift;
    if (rank < state.blocks.size()) {
      state.blocks[rank].add(access.shared[lane] & machine::kSharedOffsetMask, access.bytes);
    }
  });
}

void UnwrittenCheck::operation_issued(ClusterRecord& cluster, const IssuedOperation& issued) {
  State& state = states_[cluster];
  if (state.blocks.empty()) return;
  const bool multiplies = issued.event.product.m != 0;
  for (size_t i = 0; multiplies && i < issued.event.matrices.size(); ++i) check_operand(cluster, state, issued, i);
  for (const machine::SharedRange& range : issued.event.writes) {
    const uint32_t rank = range.address >> machine::kSharedRankShift;
    if (rank < state.blocks.size()) state.blocks[rank].add(range.address & machine::kSharedOffsetMask, range.bytes);
  }
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
  const uint32_t offset = operation.reads[read.first].address & machine::kSharedOffsetMask;
  machine::Diagnostic finding;
  finding.kind = "uninitialised operand";
  finding.place = place_of(cluster, operation);
  finding.message = fmt::format(
      "the {} issued here reads {} from {} in shared memory on, of which nothing has written "
      "a byte",
      operation.what, read.name, cluster.kernel().name_of_shared_byte(offset));
  finding.details.emplace_back(kUndefined);
  finding.likely_cause =
      "no copy and no store has been issued for these bytes: is one forgotten, does it go to another address or stage, "
      "or is the descriptor's start address wrong?";
  findings_.add_suspicion(cluster.cluster(), pc, std::move(*identity), std::move(finding));
}

}  // namespace stagecraft::emulator::checks
