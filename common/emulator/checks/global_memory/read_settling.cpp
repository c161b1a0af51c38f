// How the cells of global memory learn of reads that were logged (GlobalHistory), as if each had been noted when it was
// made: what its threads knew then is in the log.
#include <array>
#include <utility>

#include "emulator/checks/global_memory/global_history.hpp"
#include "emulator/checks/global_memory/lane_pattern.hpp"

namespace stagecraft::emulator::checks {

using machine::kAllLanes;
using machine::LaneMask;

/// Settles one log.
class GlobalHistory::Settling {
 public:
  /// @param end_cluster  the first cluster of the works since then
  /// @param known        to the work when it began
  Settling(GlobalHistory& history, const ReadLog& log, uint32_t work, uint32_t end_cluster, const WorkClock& known)
      : history_(history), log_(log), work_(work), end_cluster_(end_cluster), known_(known) {}

  void settle() {
    log_.for_each([&](const LoggedRead& read, const uint64_t* addresses) { settle(read, addresses); });
  }

 private:
  struct Made {
    uint32_t reader = 0, site = 0;
    LaneMask lanes = 0;
    uint32_t record = 0;
  };

  void settle(const LoggedRead& read, const uint64_t* addresses) {
    const uint64_t some_address = addresses[machine::first_lane(read.lanes)];
    if (allocation_ == nullptr || some_address - allocation_->address >= allocation_->size) {
      allocation_ = history_.shadow_.find_known(some_address);
    }
    if (allocation_ == nullptr || allocation_->serial != read.allocation) return;  // it was freed
    reader_ = &log_.reader(read.reader);
    is_asked_known_ = false;
    asked_ = 0;
    const auto width = static_cast<uint8_t>(std::countr_zero(read.bytes));
    uint32_t row_record = 0;
    for_each_group(
        addresses, read.lanes, pattern_of(addresses, read.bytes),
        [&](LaneMask lanes, uint64_t address) { note(address, read.bytes, GlobalEntry{record_of(read, lanes)}); },
        [&](uint32_t first, uint32_t count, uint64_t address) {
          if (row_record == 0) row_record = record_of(read, kAllLanes);
          note(address, uint64_t{count} * read.bytes, {row_record, static_cast<uint8_t>(first), width, 0});
        });
  }

  uint32_t record_of(const LoggedRead& read, LaneMask lanes) {
    const uint32_t hash = (read.reader * 31 + read.site) * 0x9e3779b1u + lanes * 0x85ebca6bu;
    Made& made = made_[hash >> 26];
    if (made.record == 0 || made.reader != read.reader || made.site != read.site || made.lanes != lanes) {
      GlobalRecord record{.cluster = reader_->cluster, .agent = reader_->warp, .time = reader_->time};
      record.lanes = lanes;
      record.site = read.site;
      made = {read.reader, read.site, lanes, history_.add_record(record)};
    }
    return made.record;
  }

  void note(uint64_t address, uint64_t bytes, GlobalEntry entry) {
    const uint64_t offset = address - allocation_->address;
    for_each_cell(history_.shadow_, *allocation_, offset, bytes, false,
                  [&](GlobalCell& cell, uint64_t at, uint32_t, GlobalSector&) {
                    note(cell, entry.moved(static_cast<uint32_t>(at - offset)));
                  });
  }

  /// As GlobalMemoryCheck::note_read would have done it.
  void note(GlobalCell& cell, GlobalEntry entry) {
    GlobalEntry& first = cell.reads[0];
    GlobalEntry& last = cell.reads[1];
    if (is_later(cell.write)) return;
    if (is_later(first)) {
      // A kernel's read replaced this one, the host's is kept as well (accessed_by_work).
      const uint32_t work = history_.cluster(history_.record(first.record()).cluster).work;
      if (history_.work(work).is_kernel) return;
      if (last.record() == 0) last = first;
      first = entry;
      return;
    }
    if (first.record() == 0 || first.record() == entry.record() || knows(first.record())) {
      first = entry;
      if (last.record() != 0 && !is_later(last) && knows(last.record())) last = {};
    } else if (!is_later(last)) {
      last = entry;
    }
  }

  bool is_later(GlobalEntry entry) const {
    return entry.record() != 0 && history_.record(entry.record()).cluster >= end_cluster_;
  }

  /// Whether the reader knew that an access was over.
  bool knows(uint32_t past) {
    if (past == asked_) return is_asked_known_;
    asked_ = past;
    const GlobalRecord& record = history_.record(past);
    const WorkNote& other = history_.work(history_.cluster(record.cluster).work);
    if (other.number != work_) {
      is_asked_known_ = known_.knows(other.component, other.time);
    } else {
      // A cluster that has learnt something from others logs nothing.
      is_asked_known_ =
          record.cluster == reader_->cluster && knows_lanes(*reader_->known, record.agent, record.lanes, record.time);
    }
    return is_asked_known_;
  }

  GlobalHistory& history_;
  const ReadLog& log_;
  const uint32_t work_, end_cluster_;
  const WorkClock& known_;
  GlobalAllocation* allocation_ = nullptr;
  const Reader* reader_ = nullptr;
  uint32_t asked_ = 0;
  bool is_asked_known_ = false;
  std::array<Made, 64> made_{};
};

bool GlobalHistory::is_at_rest(const GlobalAllocation& allocation, uint64_t number) {
  if (allocation.tracks_writes && !GlobalShadow::is_all_written(allocation, number)) return false;
  const GlobalAllocation::Page* const page = allocation.pages[number].get();
  if (page == nullptr) return true;
  uint32_t known = 0;
  bool rests = true;
  shadow_.for_each_cell_of_page(*page, [&](const GlobalCell& cell) {
    if (cell.write.record() == known || !rests) return;
    known = cell.write.record();
    if (known == 0) return;
    const uint32_t cluster = record(known).cluster;
    rests = !is_of_current_work(cluster) && is_before_wait(clusters_[cluster].work);
  });
  return rests;
}

void GlobalHistory::settle_log() {
  if (log_.is_empty()) return;
  const ReadLog log = std::exchange(log_, {});
  ++log_number_;
  Settling(*this, log, current_work(), ~0u, known_at_start()).settle();
}

void GlobalHistory::end_log() {
  if (log_.is_empty()) return;
  ended_bytes_ += log_.bytes();
  ended_logs_.push_back(
      {std::exchange(log_, {}), current_work(), static_cast<uint32_t>(clusters_.size()), known_at_start()});
  ++log_number_;
}

void GlobalHistory::drop_known_logs() {
  std::erase_if(ended_logs_, [&](const EndedLog& ended) {
    const WorkNote& work = works_[ended.work];
    const bool is_known = current_.known_to_host.knows(work.component, work.time);
    if (is_known) ended_bytes_ -= ended.log.bytes();
    return is_known;
  });
}

void GlobalHistory::settle_all_logs() {
  for (const EndedLog& ended : std::exchange(ended_logs_, {})) {
    Settling(*this, ended.log, ended.work, ended.end_cluster, ended.known).settle();
  }
  ended_bytes_ = 0;
  settle_log();
}

}  // namespace stagecraft::emulator::checks
