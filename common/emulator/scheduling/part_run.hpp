// Runs one part of a grid (grid_parts.hpp): decides which clusters are resident where, and in what order they advance.
//
// Every cluster has its own virtual clock. The one that is furthest behind runs for a while, then the next. The clock
// of a cluster that has not started counts as the time at which its multiprocessor became free. So blocks of a grid
// advance together, as on the chip, and one that waits for another to write global memory sees it happen. The order,
// and with it every result and report, depends on the program and the seed alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <unordered_map>
#include <vector>

#include "emulator/scheduling/endless_loop.hpp"
#include "emulator/scheduling/execution.hpp"
#include "emulator/scheduling/progress.hpp"
#include "emulator/state/choices.hpp"
#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

/// Why a grid, or a part of one, did not run to its end.
struct Stop {
  FaultKind kind;
  Cycle at;
  Diagnostic why;
  bool asynchronous = false;  ///< an operation failed after the thread that issued it had gone on
};

/// Whether a part of a grid goes on.
enum class GoOn : uint8_t {
  yes,
  no,           ///< another part was stopped earlier
  interrupted,  ///< the user wants it to stop
  limit,        ///< it has run for as long as it may
};

/// The result of a grid, or of a part of one.
struct RunResult {
  std::optional<Stop> stop;
  std::vector<Finding> findings;  ///< those that did not stop it, in the order in which they were found
  std::vector<WrittenResult> results;
  Counters executed;
  Cycle cycles = 0;        ///< virtual time it took
  GoOn ended = GoOn::yes;  ///< why it was asked to stop, if it was
  Progress progress;       ///< how far it has come
};

class PartRun {
 public:
  /// @param goes_on  is asked before each turn of a cluster, with its time; the run ends where the answer is not yes.
  PartRun(Grid& grid, RunResult& result, std::function<GoOn(Cycle)> goes_on);
  ~PartRun();
  /// Runs the part to its end, or to the first fault. What is found goes into the result.
  void run();

 private:
  /// Instructions that a warp executes before another one of its cluster has its turn; varied by the seed.
  static constexpr uint32_t kWarpTurn = 192;

  enum class Status { finished, paused, stuck, repeating };

  /// Runs the part in virtual time.
  void run_in_time();
  /// Does the same where Choices decides what is next: virtual time then decides nothing.
  void run_as_decided();
  /// Starts clusters that have room: all of them where they may depend on each other, or else one after another, as
  /// there is no other order in which something else could happen.
  void start_clusters_as_decided();
  /// What can go on.
  std::vector<Candidate> list_candidates();
  /// Wakes the one whose sleep has the earliest limit; returns whether there was one.
  bool end_a_sleep();
  void carry_out(const Candidate& candidate);

  /// Starts a cluster on these multiprocessors, one for each of its blocks.
  std::unique_ptr<Cluster> start_cluster(const std::vector<Sm*>& sms, Cycle at);
  std::unique_ptr<Block> take_block();
  void start_block(Cluster& cluster, uint32_t rank, Sm& sm, Cycle at);
  /// Removes it from the resident ones.
  void finish_cluster(const Cluster& cluster);
  void finish_block(Block& block);
  Status advance(Cluster& cluster, Cycle until);
  void carry_out(Cluster& cluster, const Event& event);
  Warp* next_warp(Cluster& cluster);
  /// Returns the multiprocessors that the next cluster's blocks would go to; empty when there is no room.
  std::vector<Sm*> find_room() const;
  void report(const Fault& fault, const Cluster& cluster);
  /// A report that observers complete.
  Diagnostic new_report(const char* kind, const char* message) const;
  void report_stuck(const Cluster& cluster, Cycle at);
  void report_endless(const Cluster& cluster);
  bool nothing_can_end() const;
  /// Throws Fault when too little of the host's memory is left; `warp` has had the last turn.
  void look_at_host(const Warp& warp) const;
  /// Ends the run, which was asked to stop at this time.
  void stop(GoOn why, Cycle now);
  Place place_of(const Cluster& cluster, const Fault& fault) const;

  Grid& grid_;
  RunResult& result_;
  std::function<GoOn(Cycle)> goes_on_;
  Cluster* current_ = nullptr;  ///< the one that is being advanced
  std::unordered_map<const Cluster*, EndlessLoopDetector> loops_;
  std::mt19937_64 random_;
  uint32_t turns_ = 0;
  BlockResources multiprocessor_, each_block_;  ///< what the one has and the other takes
  uint32_t warps_per_block_ = 0;
  std::vector<std::unique_ptr<Block>> spare_blocks_;
};

}  // namespace stagecraft::emulator::machine
