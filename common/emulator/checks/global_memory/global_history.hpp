// What the check of global memory remembers from launch to launch: which works there were, and who accessed what.
//
// The runtime owns one for the process. It tells it of each work of a stream before that begins; the check of a launch
// (global_memory_check.hpp) and the copies and fills of the host add their accesses to it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "emulator/checks/global_memory/global_shadow.hpp"
#include "emulator/checks/global_memory/read_log.hpp"
#include "emulator/checks/global_memory/work_order.hpp"
#include "emulator/checks/ordering/thread_knowledge.hpp"
#include "emulator/checks/ordering/vector_clock.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::checks {

/// A launch, a copy or a fill.
struct WorkNote {
  std::string name;     ///< "kernel sum", "cudaMemcpyAsync"
  uint32_t number = 0;  ///< among all works, from 1 on
  bool is_kernel = false;
  std::string stream;
  uint32_t component = 0;
  WorkTime time = 0;
  uint32_t asked_by = 0;           ///< the last work that asked whether it comes after this one
  bool is_known_to_asker = false;  ///< also before griddepcontrol.wait
};

/// A cluster of a launch; one for a work that is no launch.
struct ClusterNote {
  uint32_t work = 0;
  uint32_t warps_per_block = 1;
  machine::Extent3 first_block{0, 0, 0}, shape;
};

/// An instruction that accesses memory, or what stands for it in a copy.
struct SiteNote {
  std::string line;          ///< "ring.cu:41"; the instruction where the program has no lines
  std::string instruction;   ///< "st.global.f32"
  uint32_t line_number = 0;  ///< the same for sites of one line
};

/// Accesses of one warp, or of one operation, that the same instruction makes at the same time of the warp.
struct GlobalRecord {
  enum Flags : uint16_t {
    kWrites = 1,
    kStrong = 2,
    kAsync = 4,      ///< by an asynchronous operation: `agent` is its index, until its end is known
    kBulkStore = 8,  ///< by a bulk store, which has not ended before `time`; kNotEnded as long as nothing waits for it
    kAsyncProxy = 16,
    kObserves = 128,   ///< an atomic whose old value the program looks at
    kReadBefore = 64,  ///< the writing lanes have read the same bytes at the same source line, as `*count += 1` does
    kResolved = 32,    ///< an asynchronous operation whose `agent` is the component that counts its end; 0: never known
  };
  static constexpr Time kNotEnded = 0xffffffffu;

  uint32_t cluster = 0;
  uint32_t agent = 0;  ///< warp in the cluster
  Time time = 0;
  machine::LaneMask lanes = 0;
  uint32_t site = 0;
  uint32_t issuer = 0;  ///< warp of an asynchronous operation
  uint16_t flags = 0;
  machine::MemoryScope scope = machine::MemoryScope::system;

  bool is(Flags flag) const { return (flags & flag) != 0; }
};

/// Whether a clock says that some lanes of a warp are past a time.
inline bool knows_lanes(const VectorClock& clock, uint32_t warp, machine::LaneMask lanes, Time time) {
  if (clock.of_warp(warp) >= time) return true;
  for (machine::LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    if (clock.at(ThreadKnowledge::component_of(warp, machine::first_lane(rest))) < time) return false;
  }
  return lanes != 0;
}

class GlobalHistory {
 public:
  GlobalHistory();

  /// A work begins. Returns the number of its note.
  uint32_t begin(WorkStart start, std::string name, bool is_kernel);
  const WorkStart& current() const { return current_; }
  uint32_t current_work() const { return static_cast<uint32_t>(works_.size()) - 1; }
  /// Whether the work that runs now may count on a work, a kernel's threads before griddepcontrol.wait and after it.
  bool is_before(const WorkNote& work) const { return current_.known.knows(work.component, work.time); }
  const WorkClock& known_at_start() const { return current_.may_overlap ? current_.known_before_wait : current_.known; }
  bool is_before_wait(uint32_t number) {
    WorkNote& work = works_[number];
    if (work.asked_by != current_work()) {
      work.asked_by = current_work();
      work.is_known_to_asker = known_at_start().knows(work.component, work.time);
    }
    return work.is_known_to_asker;
  }

  /// The kernel that runs now executes griddepcontrol.wait.
  void note_wait() { has_waited_ = true; }
  bool has_waited() const { return has_waited_; }
  /// The work behind `work` in its stream that has not waited for it, where the one that runs now counts on that; null:
  /// they are out of order for another reason.
  const WorkNote* find_broken_link(const WorkNote& work) const;

  /// Whether a cluster is one of the work that runs now.
  bool is_of_current_work(uint32_t cluster) const { return cluster >= first_cluster_; }

  uint32_t add_cluster(ClusterNote cluster);
  uint32_t add_record(const GlobalRecord& record);
  uint32_t add_site(SiteNote site);
  GlobalRecord& record(uint32_t number) { return records_[number - first_record_]; }
  /// The lowest number of a record that is not forgotten.
  uint32_t first_record() const { return first_record_; }
  const ClusterNote& cluster(uint32_t number) const { return clusters_[number]; }
  const WorkNote& work(uint32_t number) const { return works_[number]; }
  const SiteNote& site(uint32_t number) const { return sites_[number]; }

  GlobalShadow& shadow() { return shadow_; }
  // ---- Reads that the cells do not know of yet ----
  /// How the work that runs now may read a page.
  enum class PageUse : uint32_t {
    logged = 2,  ///< its reads go to the log: all of it was written, and only before this work
    noted = 3,   ///< its cells are to learn of each read
  };
  /// The value of GlobalAllocation::uses.
  uint32_t mark_of(PageUse use) const { return current_work() * 2 + static_cast<uint32_t>(use); }
  /// Whether nothing that may be under way now writes a page, and all of it was written.
  bool is_at_rest(const GlobalAllocation& allocation, uint64_t page);
  /// The log of the work that runs now.
  ReadLog& log() { return log_; }
  /// Another one for each new log, never 0: the numbers of readers in others mean nothing.
  uint32_t log_number() const { return log_number_; }
  /// What all logs take.
  uint64_t logged_bytes() const { return log_.bytes() + ended_bytes_; }
  /// Lets the cells learn of what this work has read.
  void settle_log();

