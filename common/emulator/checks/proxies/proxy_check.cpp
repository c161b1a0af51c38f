// What asynchronous operations need beside order: that threads' writes were made visible to their proxy, that there is
// a barrier where they complete, and that the tensor core sees a tile as the copy engine has laid it out.
#include <fmt/format.h>

#include <algorithm>

#include "emulator/checks/race/race.hpp"
#include "emulator/checks/reporting/report.hpp"
#include "emulator/state/mbarrier_table.hpp"

namespace stagecraft::emulator::checks {

using machine::AsyncOperation;
using machine::Diagnostic;
using machine::FenceKind;
using machine::LaneMask;
using machine::MatrixRead;
using machine::SharedLayout;
using machine::SharedRange;

namespace {

constexpr uint32_t kPageBytes = ShadowMemory::kPageBytes;
constexpr size_t kRangesOfOneLayout = 16;  // of which one is looked at: a tile comes by few copies

std::string_view spell(SharedLayout layout) {
  switch (layout) {
    case SharedLayout::unknown: return "an unknown layout";
    case SharedLayout::linear: return "no swizzle";
    case SharedLayout::swizzle_32: return "the 32-byte swizzle";
    case SharedLayout::swizzle_64: return "the 64-byte swizzle";
    case SharedLayout::swizzle_128: return "the 128-byte swizzle";
    case SharedLayout::swizzle_128_atom_32: return "the 128-byte swizzle with atoms of 32 bytes";
    case SharedLayout::swizzle_128_atom_32_flip_8: return "the 128-byte swizzle with flipped atoms of 32 bytes";
    case SharedLayout::swizzle_128_atom_64: return "the 128-byte swizzle with atoms of 64 bytes";
  }
  return {};
}

/// After how many bytes a swizzle's pattern repeats; 0 where nothing repeats.
uint32_t period_of(SharedLayout layout) {
  switch (layout) {
    case SharedLayout::swizzle_32: return 256;
    case SharedLayout::swizzle_64: return 512;
    case SharedLayout::swizzle_128: return 1024;
    case SharedLayout::swizzle_128_atom_32: return 512;
    default: return 0;
  }
}

}  // namespace

machine::Place RaceCheck::place_of(const ClusterState& state, const AsyncOperation& operation) const {
  return place_of(state, state.order.warp_number(*operation.fragment), 1u << operation.lane, operation.fragment->pc);
}

void RaceCheck::note_fence(ClusterState& state, machine::Fragment& fragment, LaneMask lanes, FenceKind kind) {
  const uint32_t warp = state.order.warp_number(fragment);
  if (kind == FenceKind::proxy_async) {
    state.proxy_fences.fence(state.order, warp, lanes, fragment.pc);
    if (const auto late = state.awaited_fences.find(warp); late != state.awaited_fences.end()) {
      findings_.add_detail(
          late->second, *state.cluster,
          fmt::format(
              "the next fence.proxy.async of this warp{} comes after the operation, where it is of no use to it",
              line_of(fragment.pc)));
      state.awaited_fences.erase(late);
    }
  }
}

void RaceCheck::check_proxies(ClusterState& state, const AsyncOperation& operation) {
  if (operation.generic_proxy) return;  // asynchronous, but through the threads' own proxy
  if (operation.has_barrier) check_initialised(state, operation);
  check_alignment(state, operation);
  const uint32_t warp = state.order.warp_number(*operation.fragment);
  const VectorClock& known = *state.order.known(warp, operation.lane);
  const auto look_at = [&](const SharedRange& range, const MatrixRead* matrix, bool writes) {
    const uint32_t rank = range.address >> machine::kSharedRankShift;
    if (rank >= state.shadows.size()) return;
    const uint32_t base = rank << machine::kSharedRankShift;
    const uint32_t offset = range.address & machine::kSharedOffsetMask;
    // Where only copies have written, there is nothing to look at but their layout, which is the same for many ranges.
    bool by_threads = false;
    for (uint32_t at = offset; at < offset + range.bytes; at = (at / kPageBytes + 1) * kPageBytes) {
      by_threads = by_threads || state.shadows[rank].is_written_by_threads(at);
    }
    if (!by_threads && matrix == nullptr) return;
    state.shadows[rank].for_each_write(
        offset, by_threads ? range.bytes : 1, [&](const PastAccess& write, uint32_t place) {
          if (write.is_asynchronous()) {
            const Operation& writer = state.order.operation(write.operation());
            if (!writer.generic_proxy) {
              const bool differ = matrix != nullptr && matrix->layout != SharedLayout::unknown &&
                                  writer.layout != SharedLayout::unknown && writer.layout != matrix->layout;
              if (differ) report_layout(state, write, operation, *matrix, base + place);
              return;
            }
          }
          // Where not even the threads are ordered there is a race, which says so.
          if (!state.order.knows(write, warp, 1u << operation.lane, known)) return;
          if (state.proxy_fences.cover(state.order, write, warp, operation.lane)) return;
          report_proxy(state, write, operation, base + place, writes);
        });
  };
  size_t matrix = 0;
  for (size_t i = 0; i < operation.reads.size(); ++i) {
    while (matrix < operation.matrices.size() && operation.matrices[matrix].first <= i) ++matrix;
    const bool looks = matrix != 0 && (i - operation.matrices[matrix - 1].first) % kRangesOfOneLayout == 0;
    look_at(operation.reads[i], looks ? &operation.matrices[matrix - 1] : nullptr, false);
  }
  for (const SharedRange& range : operation.writes) look_at(range, nullptr, true);
}

void RaceCheck::report_proxy(ClusterState& state, const PastAccess& before, const AsyncOperation& operation,
                             uint32_t address, bool writes) {
  const auto identity = findings_.claim("proxy", before.pc(), operation.fragment->pc);
  if (!identity) return;
  const machine::Kernel& kernel = *grid_->kernel;
  Diagnostic finding;
  finding.kind = "missing proxy fence";
  finding.place = place_of(state, operation);
  finding.message = fmt::format(
      "the {} issued here {} {} in shared memory, which a thread has written, and no fence.proxy.async stands between "
      "the two",
      operation.what, writes ? "overwrites" : "reads",
      kernel.name_of_shared_byte(address & machine::kSharedOffsetMask));
  finding.details.push_back(describe(state, before));
  finding.details.push_back(
      "a barrier orders the threads; but the copy engine and the tensor core access shared memory through the "
      "asynchronous proxy, and what threads write is visible there only after the fence");
  const std::string order = before.is_asynchronous() ? "after its wait for the copy" : "after its last write";
  const ProxyFences::Fence* partial = state.proxy_fences.partial(before);
  if (partial != nullptr) {
    finding.likely_cause = fmt::format(
        "the fence.proxy.async{} is executed by {} only, and speaks for what those lanes have written or know of: let "
        "every thread that writes execute it, before the barrier",
        line_of(partial->pc), describe_lanes(partial->lanes));
  } else {
    finding.likely_cause = fmt::format(
        "fence.proxy.async is missing: every thread that writes must execute it {}, before the barrier that hands the "
        "bytes to the thread that issues the {}",
        order, operation.what);
  }
  const size_t number = findings_.add(*state.cluster, *identity, std::move(finding));
  const uint32_t warp = state.order.warp_number(*operation.fragment);
  for (const uint32_t each : {warp, before.is_asynchronous() ? warp : before.agent}) {
    state.awaited_fences.emplace(each, number);
  }
}

void RaceCheck::report_layout(ClusterState& state, const PastAccess& before, const AsyncOperation& operation,
                              const MatrixRead& matrix, uint32_t address) {
  const auto identity = findings_.claim("layout", before.pc(), operation.fragment->pc);
  if (!identity) return;
  const machine::Kernel& kernel = *grid_->kernel;
  const Operation& writer = state.order.operation(before.operation());
  Diagnostic finding;
  finding.kind = "swizzle mismatch";
  finding.place = place_of(state, operation);
  finding.message = fmt::format(
      "the {} issued here reads {} at {} in shared memory with {}, as its descriptor says; but it was written with {}",
      operation.what, matrix.name, kernel.name_of_shared_byte(address & machine::kSharedOffsetMask),
      spell(matrix.layout), spell(writer.layout));
  finding.details.push_back(describe(state, before));
  finding.details.push_back("the elements arrive, but each in the place of another");
  finding.likely_cause =
      "the tensor map (cuTensorMapEncodeTiled, its swizzle) and the matrix descriptor (bits 63:61) must name the same "
      "swizzle: take both from one constant";
  findings_.add(*state.cluster, *identity, std::move(finding));
}

/// The copy engine takes the pattern from the bits of the address, wherever in it a tile begins (PTX ISA, "Swizzling
/// modes": the base offset of a copy follows from its destination), as the tensor core does with base offset 0.
bool RaceCheck::is_copied_with(ClusterState& state, const AsyncOperation& operation, const MatrixRead& matrix) {
  const SharedRange& first = operation.reads[matrix.first];
  bool copied = false;
  state.shadows[first.address >> machine::kSharedRankShift].for_each_write(
      first.address & machine::kSharedOffsetMask, 1, [&](const PastAccess& write, uint32_t) {
        copied = write.is_asynchronous() && state.order.operation(write.operation()).layout == matrix.layout;
      });
  return copied;
}

void RaceCheck::check_alignment(ClusterState& state, const AsyncOperation& operation) {
  for (const MatrixRead& matrix : operation.matrices) {
    const uint32_t period = period_of(matrix.layout);
    if (period == 0 || matrix.base_offset != 0) continue;
    // A tile that begins where the pattern does has no bits between a line of 128 bytes and the period, wherever in its
    // first line an instruction begins.
    const uint32_t beyond = matrix.start % period / 128 * 128;
    if (beyond == 0 || is_copied_with(state, operation, matrix)) continue;
    const auto identity = findings_.claim(matrix.name, operation.fragment->pc, operation.fragment->pc);
    if (!identity) continue;
    const machine::Kernel& kernel = *grid_->kernel;
    Diagnostic finding;
    finding.kind = "misaligned tile";
    finding.place = place_of(state, operation);
    finding.message =
        fmt::format("the {} issued here reads {} from {}, shared address 0x{:x}, with {}", operation.what, matrix.name,
                    kernel.name_of_shared_byte(matrix.start), matrix.start, spell(matrix.layout));
    finding.details.push_back(fmt::format(
        "the pattern of this swizzle begins anew every {} bytes, and the tile begins {} bytes behind that: with base "
        "offset 0 (bits 51:49 of the descriptor) a tile must begin where the pattern does",
        period, beyond));
    finding.likely_cause = fmt::format(
        "the tile is not aligned: declare it alignas({}), and where it lies in dynamic shared memory, align the start "
        "of that too",
        period);
    findings_.add(*state.cluster, *identity, std::move(finding));
  }
}

/// The barrier is accessed in the generic proxy (PTX ISA, "cp.async.bulk": "This instruction accesses its mbarrier
/// operand using generic-proxy"; tcgen05.commit and the others alike), so that order is enough.
void RaceCheck::check_initialised(ClusterState& state, const AsyncOperation& operation) {
  const uint32_t index = state.order.find_barrier(operation.barrier >> machine::kSharedRankShift,
                                                  operation.barrier & machine::kSharedOffsetMask);
  if (index == ClusterOrder::kNoBarrier) return;
  const BarrierOrder& barrier = state.order.barrier(index);
  const uint32_t warp = state.order.warp_number(*operation.fragment);
  const LaneMask lane = 1u << operation.lane;
  if (barrier.initialised.agent == PastAccess::kNobody ||
      state.order.knows(barrier.initialised, warp, lane, *state.order.known(warp, operation.lane))) {
    return;
  }
  report_uninitialised(state, *operation.fragment, lane, barrier);
}

}  // namespace stagecraft::emulator::checks
