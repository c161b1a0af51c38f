// Records what a launch does, for the model of the chip's speed (timing/).
//
// Each part of a grid that runs on its own has a recorder, and all give their clusters to one recording. What a cluster
// did depends on the program and the seed alone, and so does the recording.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/state/grid.hpp"
#include "emulator/state/observer.hpp"
#include "emulator/timing/trace.hpp"

namespace stagecraft::emulator::trace {

/// The clusters of a launch that have ended. Clusters that did the same share one description.
class LaunchRecording {
 public:
  /// @param blocks  that are on the chip at once.
  explicit LaunchRecording(uint64_t blocks = 0) : resident_(blocks) {}

  /// Records less of each cluster than it would.
  void limit_cluster(uint64_t most) { most_of_cluster_ = most; }
  /// Called by each recorder when its part of the grid starts.
  void begin(const machine::Grid& grid);
  /// Whether a cluster is to be recorded. The first ones of a large launch are, as many as fill the chip kRounds times,
  /// or kMostRounds times where they do little.
  bool wants(uint64_t number) const;
  /// Whether a cluster need run where only what is recorded matters. One that need not is taken to do as much as those
  /// that are recorded.
  bool needs(uint64_t number);
  /// What may be recorded of a cluster: steps, and lines of memory, four of which count as one.
  uint64_t most_of_cluster() const { return most_of_cluster_; }
  /// @param thinned  of its loops, only a part is in `shape`.
  void add(uint64_t number, timing::ClusterShape shape, timing::ClusterTrace trace, bool thinned);
  /// Counts a cluster that was not recorded.
  void count(uint64_t instructions);
  /// The launch in the order of its clusters. Called once, when the grid has ended.
  timing::LaunchTrace take();
  const machine::Kernel* kernel() const { return kernel_; }
  /// What the kernel's instructions are; there once a part has begun.
  const timing::Code& code() const { return *trace_.code; }

 private:
  static constexpr uint64_t kRounds = 4, kMostRounds = 16;
  static constexpr uint64_t kLittle = 4 << 20;  ///< of all rounds
  static constexpr uint64_t kMost = 32 << 20;   ///< of all that is on the chip at once: some 1 GB, and some 30 seconds

  void choose_extrapolation();
  uint64_t rounds() const {
    return first_round_.load(std::memory_order_relaxed) * kMostRounds > kLittle ? kRounds : kMostRounds;
  }

  const uint64_t resident_;  ///< blocks; 0: all are recorded
  uint64_t most_of_cluster_ = ~uint64_t{0};
  uint64_t blocks_ = 0;                       ///< of the launch
  uint64_t clusters_ = 0, instructions_ = 0;  ///< that have ended, also those that were not recorded
  std::atomic<bool> cut_ = false;             ///< a cluster was too long
  std::atomic<bool> left_out_ = false;        ///< clusters that were not needed
  bool thinned_ = false;                      ///< some cluster is
  std::atomic<uint64_t> first_round_ = 0;     ///< what was recorded of the clusters of the first round
  std::mutex mutex_;
  const machine::Kernel* kernel_ = nullptr;
  timing::LaunchTrace trace_;
  std::multimap<uint64_t, std::shared_ptr<const timing::ClusterShape>> shapes_;  ///< by hash
};

class LaunchRecorder : public machine::Observer {
 public:
  explicit LaunchRecorder(LaunchRecording& recording) : recording_(recording) {}

  bool wants_memory_events() const override { return true; }
  bool wants_instructions() const override { return true; }
  void grid_started(const machine::Grid& grid) override;
  void block_started(const machine::Block& block) override;
  void block_finished(const machine::Block& block) override;
  void barrier_changed(const machine::BarrierEvent& event) override;
  void instruction_executed(const machine::ExecutedInstruction& event) override;
  void threads_met(const machine::Rendezvous& event) override;
  void operation_issued(const machine::AsyncOperation& operation) override;
  void group_changed(const machine::GroupEvent& event) override;
  void tensor_memory_changed(const machine::TensorEvent& event) override;
  void warpgroup_issued(const machine::WarpgroupIssue& event) override;
  void warpgroup_waited(const machine::WarpgroupWait& event) override;

 private:
  static constexpr uint32_t kNone = 0xffffffffu;
  static constexpr uint64_t kStretch = 64;     ///< accesses: several turns of an unrolled loop
  static constexpr uint64_t kThinnedPart = 8;  ///< of what may be recorded of a cluster that cannot be thinned

