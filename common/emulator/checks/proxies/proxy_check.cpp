#include "emulator/checks/proxies/proxy_check.hpp"

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "emulator/checks/ordering/wording.hpp"
#include "emulator/checks/proxies/layouts.hpp"
#include "emulator/checks/reporting/report.hpp"

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
constexpr uint32_t kResponseBytes = 16;    // what an operation that needs a fence after reads writes
constexpr size_t kRangesOfOneLayout = 16;  // one of so many is compared: a tile is brought by few copies

/// Whether a thread's write is the store of tcgen05.alloc. PTX calls it a weak store, like any other of a thread.
bool is_allocation(const machine::Kernel& kernel, const PastAccess& write) {
  return !write.is_asynchronous() && kernel.traits_at(write.pc()).allocates_tensor_memory;
}

bool has_layout(const MatrixRead* matrix) { return matrix != nullptr && matrix->layout != SharedLayout::unknown; }

}  // namespace

void ProxyCheck::cluster_started(ClusterRecord& cluster) {
  if (!unread_) unread_.emplace(cluster.kernel());  // there are checks for each launch
  states_.start(cluster, static_cast<uint32_t>(cluster.memory.size()) * cluster.order().warps_per_block());
}

void ProxyCheck::barrier_changed(ClusterRecord& cluster, const machine::BarrierEvent& event) {
  if (!may_overtake() || event.kind != machine::BarrierEventKind::arrive || event.fragment == nullptr) return;
  const uint32_t warp = cluster.order().warp_number(*event.fragment);
  states_[cluster].loads.note_arrival(*unread_, event, warp, cluster.order().warp(warp).time);
}

void ProxyCheck::threads_met(ClusterRecord& cluster, const machine::Rendezvous& event) {
  if (!may_overtake() || event.kind != machine::RendezvousKind::arrive) return;
  const uint32_t warp = cluster.order().warp_number(*event.fragment);
  states_[cluster].loads.note_meeting(warp, cluster.order().warp(warp).time - 1);
}

void ProxyCheck::fence_executed(ClusterRecord& cluster, const machine::Fragment& fragment, LaneMask lanes,
                                FenceKind kind) {
  const uint32_t warp = cluster.order().warp_number(fragment);
  if (kind == FenceKind::proxy_async_global) {
    states_[cluster].global_fences[warp] = {cluster.order().warp(warp).time, fragment.pc};
  }
  if (kind != FenceKind::proxy_async && kind != FenceKind::proxy_async_shared) return;
  State& state = states_[cluster];
  state.fences.add(cluster.order(), warp, lanes, fragment.pc);
  state.loads.note_fence(warp, lanes);
  const auto late = state.missing.find(warp);
  if (late == state.missing.end()) return;
  findings_.add_detail(
      late->second, cluster.cluster(),
      fmt::format("the next fence.proxy.async of this warp{} comes after the operation, where it is of no use to it",
                  line_of(cluster, fragment.pc)));
  state.missing.erase(late);
}

void ProxyCheck::note_read(const ClusterRecord& cluster, const RecordedAccess& recorded) {
  const machine::MemoryAccess& access = recorded.event;
  auto& read_since = states_[cluster].read_since;
  if (read_since.empty()) return;
  LaneMask rest = access.lanes;
  while (rest != 0) {
    const uint32_t address = access.shared[machine::first_lane(rest)];
    LaneMask together = 0;
    machine::for_each_lane(rest,
                           [&](uint32_t lane) { together |= (access.shared[lane] == address ? 1u : 0u) << lane; });
    rest &= ~together;
    const auto place = read_since.upper_bound(address);
    if (place == read_since.begin() || address >= std::prev(place)->first + kResponseBytes) continue;
    std::prev(place)->second.push_back({recorded.warp_number, together, recorded.warp->time, access.pc});
  }
}

void ProxyCheck::operation_issued(ClusterRecord& cluster, const IssuedOperation& issued) {
  const AsyncOperation& operation = issued.event;
  if (operation.generic_proxy) return;  // it is asynchronous, but accesses memory through the threads' own proxy
  if (operation.needs_fence_after_reads) check_reads(cluster, operation);
  if (may_overtake()) {
    State& state = states_[cluster];
    const uint32_t warp = cluster.order().warp_number(*operation.fragment);
    state.loads.for_each_before(cluster.order(), *unread_, operation,
                                [&](const OvertakenLoads::Load& load, uint32_t address) {
                                  if (state.fences.cover(cluster.order(), load.access, warp, operation.lane)) return;
                                  report_overtaken(cluster, load, operation, address);
                                });
  }
  size_t matrix = 0;
  for (size_t i = 0; i < operation.reads.size(); ++i) {
    while (matrix < operation.matrices.size() && operation.matrices[matrix].first <= i) ++matrix;
    const bool looks = matrix != 0 && (i - operation.matrices[matrix - 1].first) % kRangesOfOneLayout == 0;
    check_range(cluster, operation, operation.reads[i], looks ? &operation.matrices[matrix - 1] : nullptr, false);
  }
  for (const SharedRange& range : operation.writes) check_range(cluster, operation, range, nullptr, true);
}

