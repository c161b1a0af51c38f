// Running one grid: which clusters are resident where, and in what order they advance.
//
// Every cluster has its own virtual clock. The one that is furthest behind runs for a while, then the next; a cluster
// that has not started counts as standing where its multiprocessor became free. So blocks of a grid advance together,
// as on the chip, and one that waits for another to write global memory sees it happen. Order, and with it every
// result and report, depends on the program and the seed alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <unordered_map>
#include <vector>

#include "emulator/machine/endless_loop.hpp"
#include "emulator/machine/execution.hpp"
#include "emulator/machine/grid.hpp"
#include "emulator/machine/machine.hpp"

namespace stagecraft::emulator::machine {

class GridRun {
 public:
  /// @param earliest_fault  of all parts of the grid, which this one need not run beyond; null: it is the whole grid.
  GridRun(Grid& grid, LaunchResult& result, const std::atomic<Cycle>* earliest_fault = nullptr);
  ~GridRun();
  /// To the end, or to the first fault; what is found goes into the result.
  void run();

 private:
  enum class Status { finished, paused, stuck, repeating };

  /// On these multiprocessors, one for each of its blocks.
  std::unique_ptr<Cluster> start_cluster(const std::vector<Sm*>& sms, Cycle at);
  std::unique_ptr<Block> take_block();
  void start_block(Cluster& cluster, uint32_t rank, Sm& sm, Cycle at);
  void finish_blocks(Cluster& cluster);
  void finish_block(Block& block);
  Status advance(Cluster& cluster, Cycle until);
  Warp* next_warp(Cluster& cluster);
  /// The multiprocessors that the next cluster's blocks would go to; empty when there is no room.
  std::vector<Sm*> find_room() const;
  bool has_room(const Sm& sm, uint32_t blocks) const;
  void note_fault(FaultKind kind, Cycle at);
  void report(const Fault& fault, const Cluster& cluster);
  void report_stuck(Cluster& cluster);
  void report_endless(Cluster& cluster);
  bool nothing_can_end(const Cluster& cluster) const;
  Place place_of(const Cluster& cluster, const Fault& fault) const;

  Grid& grid_;
  LaunchResult& result_;
  const std::atomic<Cycle>* earliest_fault_;
  Counters counters_;
  std::unordered_map<const Cluster*, EndlessLoopDetector> loops_;
  std::mt19937_64 random_;
  uint32_t block_registers_ = 0;  ///< machine registers of one block, as they are allocated
  uint32_t block_shared_ = 0;     ///< bytes with what the system reserves
  uint32_t warps_per_block_ = 0;
  bool leak_reported_ = false;
  std::vector<std::unique_ptr<Block>> spare_blocks_;
};

/// Registers that a block takes on a multiprocessor: per warp, in units of 256.
uint32_t registers_of_block(uint32_t machine_registers, uint32_t warps);

}  // namespace stagecraft::emulator::machine
