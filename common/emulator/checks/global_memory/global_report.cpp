// What GlobalMemoryCheck reports, and why nothing orders two accesses.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "emulator/checks/causes/wait_cause.hpp"
#include "emulator/checks/global_memory/global_memory_check.hpp"
#include "emulator/checks/ordering/wording.hpp"
#include "emulator/checks/reporting/report.hpp"

namespace stagecraft::emulator::checks {

using machine::Diagnostic;
using machine::for_each_lane;
using machine::LaneMask;
using machine::MemoryScope;

namespace {

const char* name_of(MemoryScope scope) {
  switch (scope) {
    case MemoryScope::block: return ".cta";
    case MemoryScope::cluster: return ".cluster";
    case MemoryScope::device: return ".gpu";
    case MemoryScope::system: break;
  }
  return ".sys";
}

/// Whether a weak write left memory as it was.
bool changed_nothing(const machine::MemoryAccess& write, LaneMask lanes) {
  if (write.before == nullptr) return false;
  bool nothing = true;
  for_each_lane(lanes, [&](uint32_t lane) {
    nothing = nothing && std::memcmp(machine::DeviceMemory::host(write.global[lane]),
                                     write.before + size_t{lane} * write.bytes, write.bytes) == 0;
  });
  return nothing;
}

/// Identifies a finding in `reported_`. A copy or a fill has site 0, and so has what concerns one access only.
enum class Flaw : uint8_t { race, equal_values, unwritten, partly_unwritten };
uint64_t key_of(uint32_t past_site, uint32_t pc, Flaw flaw) {
  return uint64_t{past_site} << 34 | uint64_t{pc} << 2 | static_cast<uint64_t>(flaw);
}

constexpr uint32_t kReported = 0xff;  ///< as strong as can be (GlobalMemoryCheck::reported_)

bool is_some_written(GlobalShadow& shadow, GlobalAllocation& allocation, uint64_t begin, uint64_t bytes) {
  const uint64_t end = std::min(begin + bytes, allocation.size);
  while (begin < end) {
    const auto first = static_cast<uint32_t>(begin % kSectorBytes);
    const auto count = static_cast<uint32_t>(std::min<uint64_t>(kSectorBytes - first, end - begin));
    const uint32_t mask = (count == kSectorBytes ? ~0u : (1u << count) - 1) << first;
    if ((shadow.sector(allocation, begin).written & mask) != 0) return true;
    begin += count;
  }
  return false;
}

}  // namespace

/// Says why nothing orders the two, and what to try.
std::string GlobalMemoryCheck::reason(Present& now, const GlobalRecord& past, LaneMask past_lanes, LaneMask lanes,
                                      std::string& cause) {
  const uint32_t work = history_->cluster(past.cluster).work;
  const std::string before = history_->spell_agent(past, past_lanes);
  if (work != history_->current_work()) {
    const WorkNote& other = history_->work(work);
    if (history_->is_before(other)) {
      cause =
          "execute griddepcontrol.wait (cudaGridDependencySynchronize) before the first access of what an earlier "
          "kernel writes or reads; it is enough if one thread waits and a barrier of the block follows";
      return fmt::format(
          "nothing orders the two: this launch may begin before {} has ended (programmatic stream serialisation), and "
          "the thread has not waited for it with griddepcontrol.wait",
          other.name);
    }
    if (const WorkNote* const link = history_->find_broken_link(other)) {
      cause = fmt::format(
          "execute griddepcontrol.wait (cudaGridDependencySynchronize) in {} too: the kernels behind it wait for it "
          "alone; or launch it without programmatic stream serialisation",
          link->name);
      return fmt::format(
          "nothing orders the two: this launch comes after {}, which was launched early and never waits for {} "
          "(griddepcontrol.wait), so that its end does not say that {} has ended",
          link->name, other.name, other.name);
    }
    cause = fmt::format(
        "record an event after {} in its stream and let this launch's stream wait for it (cudaStreamWaitEvent), or use "
        "one stream",
        other.name);
    return fmt::format(
        "nothing orders the two: {} is in {}, this launch in {}, and no event or wait of the host is "
        "between them",
        other.name, other.stream, history_->current().stream);
  }
  const uint32_t lane = machine::first_lane(lanes);
  const SharedForeign known = now.state.notes.known(now.order, now.warp, lane);
  const bool knows_some = known != nullptr && known->find(past.cluster) != nullptr;
  const bool both_write = past.is(GlobalRecord::kWrites) && now.record.is(GlobalRecord::kWrites);
  const bool is_any_strong = past.is(GlobalRecord::kStrong) || now.record.is(GlobalRecord::kStrong);
  const bool counts = past.is(GlobalRecord::kReadBefore) || now.record.is(GlobalRecord::kReadBefore);
  if (both_write && !is_any_strong && !counts && !knows_some && past.cluster != now.state.number) {
    cause =
        "each block is to write bytes of its own: is the index right in both, and does neither reach into what is its "
        "neighbour's? What several blocks are to add up needs atomics";
    return "nothing orders the two, and both write: what comes last stays, and no order keeps both";
  }
  if (past.is(GlobalRecord::kBulkStore) && past.time == GlobalRecord::kNotEnded) {
    cause =
        "the thread that issued the copy must wait with cp.async.bulk.wait_group 0, without .read, before it "
        "releases the result; .read waits for the reading of shared memory only";
    return "nothing orders the two: nobody has waited until the copy has written";
  }
  if (past.is(GlobalRecord::kReadBefore) || now.record.is(GlobalRecord::kReadBefore)) {
    const bool same_line = history_->site(past.site).line_number == history_->site(now.record.site).line_number;
    if (same_line && !past.is(GlobalRecord::kStrong) && !now.record.is(GlobalRecord::kStrong)) {
      cause =
          "the line reads a value, changes it and writes it back, and several threads do so at once: what one of "
          "them adds is lost; use atomicAdd (or another atomic), or let one thread do it";
    }
  }
  if (past.cluster == now.state.number &&
      past.agent / now.order.warps_per_block() == now.warp / now.order.warps_per_block()) {
    if (cause.empty()) {
      cause = past.agent == now.warp ? "a __syncwarp() between the two, if both are meant"
                                     : "a __syncthreads() between the two, if both are meant";
    }
    return "nothing orders the two";
  }
  const uint32_t warps = now.order.warps_per_block();
  for (const NarrowOrder& narrow : now.state.narrow) {
    if (narrow.cluster != past.cluster) continue;
    if (narrow.release_site != 0 && narrow.rank == past.agent / warps) {
      if (cause.empty()) {
        cause =
            "give the release the scope of the device: __threadfence() instead of __threadfence_block(), .gpu "
            "instead of .cta (cuda::thread_scope_device)";
      }
      return fmt::format("nothing orders the two: the release at {} has scope {}, which orders nothing for {}",
                         history_->site(narrow.release_site).line, name_of(narrow.release_scope),
                         spell_thread(now.cluster, now.warp, lanes));
    }
  }
  for (const NarrowOrder& narrow : now.state.narrow) {
    if (narrow.release_site != 0 || narrow.cluster != past.cluster) continue;
    if (cause.empty()) cause = "give the acquire the scope of the device: .gpu instead of .cta or .cluster";
    return fmt::format("nothing orders the two: the acquire{} has scope {}, which orders nothing that {} did",
                       line_of(now.cluster, narrow.acquire_pc), name_of(narrow.acquire_scope), before);
  }
  const Pending& mine = now.state.warps[now.warp].pending[lane];
  if (mine.released != nullptr && mine.released->find(past.cluster) != nullptr) {
    cause = "follow the relaxed (volatile) read by a __threadfence(), or read with .acquire, before what it guards";
    return fmt::format("nothing orders the two: the flag was read{} without acquire, and no fence has followed",
                       line_of(now.cluster, mine.pc));
  }
  if (past.cluster == now.state.number && !past.is(GlobalRecord::kAsync)) {
    const char* const what = past.is(GlobalRecord::kWrites) ? "write" : "read";
    const WaitCause waits(findings_, now.cluster);
    if (std::string relaxed = waits.relaxed_of_cluster(past.agent, past.time, now.warp, what); !relaxed.empty()) {
      if (cause.empty()) cause = std::move(relaxed);
      return "nothing orders the two";
    }
  }
  if (std::optional<Handover> handover = explain_handover(now, past, past_lanes, lane)) {
    if (cause.empty()) cause = std::move(handover->cause);
    return std::move(handover->what);
  }
  if (cause.empty() && both_write && !past.is(GlobalRecord::kStrong)) {
    cause = fmt::format(
        "what other blocks are to find must be there before the kernel begins (cudaMemset, or an earlier kernel does "
        "what {} does), or a barrier of the grid must come after that line",
        history_->site(past.site).line);
  }
  if (cause.empty()) {
    cause =
        "between blocks a release and an acquire of one location order memory: a flag or counter, written after a "
        "__threadfence() and read before one (or cuda::atomic_ref with release and acquire), a grid barrier, or a "
        "second kernel";
  }
  if (knows_some) {
    return fmt::format("nothing orders the two: what this thread has acquired from {} was released before that access",
                       before);
  }
  return fmt::format("nothing orders the two: this thread has acquired nothing that {} released", before);
}

void GlobalMemoryCheck::report_race(Present& now, GlobalAllocation& allocation, const GlobalRecord& past,
                                    LaneMask past_lanes, LaneMask lanes, uint64_t offset, uint32_t bytes) {
  const bool agree = past.is(GlobalRecord::kWrites) && !past.is(GlobalRecord::kAsync) && now.event != nullptr &&
                     now.event->kind == machine::AccessKind::write && changed_nothing(*now.event, lanes);
  const bool same_instruction = past.site == now.record.site;
  const bool same_store = now.is_same_store && same_instruction && past.is(GlobalRecord::kBulkStore) &&
                          past.cluster == now.state.number && past.agent == now.warp;
  const bool tolerated = (agree && same_instruction) || same_store;
  // The pair is reported, of several at two lines, that needs the strongest order.
  const uint32_t warps = now.order.warps_per_block();
  const bool same_cluster = past.cluster == now.state.number;
  const bool same_block = same_cluster && past.agent / warps == now.warp / warps;
  const bool by_operation = past.is(GlobalRecord::kAsync) || past.is(GlobalRecord::kBulkStore) || now.event == nullptr;
  const uint32_t strength = by_operation ? 4 : !same_cluster ? 3 : !same_block ? 2 : past.agent != now.warp ? 1 : 0;
  uint32_t& reported = reported_[key_of(past.site, now.pc, tolerated ? Flaw::equal_values : Flaw::race)];
  if (reported > strength) return;
  reported = strength + 1;
  const std::string& past_line = history_->site(past.site).line;
  const auto identity = findings_.claim_pair(
      fmt::format("race in global memory{} with {}", tolerated ? " of equal values" : "", past_line), now.pc, now.pc,
      strength);
  if (!identity) return;
  const bool writes = now.record.is(GlobalRecord::kWrites);
  const std::string what = GlobalHistory::spell_bytes(allocation, offset, bytes);
  Diagnostic finding;
  finding.kind = "race";
  finding.place = place_of(now.cluster, now.warp, lanes, now.pc);
  finding.message =
      now.event == nullptr
          ? fmt::format("race: the {} issued here {} {} in global memory", now.what, writes ? "writes" : "reads", what)
          : fmt::format("race: {} {} in global memory", writes ? "writes" : "reads", what);
  finding.details.push_back(history_->describe(past, past_lanes));
  finding.details.push_back(reason(now, past, past_lanes, lanes, finding.likely_cause));
  if (agree && !tolerated) {
    finding.details.emplace_back("both wrote the same value this time, but nothing says that they always do");
  }
  if (same_store) {
    finding.tolerated = "the lanes of one instruction store the same bytes";
    finding.likely_cause = "one lane is enough: choose it, with elect.sync, before the store";
  } else if (tolerated) {
    finding.tolerated = "both write the same value";
  }
  findings_.add(now.cluster.cluster(), *identity, std::move(finding));
}

void GlobalMemoryCheck::check_proxy(Present& now, GlobalAllocation& allocation, const GlobalRecord& past,
                                    LaneMask past_lanes, uint64_t offset, uint32_t bytes) {
  const uint32_t work = history_->cluster(past.cluster).work;
  const bool of_this_launch = work == history_->current_work();
  if (reported_.contains(key_of(past.site, now.pc, Flaw::race))) return;
  if (is_fenced(now, past, past_lanes)) return;
  reported_[key_of(past.site, now.pc, Flaw::race)] = kReported;
  const auto identity = findings_.claim(
      fmt::format("missing proxy fence in global memory after {}", history_->site(past.site).line), now.pc, now.pc);
  if (!identity) return;
  Diagnostic finding;
  finding.kind = "missing proxy fence";
  finding.place = place_of(now.cluster, now.warp, now.lanes, now.pc);
  finding.message = fmt::format(
      "the {} issued here {} {} in global memory, which threads have written, with no "
      "fence.proxy.async in between",
      now.what, now.record.is(GlobalRecord::kWrites) ? "overwrites" : "reads",
      GlobalHistory::spell_bytes(allocation, offset, bytes));
  finding.details.push_back(history_->describe(past, past_lanes));
  finding.details.emplace_back(
      "the order of the two is given, but the copy accesses global memory through the asynchronous proxy, which may "
      "not see what the threads' own proxy has written");
  if (of_this_launch) {
    finding.likely_cause =
        "execute fence.proxy.async (or .global) in the writing threads, after their stores and before the release; or "
        "in the thread that issues the copy, after its acquire";
  } else {
    finding.likely_cause = "execute fence.proxy.async after griddepcontrol.wait, in the thread that issues the copy";
    finding.tolerated =
        "PTX does not say that griddepcontrol.wait orders the proxies, but kernels of CUTLASS do the same";
  }
  findings_.add(now.cluster.cluster(), *identity, std::move(finding));
}

/// Finds a tensor map that threads of this launch have stored, and that nobody has acquired. TensorMapCheck knows more
/// of one that was changed by instructions for that, and of the order.
void GlobalMemoryCheck::check_map(ClusterRecord& cluster, const machine::AsyncOperation& copy) {
  constexpr uint64_t kMapBytes = 128;
  GlobalShadow& shadow = history_->shadow();
  GlobalAllocation* const allocation = shadow.find(*cluster.cluster().grid->memory, copy.tensor_map);
  if (allocation == nullptr) return;
  const uint64_t offset = copy.tensor_map - allocation->address;
  const GlobalRecord* store = nullptr;
  for (uint64_t at = offset; at < std::min(offset + kMapBytes, allocation->size); at += kSectorBytes) {
    const auto look_at = [&](GlobalCell& cell, uint64_t, uint32_t, GlobalSector&) {
      if (cell.write.record() == 0) return;
      const GlobalRecord& write = history_->record(cell.write.record());
      const bool by_thread = !write.is(GlobalRecord::kAsync) && !write.is(GlobalRecord::kBulkStore);
      if (by_thread && history_->is_of_current_work(write.cluster)) store = &write;
    };
    for_each_cell_of_sector(shadow, sector_of(*allocation, at), at, kSectorBytes, false, look_at);
  }
  if (store == nullptr) return;
  const auto identity = findings_.claim("stored tensor map", copy.fragment->pc);
  if (!identity) return;
  Diagnostic finding;
  finding.kind = "missing proxy fence";
  finding.place = place_of(cluster, copy);
  finding.message = fmt::format(
      "the {} issued here uses the tensor map at {} in global memory, which this kernel has stored, and there is no "
      "fence.proxy.tensormap::generic.acquire of it in between",
      copy.what, GlobalHistory::spell_bytes(*allocation, offset, kMapBytes));
  finding.details.push_back(history_->describe(*store, store->lanes));
  finding.details.emplace_back(
      "copies read tensor maps through a proxy of their own, which may not see what the threads' own proxy has "
      "written");
  finding.likely_cause =
      "execute fence.proxy.tensormap::generic.release after the stores, and in the thread that issues the copy, after "
      "the barrier, fence.proxy.tensormap::generic.acquire of these 128 bytes";
  findings_.add(cluster.cluster(), *identity, std::move(finding));
}

/// Whether a lane's access, or an operation, has some bytes that were written.
bool GlobalMemoryCheck::reads_some_written(Present& now, GlobalAllocation& allocation, uint32_t lane) {
  GlobalShadow& shadow = history_->shadow();
  if (now.event != nullptr) {
    const uint64_t address = std::max(now.event->global[lane], allocation.address);
    return is_some_written(shadow, allocation, address - allocation.address, now.event->bytes);
  }
  if (!now.some_written) {
    const machine::DeviceMemory& memory = *now.cluster.cluster().grid->memory;
    now.some_written = std::any_of(now.ranges->begin(), now.ranges->end(), [&](const machine::GlobalRange& range) {
      GlobalAllocation* const other = shadow.find(memory, range.address);
      return other != nullptr && is_some_written(shadow, *other, range.address - other->address, range.bytes);
    });
  }
  return *now.some_written;
}

/// Rows with padding are read in wide pieces: an access that has some written bytes is tolerated.
void GlobalMemoryCheck::check_written(Present& now, GlobalAllocation& allocation, const GlobalSector& sector,
                                      uint64_t offset, uint32_t bytes, GlobalEntry entry) {
  if (reported_.contains(key_of(0, now.pc, Flaw::unwritten))) return;
  std::optional<uint32_t> first, first_tolerated;
  for (uint32_t at = 0; at < bytes && !first; ++at) {
    if ((sector.written >> ((offset + at) % kSectorBytes) & 1) != 0) continue;
    const uint32_t lane = machine::first_lane(entry.lanes_of(at, 1, now.record.lanes));
    std::optional<uint32_t>& found = reads_some_written(now, allocation, lane) ? first_tolerated : first;
    if (!found) found = at;
  }
  const bool tolerated = !first;
  if (tolerated) first = first_tolerated;
  if (!first) return;
  if (!reported_.emplace(key_of(0, now.pc, tolerated ? Flaw::partly_unwritten : Flaw::unwritten), kReported).second) {
    return;
  }
  const auto identity = findings_.claim(tolerated ? "partly uninitialised read" : "uninitialised read", now.pc, now.pc);
  if (!identity) return;
  const LaneMask lanes = entry.lanes_of(0, bytes, now.record.lanes);
  Diagnostic finding;
  finding.kind = "uninitialised read";
  finding.place = place_of(now.cluster, now.warp, lanes, now.pc);
  const std::string what = GlobalHistory::spell_bytes(allocation, offset + *first, 1);
  finding.message =
      now.event == nullptr
          ? fmt::format("the {} issued here reads {} in global memory, which nothing has written", now.what, what)
          : fmt::format("reads {} in global memory, which nothing has written", what);
  finding.details.push_back(fmt::format("{} has {} bytes at 0x{:x}; cudaMalloc leaves in them what was there before",
                                        allocation.label, allocation.size, allocation.address));
  finding.likely_cause =
      "the index is beyond what was copied or computed, or a cudaMemcpy or cudaMemset before the launch is missing";
  if (tolerated)
    finding.tolerated = "the same access reads bytes that are written, as one that reaches into padding does";
  findings_.add(now.cluster.cluster(), *identity, std::move(finding));
}

}  // namespace stagecraft::emulator::checks
