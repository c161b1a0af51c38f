// What the threads of an endless loop poll in global memory, what is there, and who wrote it last.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "emulator/checks/global_memory/global_memory_check.hpp"
#include "emulator/checks/ordering/wording.hpp"
#include "emulator/state/fragments.hpp"

namespace stagecraft::emulator::checks {

void GlobalMemoryCheck::cluster_repeated(ClusterRecord& cluster, machine::Diagnostic& report) {
  if (!report.likely_cause.empty()) return;  // the loop polls shared memory
  State& state = state_of(cluster);
  for (const auto& block : cluster.cluster().blocks) {
    for (const machine::Warp& warp : block->warps) {
      for (const auto& fragment : warp.fragments) {
        if (!machine::continues_alone(*fragment)) continue;
        const uint32_t number = cluster.order().warp_number(*fragment);
        const AcquireNotes& reads = state.warps[number].acquires;
        const auto last = std::max_element(
            reads.begin(), reads.end(), [](const AcquireNote& a, const AcquireNote& b) { return a.number < b.number; });
        // One place for a loop, whichever of its instructions was the last to be executed.
        if (last == reads.end() || (last->lanes & fragment->mask) == 0) continue;
        if (!report.place.has_warp) report.place = place_of(cluster, number, fragment->mask, last->pc);
        return note_polled(cluster, *last, report);
      }
    }
  }
}

void GlobalMemoryCheck::note_polled(const ClusterRecord& cluster, const AcquireNote& read,
                                    machine::Diagnostic& report) {
  GlobalShadow& shadow = history_->shadow();
  GlobalAllocation* const allocation = shadow.find(*cluster.cluster().grid->memory, read.address);
  if (allocation == nullptr || read.bytes > sizeof(uint64_t)) return;
  const uint64_t offset = read.address - allocation->address;
  uint64_t value = 0;
  std::memcpy(&value, machine::DeviceMemory::host(read.address), read.bytes);
  const std::string place = GlobalHistory::spell_bytes(*allocation, offset, read.bytes);
  std::string writer, line;
  for_each_cell(shadow, *allocation, offset, 1, false, [&](GlobalCell& cell, uint64_t, uint32_t bytes, GlobalSector&) {
    if (cell.write.record() < history_->first_record() || cell.write.record() == 0) return;
    const GlobalRecord& record = history_->record(cell.write.record());
    writer = history_->describe(record, cell.write.lanes_of(0, std::min(bytes, read.bytes), record.lanes));
    if (history_->is_of_current_work(record.cluster)) line = history_->site(record.site).line;
  });
  report.details.push_back(fmt::format("it polls {}{}: the value is {} there{}", place, line_of(cluster, read.pc),
                                       value, writer.empty() ? std::string() : ", and " + writer + " last"));
  report.likely_cause =
      line.empty()
          ? fmt::format("nobody writes {} in this kernel, or only threads that have not come so far", place)
          : fmt::format(
                "the write at {} has left a value that the loop does not end with, and nobody will change it any "
                "more: does that write set the place back before all have seen what they wait for, or is "
                "another write, or a count, missing?",
                line);
}

}  // namespace stagecraft::emulator::checks
