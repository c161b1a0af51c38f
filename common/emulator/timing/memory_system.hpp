// What all multiprocessors share: L2 and DRAM.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "emulator/timing/chip_model.hpp"
#include "emulator/timing/servers.hpp"
#include "emulator/timing/trace.hpp"

namespace stagecraft::emulator::timing {

/// Lines of a cache in sets of 16, of which the one that was used longest ago is replaced. A line that was asked for
/// counts as there, but what it brings arrives later, and others that ask for it wait, too.
class CacheLines {
 public:
  explicit CacheLines(double bytes);
  struct Read {
    uint32_t missing;  ///< sectors that must be fetched
    double& arrives;   ///< the latest time at which something of the line arrives; set by the fetch
  };
  /// @param in_pairs  DRAM is behind: it gives sectors in pairs. Source: tests/silicon/results,
  /// nvidia-h100-2026-11-26-random-accesses: loads of words at random get 64 bytes each of what DRAM gives.
  Read read(LineRequest request, bool in_pairs = false);
  /// @param in_pairs  as those of lines of which little is written.
  /// Returns whether the line was not here before.
  bool write(LineRequest request, bool in_pairs = false);
  /// What goes to the memory behind, since lines were replaced or more was written than may wait here; and forgets it.
  /// @param most  sectors that may wait.
  std::vector<LineRequest> take_written(uint64_t most);
  bool has_written(uint64_t most) const { return !replaced_.empty() || written_sectors_ > most; }
  /// Fills the cache with written lines that nobody asks for: what other launches leave.
  /// @param written  sectors that wait.
  void fill_with_others(uint64_t written);
  /// All that is on its way is there now: a new launch begins.
  void settle();

 private:
  static constexpr uint32_t kWays = 16;
  struct Way {
    uint32_t line = 0, used = 0;     ///< used 0: empty
    uint8_t there = 0, written = 0;  ///< sectors, a bit each
    double arrives = 0;
  };
  Way* set_of(uint32_t line);
  /// The way of a line, which is empty if it was not there.
  Way& find(uint32_t line);
  std::vector<Way> ways_;
  uint32_t sets_ = 1, clock_ = 0;
  std::vector<LineRequest> replaced_;  ///< written, and no longer here
  std::deque<uint32_t> waiting_;       ///< lines that were written, the oldest first; some are gone
  uint64_t written_sectors_ = 0;
};

/// What the halves of L2 keep from one launch to the next.
using L2Contents = std::array<CacheLines, 2>;
/// L2 full of what others have read and written. @param written  the part of its lines that was written, at most as
/// much as may wait.
L2Contents used_l2(const ChipModel& chip, double written);

class MemorySystem {
 public:
  /// @param megahertz  of the multiprocessors, whose cycles all times count.
  /// @param before  what the launch before has left in L2; null for nothing.
  /// @param part  of what the launch does comes here, so L2 is as much smaller.
  MemorySystem(const ChipModel& chip, double megahertz, const L2Contents* before = nullptr, double part = 1);
  /// What this launch leaves.
  L2Contents take_contents();

  /// Reads lines for a multiprocessor. Returns when L2 has them, without its latency.
  /// @param dram_latency  of what comes from DRAM, in addition to the latency of L2.
  /// @param shared  whether others can share the request; those of multicast copies they cannot.
  double read(double now, uint32_t multiprocessor, std::span<const LineRequest> lines, double dram_latency,
              bool shared = true);
  /// Writes to lines. Returns when L2 has them. @param partial_lines  those with a sector of which only a part is
  /// written: each takes as long as a sector more, for the mask that says which bytes.
  double write(double now, std::span<const LineRequest> lines, size_t partial_lines = 0);
  /// Does a warp's atomic operations on lines. Returns when L2 has done them, without its latency.
  double update(double now, std::span<const LineRequest> lines, const Access& access, double dram_latency);
  /// When L2 will have done what it has been asked for.
  double l2_free_at() const { return std::max(l2_.free_at(), writes_.free_at()); }

  double l2_busy() const { return l2_.busy(); }
  /// Cycles that stores and what came from DRAM took to go into L2.
  double writes_busy() const { return writes_.busy(); }
  /// Cycles that the paths from L2 to the groups of multiprocessors were busy, in the mean.
  double paths_busy() const;
  /// Cycles that DRAM would take for what it did at its full rate.
  double dram_busy() const { return dram_moved_ / dram_bytes_; }
  double l2_bytes_moved() const { return l2_moved_; }
  double dram_bytes_moved() const { return dram_moved_; }