void ProxyCheck::check_range(const ClusterRecord& cluster, const AsyncOperation& operation, const SharedRange& range,
                             const MatrixRead* matrix, bool writes) {
  const ClusterOrder& order = cluster.order();
  const uint32_t rank = range.address >> machine::kSharedRankShift;
  if (rank >= cluster.memory.size()) return;
  const ShadowMemory& memory = cluster.memory[rank];
  const uint32_t base = rank << machine::kSharedRankShift;
  const uint32_t offset = range.address & machine::kSharedOffsetMask;
  // Where only copies have written, nothing but their layout is compared, which is the same for many ranges.
  bool by_threads = false;
  for (uint32_t at = offset; at < offset + range.bytes; at = (at / kPageBytes + 1) * kPageBytes) {
    by_threads = by_threads || memory.is_written_by_threads(at);
  }
  if (!by_threads && matrix == nullptr) return;
  const uint32_t warp = order.warp_number(*operation.fragment);
  const VectorClock& known = *order.known(warp, operation.lane);
  const ProxyFences& fences = states_[cluster].fences;
  memory.for_each_write(offset, by_threads ? range.bytes : 1, [&](const PastAccess& write, uint32_t place) {
    if (write.is_asynchronous()) {
      const Operation& writer = order.operation(write.operation());
      if (!writer.generic_proxy) {
        const bool differ =
            has_layout(matrix) && writer.layout != SharedLayout::unknown && writer.layout != matrix->layout;
        if (differ) report_layout(cluster, write, operation, *matrix, base + place);
        return;
      }
    }
    // Where not even the threads are ordered there is a race, which is reported as such.
    if (!order.knows(write, warp, 1u << operation.lane, known)) return;
    if (fences.cover(order, write, warp, operation.lane)) return;
    report_fence(cluster, write, operation, base + place, writes);
  });
}

void ProxyCheck::check_reads(const ClusterRecord& cluster, const AsyncOperation& operation) {
  const ClusterOrder& order = cluster.order();
  const uint32_t warp = order.warp_number(*operation.fragment);
  const LaneMask issuer = 1u << operation.lane;
  State& state = states_[cluster];
  for (const SharedRange& range : operation.writes) {
    for (const PastAccess& read : std::exchange(state.read_since[range.address], {})) {
      // Where not even the threads are ordered there is a race, which is reported as such.
      if (!order.knows(read, warp, issuer, *order.known(warp, operation.lane))) continue;
      if (!state.fences.cover(order, read, warp, operation.lane)) {
        report_fence(cluster, read, operation, range.address, true);
      }
    }
  }
}

