// What all multiprocessors share: L2 and DRAM.
#pragma once

#include <cstdint>
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
    double& served;    ///< when the latest atomic operation on the line is over
  };
  Read read(LineRequest request);
  /// Returns how many of these sectors were not written since the line came: those that go to the memory behind in
  /// addition, once the line is replaced.
  uint32_t write(LineRequest request);

 private:
  static constexpr uint32_t kWays = 16;
  struct Way {
    uint32_t line = 0, used = 0;     ///< used 0: empty
    uint8_t there = 0, written = 0;  ///< sectors, a bit each
    double arrives = 0, served = 0;
  };
  /// The way of a line, which is empty if it was not there.
  Way& find(uint32_t line);
  std::vector<Way> ways_;
  uint32_t sets_ = 1, clock_ = 0;
};

class MemorySystem {
 public:
  /// @param megahertz  of the multiprocessors, whose cycles all times count.
  MemorySystem(const ChipModel& chip, double megahertz);

  /// Reads lines for a multiprocessor. Returns when L2 has them, without its latency.
  /// @param dram_latency  of what comes from DRAM, in addition to the latency of L2.
  double read(double now, uint32_t multiprocessor, std::span<const LineRequest> lines, double dram_latency);
  /// Writes to lines. Returns when L2 has them. @param partial_lines  those with a sector of which only a part is
  /// written: each takes as long as a sector more, for the mask that says which bytes.
  double write(double now, std::span<const LineRequest> lines, size_t partial_lines = 0);
  /// Does a warp's atomic operations on lines. Returns when L2 has done them, without its latency.
  /// @param same  lanes that meet at one word: they are served one after the other, and after earlier ones of its line.
  double update(double now, std::span<const LineRequest> lines, uint32_t same, bool floating, double dram_latency);
  /// When L2 will have done what it has been asked for.
  double l2_free_at() const { return l2_.free_at(); }

  double l2_busy() const { return l2_.busy(); }
  /// Cycles that DRAM would take for what it did at its full rate.
  double dram_busy() const { return dram_moved_ / dram_bytes_; }
  double l2_bytes_moved() const { return l2_moved_; }
  double dram_bytes_moved() const { return dram_moved_; }

 private:
  /// The two multiprocessors of a pair (a TPC) join requests for the same line: L2 serves them once. Source:
  /// tests/silicon/results, contention, `copies of 16 KiB, clusters of 2, the same bytes for each 2 blocks` gives twice
  /// the rate, and more blocks give no more. For how long a request can be joined was not measured; here it is as long
  /// as it waits for L2 and is under way.
  bool joins(double now, uint32_t multiprocessor, LineRequest line);
  /// Brings a line's sectors that are missing from DRAM, not before `now`. Returns when all are there.
  double fetch(double now, LineRequest line, double dram_latency);

  struct Request {
    LineRequest line = 0;
    uint32_t multiprocessor = ~0u;
    double until = 0;  ///< it can be joined
  };
  static constexpr uint32_t kRequests = 4096;  // of a pair, that are remembered

  /// Moves bytes of a line between DRAM and L2. Returns when its bank begins with it.
  double use_bank(double now, uint32_t line, uint32_t sectors, bool write);

  const ChipModel& chip_;
  double l2_bytes_, l2_write_bytes_, dram_bytes_;  ///< a cycle
  double l2_line_cycles_;                          ///< of a line, however little of it is read
  double bank_cycles_;                             ///< of a line in a bank of DRAM
  double atomic_sector_cycles_, atomic_same_cycles_, atomic_same_float_cycles_;
  CacheLines l2_lines_;
  Server l2_;
  std::vector<double> banks_;  ///< of DRAM, when each is free
  double write_share_ = 0;     ///< of what DRAM did of late
  double l2_moved_ = 0, dram_moved_ = 0;
  std::vector<std::vector<Request>> requests_;  ///< by pair
};

}  // namespace stagecraft::emulator::timing
