// Which reads GlobalMemoryCheck logs instead of looking at the cells of what they read (read_log.hpp).
#include <array>
#include <utility>

#include "emulator/checks/global_memory/global_memory_check.hpp"
#include "emulator/checks/global_memory/lane_pattern.hpp"

namespace stagecraft::emulator::checks {

using machine::kAllLanes;

namespace {

/// A work that has changed so many pages after it read them changes others, too: reads of the allocation are noted
/// from then on.
constexpr uint32_t kFewConflicts = 4;

}  // namespace

bool GlobalMemoryCheck::may_log(GlobalAllocation& allocation, uint64_t page) {
  uint32_t& use = allocation.uses[page];
  const uint32_t logged = history_->mark_of(GlobalHistory::PageUse::logged);
  if (use == logged) return true;
  if (use == history_->mark_of(GlobalHistory::PageUse::noted)) return false;
  const bool is_changed =
      allocation.conflicts >= kFewConflicts && allocation.conflicting_work == history_->current_work();
  if (is_changed || !history_->is_at_rest(allocation, page)) return false;
  use = logged;
  return true;
}

void GlobalMemoryCheck::look_at_page(GlobalAllocation& allocation, uint64_t page) {
  uint32_t& use = allocation.uses[page];
  if (use == history_->mark_of(GlobalHistory::PageUse::logged)) {
    if (std::exchange(allocation.conflicting_work, history_->current_work()) != history_->current_work()) {
      allocation.conflicts = 0;
    }
    ++allocation.conflicts;
    history_->settle_log();
  }
  use = history_->mark_of(GlobalHistory::PageUse::noted);
}

uint32_t GlobalMemoryCheck::reader_of(State& state, const WarpOrder& order, const RecordedAccess& recorded) {
  LogEntry& logged = state.warps[recorded.warp_number].logged;
  const SharedClock& known = order.known(machine::first_lane(recorded.event.lanes));
  if (logged.log != history_->log_number() || logged.time != recorded.time || logged.known != known.get()) {
    const Reader reader{state.number, recorded.warp_number, recorded.time, known};
    logged = {history_->log_number(), history_->log().add_reader(reader), recorded.time, known.get()};
  }
  return logged.reader;
}

bool GlobalMemoryCheck::log_read(ClusterRecord& cluster, State& state, const RecordedAccess& recorded) {
  const machine::MemoryAccess& event = recorded.event;
  const WarpOrder& order = cluster.order().warp(recorded.warp_number);
  if (!state.notes.is_empty() || !order.know_alike(event.lanes)) return false;
  const uint64_t* addresses = event.global;
  std::array<uint64_t, machine::kWarpSize> filled;
  if (event.lanes != kAllLanes) {
    // The addresses of other lanes mean nothing.
    const uint64_t some_address = event.global[machine::first_lane(event.lanes)];
    for (uint32_t lane = 0; lane < machine::kWarpSize; ++lane) {
      filled[lane] = (event.lanes >> lane & 1) != 0 ? event.global[lane] : some_address;
    }
    addresses = filled.data();
  }
  const LaneLayout layout = layout_of(addresses, event.bytes);
  GlobalAllocation* const allocation = history_->shadow().find(*cluster.cluster().grid->memory, layout.least);
  if (allocation == nullptr) return false;
  const uint64_t first = layout.least - allocation->address;
  const uint64_t last = layout.greatest - allocation->address + event.bytes - 1;
  if (last >= allocation->size || last - first > ~uint32_t{0}) return false;
  constexpr uint64_t kPageBytes = GlobalAllocation::kPageBytes;
  const uint64_t first_page = first / kPageBytes, last_page = last / kPageBytes;
  if (!may_log(*allocation, first_page) || !may_log(*allocation, last_page)) return false;
  if (last_page - first_page > 1) {
    for (uint32_t lane = 0; lane < machine::kWarpSize; ++lane) {
      const uint64_t begin = addresses[lane] - allocation->address, end = begin + event.bytes - 1;
      if (!may_log(*allocation, begin / kPageBytes)) return false;
      if (begin / kPageBytes != end / kPageBytes && !may_log(*allocation, end / kPageBytes)) return false;
    }
  }
  history_->log().add({.reader = reader_of(state, order, recorded),
                       .site = site_of(cluster.kernel(), event.pc),
                       .lanes = event.lanes,
                       .bytes = event.bytes,
                       .allocation = allocation->serial},
                      addresses, layout);
  return true;
}

}  // namespace stagecraft::emulator::checks
