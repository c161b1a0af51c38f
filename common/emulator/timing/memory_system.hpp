// What all multiprocessors share: L2 and DRAM.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "emulator/timing/chip_model.hpp"
#include "emulator/timing/servers.hpp"
#include "emulator/timing/trace.hpp"

namespace stagecraft::emulator::timing {

/// Lines of a cache in sets of 16, of which the one that was used longest ago is replaced.
class CacheLines {
 public:
  explicit CacheLines(double bytes);
  /// Uses a line; it is there afterwards. Returns whether it was before.
  bool use(uint32_t line);
  /// Reads from a line. Returns how many of these bytes were not there: a cache fetches sectors, not lines. Which bytes
  /// of a line are meant is not known, so reads count as reads of others until all are there.
  double read(uint32_t line, double bytes);
  /// Writes to a line. Returns how many of these bytes were not written since it came: those that go to the memory
  /// behind in addition, once the line is replaced. As with reads, writes count as writes of other bytes.
  double write(uint32_t line, double bytes);

 private:
  static constexpr uint32_t kWays = 16;
  struct Way {
    uint32_t line = 0, used = 0;   ///< used 0: empty
    float there = 0, written = 0;  ///< bytes
  };
  /// The way of a line that is used, and whether it was there before.
  std::pair<Way&, bool> find(uint32_t line);
  std::vector<Way> ways_;
  uint32_t sets_ = 1, clock_ = 0;
};

/// What became of a request.
struct Served {
  double at = 0;        ///< when L2 and DRAM have given its bytes, without their latency
  bool missed = false;  ///< something came from DRAM
};

class MemorySystem {
 public:
  /// @param megahertz  of the multiprocessors, whose cycles all times count.
  MemorySystem(const ChipModel& chip, double megahertz);

  /// Reads lines, of which `bytes` are wanted, for a multiprocessor.
  Served read(double now, uint32_t multiprocessor, const uint32_t* lines, size_t count, double bytes);
  /// Writes bytes to lines. @param partial_lines  those with a sector of which only a part is written: each takes as
  /// long as a sector more, for the mask that says which bytes.
  Served write(double now, const uint32_t* lines, size_t count, double bytes, size_t partial_lines = 0);
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
  bool joins(double now, uint32_t multiprocessor, uint32_t line);

  struct Request {
    uint32_t line = 0, multiprocessor = ~0u;
    double until = 0;  ///< it can be joined
  };
  static constexpr uint32_t kRequests = 4096;  // of a pair, that are remembered

  /// Moves bytes of a line between DRAM and L2. Returns when its bank begins with it.
  double use_bank(double now, uint32_t line, double bytes, bool write);

  const ChipModel& chip_;
  double l2_bytes_, l2_write_bytes_, dram_bytes_;  ///< a cycle
  double l2_line_cycles_;                          ///< of a line, however little of it is read
  double bank_cycles_;                             ///< of a line in a bank of DRAM
  CacheLines l2_lines_;
  Server l2_;
  std::vector<double> banks_;  ///< of DRAM, when each is free
  double write_share_ = 0;     ///< of what DRAM did of late
  double l2_moved_ = 0, dram_moved_ = 0;
  std::vector<std::vector<Request>> requests_;  ///< by pair
};

}  // namespace stagecraft::emulator::timing