 private:
  struct Request {
    LineRequest line = 0;
    uint32_t multiprocessor = ~0u;
    uint32_t more = 0;   ///< multiprocessors that may still join it
    double arrives = 0;  ///< in L2, for those who join it
    double until = 0;    ///< others of the group can join it
    double until_for_pair = 0;
  };
  /// The latest request of a group of multiprocessors (a GPC) for a line that falls into the same place. Others of the
  /// group that ask for it soon after join it, and the other of its pair (TPC) also while it waits for the path: L2
  /// serves them once, for all at the same time. Source: tests/silicon/results, joined-requests (see chip_model.cpp):
  /// reads are joined within a GPC only; and those of multicast copies are not (`multicast to 2, all the same`).
  Request& request_at(uint32_t group, LineRequest line);
  /// L2 is two halves, each with one half of the memory behind. A multiprocessor asks its half, which keeps what it has
  /// asked for; what it lacks comes from the half that the line belongs to, and that keeps it too. Source:
  /// tests/silicon/results, `load latency, ring of ...`: 280 cycles up to the size of a half, 510 from 40 MiB on, where
  /// half of the lines come from the other half, and 659 from twice that size on.
  struct Found {
    double* own = nullptr;   ///< when the latest of the line arrives in the half that was asked
    double* home = nullptr;  ///< the same in the other half, where that was asked, too
    uint32_t far = 0;        ///< sectors that come from the other half
    uint32_t dram = 0;       ///< sectors that come from DRAM
  };
  Found look_up(uint32_t half, LineRequest line);
  struct Asked {
    Request* request;
    uint32_t line;
    Found found;
  };
  /// Which half a line belongs to is not known; here it is as if at random.
  uint32_t home_of(LineRequest line) const { return chip_.l2_halves == 1 ? 0 : line_of(line) * 0x85ebca6bu >> 31; }
  static constexpr double kLately = 1 / 4096.;
  static constexpr uint32_t kRequests = 1 << 16;  // of a group, that are remembered

  struct Bank {
    double free_at = 0;
    uint32_t open = ~0u;  ///< the line that it moved last
  };
  /// Moves bytes of a line between DRAM and L2. Returns when its bank begins with it.
  double use_bank(double now, uint32_t line, uint32_t sectors, bool write);
  /// Moves to DRAM what a half of L2 keeps no longer.
  void write_back(double now, CacheLines& half);

  /// Where a multiprocessor is. Those that ask for the same at the same time drift apart by their distances from L2.
  struct Place {
    uint32_t group = 0, half = 0;
    double distance = 0;  ///< cycles
  };

  const ChipModel& chip_;
  std::vector<Place> places_;                                   ///< by multiprocessor
  double l2_bytes_, l2_write_bytes_, path_bytes_, dram_bytes_;  ///< a cycle
  double l2_line_cycles_;                                       ///< of a line, however little of it is read
  double bank_cycles_;                                          ///< of a line in a bank of DRAM
  double atomic_sector_cycles_, atomic_return_cycles_, atomic_same_cycles_, atomic_same_float_cycles_;
  /// When the addresses of the lines are translated. The first access to a page walks through tables in memory, and
  /// walks wait for each other. Source: see ChipModel::page_entries.
  double translated(double now, std::span<const LineRequest> lines);

  L2Contents halves_;
  std::vector<double>
      page_ready_;  ///< by page: when it is translated; 0: nobody has asked; empty: all are, of a launch before
  std::vector<bool> entries_read_;  ///< by 16 pages: whether their entries of the tables were read
  double walk_cycles_, entries_cycles_, walk_latency_;
  Server walks_;
  uint64_t written_most_;  ///< sectors that were written, and wait in a half
  Server l2_;
  /// What goes into L2: stores, and what comes from DRAM. Source: everyday-ncu, `stream`: a copy of 4 to 128 MiB
  /// takes as long as a launch that reads as much and one that writes as much, less the launch.
  Server writes_;
  std::vector<Server> paths_;  ///< from L2 to each group of multiprocessors
  /// Parts of L2 that do atomic operations, one pass over a sector after the other; two neighbouring lines are in one.
  std::vector<Server> slices_;
  std::vector<Bank> banks_;  ///< of DRAM
  double write_share_ = 0;   ///< of what DRAM did of late
  double stored_share_ = 0;  ///< of the lines that came new into L2 of late
  void came_new(bool stored) { stored_share_ += kLately * ((stored ? 1 : 0) - stored_share_); }
  double l2_moved_ = 0, dram_moved_ = 0;
  std::vector<std::vector<Request>> requests_;  ///< by group
  std::vector<Asked> asked_;                    ///< lines that the read under way has not joined
};

}  // namespace stagecraft::emulator::timing
