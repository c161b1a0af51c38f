// The state of a replay: multiprocessors, the clusters that are on them, their warps and gates.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

#include "emulator/timing/machine_schedule.hpp"
#include "emulator/timing/memory_system.hpp"
#include "emulator/timing/result.hpp"
#include "emulator/timing/servers.hpp"
#include "emulator/timing/sub_partition.hpp"

namespace stagecraft::emulator::timing {

inline constexpr uint32_t kSubPartitions = 4;

struct Multiprocessor;

/// A copy whose lines the engine is asking for, some at a time: so the engines of several multiprocessors share the way
/// to L2 as they do on the chip, and none waits for all of another's copy.
struct CopyUnderWay {
  uint32_t cluster = 0;  ///< its number
  const Operation* operation = nullptr;
  std::vector<Multiprocessor*> targets;
  std::vector<LineRequest> lines;
  size_t asked = 0;              ///< lines
  double start = 0;              ///< not before
  double drift = 0;              ///< by how much it takes longer than others of its kind
  double arrives = 0;            ///< the latest of what was asked for
  std::vector<uint32_t> fences;  ///< warps whose fence waits for it and those before it
};

struct Multiprocessor {
  uint32_t index = 0;
  uint32_t blocks = 0;
  std::array<SubPartition, kSubPartitions> parts;
  std::array<Server, kSubPartitions> tensor_loads;
  Server port;                                     ///< shared memory
  Server copy_engine, copy_in, copy_out, between;  ///< its issue and its paths
  std::deque<CopyUnderWay> copies;                 ///< of the copy engine, in the order of their issue
  double copies_land = 0;                          ///< the latest of those before
  Server loads;                                    ///< what comes from L2 for threads
  Server tensor;
  CacheLines l1;
  explicit Multiprocessor(double l1_bytes) : l1(l1_bytes) {}
};

struct OpenGate {
  uint32_t left = 0;              ///< arrivals
  double open_at = 0;             ///< once none is left
  std::vector<uint32_t> waiting;  ///< warps
};

struct RunningCluster;

struct ReplayedWarp {
  RunningCluster* cluster = nullptr;
  uint32_t id = 0, block_rank = 0, number = 0;
  const std::vector<Step>* steps = nullptr;
  size_t step = 0;
  const std::vector<CodePart>* parts = nullptr;  ///< of the run that is under way
  size_t part = 0;
  bool fenced = false;   ///< the fence of the signal that is next is over
  bool queued = false;   ///< it has waited for the queue of the access that is next
  double next_copy = 0;  ///< before then it issues no other copy
  // Of the block of machine code that it executes.
  const MachineBlock* block = nullptr;
  size_t block_part = 0;
  bool part_done = false;        ///< its instructions, not yet its access
  double share = 1;              ///< of its instructions: pieces of PTX code may be done one by one, and often
  std::vector<uint32_t> visits;  ///< the pieces that it does there, in their order
  uint32_t piece = kAtStart;     ///< the latest of all
  bool in_short = false;         ///< it does the block's `sum`
  CodePart functions;            ///< that its divisions call, beyond its own code
  bool jumps = false;            ///< at the block's end
  std::vector<size_t> accesses;  ///< steps that the block has still to do
  size_t step_behind = 0;        ///< the step with which it goes on
  uint32_t resumes = kAtStart;   ///< the pc with which a run goes on
  std::array<double, MachineInstruction::kScoreboards> scoreboards{};  ///< when they are free
  static constexpr uint32_t kAtStart = 0xffffffffu;
  std::vector<size_t> ahead;                       ///< later steps that were done already: loads that ptxas moves up
  std::vector<std::pair<uint32_t, double>> loads;  ///< registers that are still to be filled, and when they will be
  double began = 0, alone = 0;                     ///< when it started, and what the piece under way takes alone
  double since = 0;                                ///< start of what it waits for or executes
  uint32_t pc = 0;
};

struct RunningCluster {
  const ClusterTrace* trace = nullptr;
  uint32_t id = 0;
  std::vector<Multiprocessor*> places;  ///< by rank
  std::vector<uint32_t> live_warps;     ///< by rank
  std::vector<ReplayedWarp> warps;
  std::vector<OpenGate> gates;
  std::vector<uint32_t> parts_issued;  ///< by operation
  std::vector<double> products_end;    ///< by rank: of the last product that was issued
};

enum class EventKind : uint8_t { warp, arrival, copy, start_cluster };

struct ReplayEvent {
  double at;
  uint64_t order;  ///< among equals, what was planned first comes first
  EventKind kind;
  uint32_t index;  ///< the warp's, the multiprocessor's or the cluster's number
  uint32_t value;  ///< the gate
  bool operator>(const ReplayEvent& other) const { return at != other.at ? at > other.at : order > other.order; }
};
using ReplayEvents = std::priority_queue<ReplayEvent, std::vector<ReplayEvent>, std::greater<>>;

/// When a piece of code next ends on each sub-partition. Nearly each event changes one of these, so they are in a tree
/// of the earlier ones of two: a queue would be full of ends that are void.
class NextEnds {
 public:
  struct End {
    double at = std::numeric_limits<double>::infinity();  ///< never
    uint64_t order = 0;                                   ///< as of an event
    uint32_t part = 0;                                    ///< the sub-partition's number
  };
  explicit NextEnds(size_t parts) : leaves_(std::bit_ceil(parts)), ends_(2 * leaves_) {}
  void plan(const End& end) {
    size_t node = leaves_ + end.part;
    ends_[node] = end;
    while ((node /= 2) != 0) {
      const End &a = ends_[2 * node], &b = ends_[2 * node + 1];
      ends_[node] = a.at != b.at ? (a.at < b.at ? a : b) : a.order < b.order ? a : b;
    }
  }
  const End& first() const { return ends_[1]; }
  bool is_before(const ReplayEvent& event) const {
    return first().at != event.at ? first().at < event.at : first().order < event.order;
  }

 private:
  size_t leaves_;
  std::vector<End> ends_;  ///< the leaves last
};

}  // namespace stagecraft::emulator::timing