  /// A run of instructions that may go on.
  struct OpenRun {
    uint32_t first = kNone, last = kNone;
    uint64_t fragment = 0;  ///< its sequence number
    timing::RunEnd end = timing::RunEnd::other;
  };
  /// A poll that failed: what its loop does until it succeeds is waiting.
  struct FailedPoll {
    uint32_t pc = kNone;
    size_t steps = 0;
    uint64_t others = 0;  ///< WarpRecord::others at that time
    OpenRun run;
  };
  /// Groups of copies of a thread: operations, the open group last.
  struct Groups {
    std::deque<std::vector<uint32_t>> closed;
    std::vector<uint32_t> open;
  };
  /// Accesses of a warp that are recorded, or left out, together.
  struct Stretch {
    size_t first_step;
    uint64_t number;  ///< of all that the warp has come to
  };
  struct WarpRecord {
    OpenRun run;
    uint64_t accesses = 0;           ///< also those that were left out
    bool recorded = true;            ///< the stretch that it is in
    std::vector<Stretch> stretches;  ///< that are recorded, where some are not
    machine::LaneMask lanes = 0;     ///< that go on together after the latest instruction
    uint32_t parting = kNone;        ///< the pc of the latest instruction, if it is a branch at which lanes have parted
    FailedPoll poll;
    uint64_t others = 0;                                 ///< steps other than runs
    std::map<std::pair<bool, uint32_t>, Groups> groups;  ///< by bulk and lane
    std::vector<uint32_t> tensor_loads, tensor_stores;   ///< operations that are not waited for
    uint32_t thread_copy_pc = kNone;                     ///< of the cp.async whose lanes are being announced
  };
  struct ClusterRecord {
    timing::ClusterShape shape;
    timing::ClusterTrace trace;
    std::vector<WarpRecord> warps;
    std::vector<uint32_t> tensor_columns;  ///< that each block has now
    uint32_t blocks = 0, finished = 0;
    bool idle = false;          ///< nothing more is recorded
    bool wanted = false;        ///< something was
    uint64_t instructions = 0;  ///< that its warps have executed
    uint64_t steps = 0;
    uint64_t number = 0;
    uint64_t one_of = 1;                                   ///< so many stretches is recorded
    bool thin_next = false;                                ///< before the next instruction
    std::unordered_map<uint64_t, uint32_t> gates;          ///< by barrier and phase
    std::unordered_map<uint64_t, uint32_t> generations;    ///< of barriers that are no mbarriers
    std::unordered_map<uint64_t, uint32_t> products;       ///< operations by warpgroup and number
    std::unordered_map<uint32_t, uint32_t> product_gates;  ///< by operation
    std::unordered_map<uint64_t, uint32_t> operations;     ///< by the number that observers know
    uint32_t latest = kNone;                               ///< the operation that was issued last
  };

  ClusterRecord& cluster_of(const machine::Block& block) { return clusters_.at(block.cluster); }
  size_t index_of(const machine::Fragment& fragment) const;
  timing::Step& append(ClusterRecord& cluster, const machine::Fragment& fragment, timing::StepKind kind,
                       uint32_t value);
  void close_run(ClusterRecord& cluster, size_t warp);
  /// Stops recording a cluster of which enough is known. What it did until then is a possible run of its own.
  void cut_if_long(ClusterRecord& cluster);
  /// Whether a cluster does so little but compute, load and store that a part of its stretches tells what the rest is
  /// like.
  static bool can_be_thinned(const ClusterRecord& cluster);
  /// Leaves out every second one of the stretches that are recorded, and of those that come.
  static void thin(ClusterRecord& cluster);
  static bool is_recorded(const ClusterRecord& cluster, uint64_t stretch) {
    return (stretch + cluster.number) % cluster.one_of == 0;
  }
  /// How many of its instructions are described.
  static uint64_t described_of(const ClusterRecord& cluster);
  void count_access(ClusterRecord& cluster, size_t warp);
  uint32_t gate_at(ClusterRecord& cluster, uint64_t key, timing::GateKind kind);
  uint32_t new_gate(ClusterRecord& cluster, timing::GateKind kind);
  void wait_for(ClusterRecord& cluster, const machine::Fragment& fragment, timing::GateKind kind,
                const std::vector<uint32_t>& operations, timing::Stage stage);
  void describe_memory(ClusterRecord& cluster, const machine::AsyncOperation& operation, timing::Operation& described);
  /// Whether it is a division or a root of single precision for whose numbers ptxas calls a function: `other` if not.
  timing::RunEnd function_called(const machine::ExecutedInstruction& event) const;
  void record_access(ClusterRecord& cluster, const machine::ExecutedInstruction& event);
  /// Describes the lines and sectors of `sectors_`.
  void describe_lines(timing::ClusterTrace& trace, timing::Access& access);
  uint32_t product_of(ClusterRecord& cluster, const machine::Fragment& fragment, uint64_t number);

  LaunchRecording& recording_;
  const machine::Grid* grid_ = nullptr;
  uint32_t warps_per_block_ = 0;
  std::vector<bool> jumps_;  ///< by pc: a branch
  const timing::Code* code_ = nullptr;
  struct Sector {
    uint64_t number;
    uint32_t bytes;  ///< of it that are accessed, a bit each
  };
  std::vector<Sector> sectors_;  ///< of the access that is being recorded
  std::unordered_map<const machine::Cluster*, ClusterRecord> clusters_;
};

}  // namespace stagecraft::emulator::trace