void ProxyCheck::report_fence(const ClusterRecord& cluster, const PastAccess& before, const AsyncOperation& operation,
                              uint32_t address, bool writes) {
  State& state = states_[cluster];
  const auto identity = findings_.claim("proxy", before.pc(), operation.fragment->pc);
  if (!identity) return;
  const machine::Kernel& kernel = cluster.kernel();
  const bool was_read = !before.writes() && !before.is_asynchronous();
  Diagnostic finding;
  finding.kind = "missing proxy fence";
  finding.place = place_of(cluster, operation);
  finding.message = fmt::format(
      "the {} issued here {} {} in shared memory, which a thread has {}, and there is no fence.proxy.async "
      "between the two",
      operation.what, writes ? "overwrites" : "reads", kernel.name_of_shared_byte(address & machine::kSharedOffsetMask),
      was_read ? "read" : "written");
  finding.details.push_back(describe(cluster, before));
  finding.details.push_back(
      was_read ? "a barrier orders the threads; but the response is written through the asynchronous proxy, and PTX's "
                 "example of a request has a fence between the two proxies as well"
               : "a barrier orders the threads; but TMA and the tensor core access shared memory through "
                 "the asynchronous proxy, and what threads write is visible there only after the fence");
  if (!was_read && is_allocation(kernel, before)) {
    finding.details.push_back("that is the store of tcgen05.alloc, which PTX calls a weak one, as threads make them");
    if (writes) finding.tolerated = "most kernels of Triton for sm_100 use the place of the address again like this";
  }
  const std::string verb = was_read ? "reads" : "writes";
  const std::string order = was_read                   ? "after its read"
                            : before.is_asynchronous() ? "after its wait for the copy"
                                                       : "after its last write";
  const ProxyFences::Fence* partial = state.fences.partial(before);
  const auto global = before.is_asynchronous() ? state.global_fences.end() : state.global_fences.find(before.agent);
  if (global != state.global_fences.end() && global->second.first > before.time) {
    finding.likely_cause = fmt::format(
        "the fence.proxy.async.global{} is for global memory only, and these bytes are in shared memory: name "
        ".shared::cta, or no memory",
        line_of(cluster, global->second.second));
  } else if (partial != nullptr) {
    finding.likely_cause = fmt::format(
        "the fence.proxy.async{} is executed by {} only, and speaks for what those lanes have {} or know of: let "
        "every thread that {} execute it, before the barrier",
        line_of(cluster, partial->pc), describe_lanes(partial->lanes), was_read ? "read" : "written", verb);
  } else {
    finding.likely_cause = fmt::format(
        "fence.proxy.async is missing: every thread that {} must execute it {}, before the barrier that hands the "
        "bytes to the thread that issues the {}",
        verb, order, operation.what);
  }
  const size_t number = findings_.add(cluster.cluster(), *identity, std::move(finding));
  const uint32_t warp = cluster.order().warp_number(*operation.fragment);
  for (const uint32_t each : {warp, before.is_asynchronous() ? warp : before.agent}) {
    state.missing.emplace(each, number);
  }
}

void ProxyCheck::report_overtaken(const ClusterRecord& cluster, const OvertakenLoads::Load& load,
                                  const AsyncOperation& operation, uint32_t address) {
  const auto identity = findings_.claim("overtaken load", load.arrival_pc, operation.fragment->pc);
  if (!identity) return;
  const machine::Kernel& kernel = cluster.kernel();
  Diagnostic finding;
  finding.kind = "missing proxy fence";
  finding.place = place_of(cluster, operation);
  finding.message = fmt::format(
      "the {} issued here overwrites {} in shared memory, which a load may not have read yet: the arrival that frees "
      "it can overtake the load",
      operation.what, kernel.name_of_shared_byte(address & machine::kSharedOffsetMask));
  finding.details.push_back(describe(cluster, load.access));
  finding.details.push_back(fmt::format(
      "{} arrives{}, and no instruction in between has used what the load brings, nor is there a fence.proxy.async",
      spell_thread(cluster, load.access.agent, 1u << load.arrival_lane), line_of(cluster, load.arrival_pc)));
  finding.details.emplace_back(
      "a thread waits for a load where it uses the value; on an H200 a copy came before an ldmatrix in this way");
  finding.likely_cause =
      "every thread that reads must execute fence.proxy.async between its load and the arrival; a use of the values "
      "before the arrival is no remedy, because ptxas may move the arrival before it";
  findings_.add(cluster.cluster(), *identity, std::move(finding));
}

void ProxyCheck::report_layout(const ClusterRecord& cluster, const PastAccess& before, const AsyncOperation& operation,
                               const MatrixRead& matrix, uint32_t address) {
  const auto identity = findings_.claim("layout", before.pc(), operation.fragment->pc);
  if (!identity) return;
  const machine::Kernel& kernel = cluster.kernel();
  const Operation& writer = cluster.order().operation(before.operation());
  Diagnostic finding;
  finding.kind = "swizzle mismatch";
  finding.place = place_of(cluster, operation);
  finding.message = fmt::format(
      "the {} issued here reads {} at {} in shared memory with {}, as its descriptor says; but it was written with {}",
      operation.what, matrix.name, kernel.name_of_shared_byte(address & machine::kSharedOffsetMask),
      spell(matrix.layout), spell(writer.layout));
  finding.details.push_back(describe(cluster, before));
  finding.details.push_back("the elements arrive, but each in the place of another");
  finding.likely_cause =
      "the tensor map (cuTensorMapEncodeTiled, its swizzle) and the matrix descriptor (bits 63:61) must name the same "
      "swizzle: take both from one constant";
  findings_.add(cluster.cluster(), *identity, std::move(finding));
}

}  // namespace stagecraft::emulator::checks