  /// Keeps to the limit of memory. Called between accesses; returns whether something was forgotten.
  bool keep_to_limit();
  /// How often something was forgotten: numbers of records below `first_record` mean nothing.
  uint32_t times_forgotten() const { return times_forgotten_; }
  /// Whether everything was, with which bytes nothing wrote: it was not enough to forget the accesses.
  bool has_forgotten_writes() const { return has_forgotten_writes_; }
  uint64_t most_bytes() const { return most_bytes_; }
  /// Sets the limit, for tests.
  void limit(uint64_t bytes) { most_bytes_ = bytes; }

  /// A copy or a fill accesses a range: it is held against what is remembered. Returns the finding, if there is one.
  std::optional<machine::Diagnostic> accessed_by_work(const machine::DeviceMemory& memory, uint64_t address,
                                                      uint64_t bytes, bool writes);
  /// Something that is not checked has written a range.
  void written(const machine::DeviceMemory& memory, uint64_t address, uint64_t bytes);

  /// "block (0,0,0) warp 1 [lane 3]", "cudaMemcpyAsync"
  std::string spell_agent(const GlobalRecord& record, machine::LaneMask lanes) const;
  /// "block (0,0,0) warp 1 [lane 3] writes it at ring.cu:41", with the launch where it is another one.
  std::string describe(const GlobalRecord& record, machine::LaneMask lanes) const;
  /// "bytes 128 to 131 of cudaMalloc #2"
  static std::string spell_bytes(const GlobalAllocation& allocation, uint64_t offset, uint64_t bytes);
  /// "launch 3, kernel sum, in stream 2", "cudaMemcpy in the legacy default stream"
  std::string spell_work(uint32_t work) const;

 private:
  /// The reads of a work that has ended. All works since then have known that: else the cells would have learnt of
  /// them. So what a cell has learnt since then replaces them.
  struct EndedLog {
    ReadLog log;
    uint32_t work = 0;
    uint32_t end_cluster = 0;  ///< the first of the works since then
    WorkClock known;           ///< to the work when it began
  };
  class Settling;

  uint64_t bytes() const { return shadow_.bytes() + records_.size() * sizeof(GlobalRecord) + logged_bytes(); }
  void end_log();
  void drop_known_logs();
  void settle_all_logs();

  std::vector<WorkNote> works_;
  std::vector<ClusterNote> clusters_;
  std::vector<SiteNote> sites_;
  std::unordered_map<std::string, uint32_t> lines_;  ///< numbers of the sites' lines
  std::vector<GlobalRecord> records_;
  uint32_t first_record_ = 0;
  GlobalShadow shadow_;
  WorkStart current_;
  bool has_waited_ = false;
  uint32_t first_cluster_ = 0;                       ///< of the current work
  uint32_t work_cluster_ = 0, work_of_cluster_ = 0;  ///< of a work that is no launch
  uint64_t most_bytes_ = GlobalShadow::kMostBytes;
  uint32_t times_forgotten_ = 0;
  bool has_forgotten_writes_ = false;
  ReadLog log_;
  uint32_t log_number_ = 1;
  std::vector<EndedLog> ended_logs_;  ///< in the order of their works
  uint64_t ended_bytes_ = 0;
  std::unordered_set<std::string> reported_copies_;  ///< findings of copies and fills
};

/// Calls `visit(cell, begin, bytes, sector)` for each cell of a part of a sector, which begins at offset `begin` of the
/// allocation and has `bytes` bytes; it splits the sector as needed. A write that covers a sector makes it one cell
/// again, after the visits.
/// @param offset  of the part in the allocation
template <typename Visit>
[[gnu::always_inline]] inline void for_each_cell_of_sector(GlobalShadow& shadow, GlobalSector& sector, uint64_t offset,
                                                           uint32_t bytes, bool writes, Visit&& visit) {
  const auto first = static_cast<uint32_t>(offset % kSectorBytes);
  const bool whole = bytes == kSectorBytes;
  if (whole && sector.parts == 0) return visit(sector.cell, offset, kSectorBytes, sector);
  const bool are_words = ((first | bytes) & 3) == 0;
  const SectorParts parts =
      whole ? shadow.existing_parts(sector)
            : shadow.parts(sector, are_words ? PartsOfSectors::kWordShift : PartsOfSectors::kByteShift);
  for (uint32_t at = 0; at < bytes; at += 1u << parts.shift) {
    visit(parts.cells[(first + at) >> parts.shift], offset + at, 1u << parts.shift, sector);
  }
  if (whole && writes) {
    sector.cell = parts.cells[0];
    shadow.drop_parts(sector);
  }
}

/// The same for a range of an allocation.
template <typename Visit>
[[gnu::always_inline]] inline void for_each_cell(GlobalShadow& shadow, GlobalAllocation& allocation, uint64_t offset,
                                                 uint64_t bytes, bool writes, Visit&& visit) {
  while (bytes != 0) {
    const auto here = static_cast<uint32_t>(std::min<uint64_t>(kSectorBytes - offset % kSectorBytes, bytes));
    for_each_cell_of_sector(shadow, shadow.sector(allocation, offset), offset, here, writes, visit);
    offset += here;
    bytes -= here;
  }
}

}  // namespace stagecraft::emulator::checks
