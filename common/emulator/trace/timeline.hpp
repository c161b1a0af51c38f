// Which warp ran or waited, what the asynchronous units did, and what happened to the barriers, in virtual time: a
// record of a launch's first cluster.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "emulator/state/grid.hpp"
#include "emulator/state/observer.hpp"
#include "emulator/trace/barrier_log.hpp"

namespace stagecraft::emulator::trace {

/// A piece of a row, from `begin` up to `end`.
struct Span {
  machine::Cycle begin = 0, end = 0;
  std::string what;  ///< what is waited for, or done: "full[1]", "tcgen05.mma"
  uint32_t pc = 0;
};

/// A warp's wait. One that a poll interrupts is several.
struct WaitSpan : Span {
  int32_t barrier = -1;   ///< number in Timeline::barriers; -1: it is no mbarrier
  uint64_t phase = 0;     ///< of that barrier: the one whose end is waited for
  bool open = false;      ///< nothing has ended it
  int32_t ended_by = -1;  ///< of a barrier that is not in memory: the row of the warp that came last; -1: not known
  uint32_t ended_pc = 0;  ///< and its instruction
};

/// An operation of a unit, or an arrival that a unit is asked for.
struct OperationSpan : Span {
  uint64_t number = 0;   ///< AsyncOperation::number
  int32_t warp = -1;     ///< the row of the warp that issued it
  int32_t barrier = -1;  ///< number in Timeline::barriers of the one that it completes on; -1: none
  uint64_t bytes = 0;    ///< of a copy
  std::string target{};  ///< what a copy writes in shared memory: "tile+0x400"
};

struct WarpRow {
  uint32_t block = 0, warp = 0;  ///< rank in the cluster, number in the block
  machine::Cycle begin = 0, end = 0;
  std::vector<WaitSpan> waits;  ///< between them it ran
  bool copies = false, multiplies = false, loads_tensor_memory = false;
  /// "warp 1, multiplies"
  std::string label(bool with_block) const;
};

/// The work of a unit of a block, in the order of issue. Copies overlap.
struct UnitRow {
  uint32_t block = 0;
  std::vector<OperationSpan> spans;
};

class Timeline : public machine::Observer {
 public:
  bool wants_memory_events() const override { return true; }
  void grid_started(const machine::Grid& grid) override;
  void grid_finished(const machine::Grid& grid) override;
  void block_started(const machine::Block& block) override;
  void block_finished(const machine::Block& block) override;
  void fragment_blocked(const machine::Fragment& fragment) override;
  void fragment_woken(const machine::Fragment& fragment) override;
  void fragment_exited(const machine::Fragment& fragment) override;
  void barrier_changed(const machine::BarrierEvent& event) override;
  void threads_met(const machine::Rendezvous& event) override;
  void operation_issued(const machine::AsyncOperation& operation) override;
  void tensor_memory_changed(const machine::TensorEvent& event) override;

  const machine::Kernel* kernel() const { return kernel_; }
  uint32_t blocks() const { return blocks_; }
  const std::vector<WarpRow>& warps() const { return warps_; }
  const std::vector<UnitRow>& copies() const { return copies_; }
  const std::vector<UnitRow>& multiplications() const { return multiplications_; }
  /// Arrivals that units were asked for (tcgen05.commit): nothing is under way meanwhile.
  const std::vector<OperationSpan>& arrivals() const { return arrivals_; }
  const std::vector<LoggedBarrier>& barriers() const { return log_.barriers(); }
  const std::vector<BarrierStep>& steps() const { return log_.steps(); }
  /// What the launch asks for, for each block.
  uint32_t dynamic_shared_bytes() const { return dynamic_shared_bytes_; }
  /// %ctaid of the cluster's first block.
  machine::Extent3 first_block() const { return first_block_; }
  /// The end of the last row.
  machine::Cycle end() const;

 private:
  static constexpr size_t kMostSpans = 200'000;  // in a row; later ones are not recorded

  WarpRow* row_of(const machine::Warp& warp);
  int32_t number_of(const machine::Warp& warp);
  WaitSpan describe_wait(const machine::Fragment& fragment);
  void begin_wait_if_idle(const machine::Warp& warp);
  void end_wait(WarpRow& row, machine::Cycle now);

  const machine::Kernel* kernel_ = nullptr;
  const machine::Cluster* cluster_ = nullptr;  ///< the one that is recorded
  uint32_t blocks_ = 0, warps_per_block_ = 0, dynamic_shared_bytes_ = 0;
  std::vector<WarpRow> warps_;
  machine::Extent3 first_block_;
  std::vector<UnitRow> copies_, multiplications_;
  std::vector<OperationSpan> arrivals_;
  BarrierLog log_;
  /// A barrier that is not in memory: its block, or -1 for the cluster's, and its number.
  using MeetingPlace = std::pair<int32_t, uint32_t>;
  std::map<MeetingPlace, std::pair<int32_t, uint32_t>> last_to_meet_;  ///< row and pc
  std::vector<MeetingPlace> meeting_;  ///< by row: where it waits for others; the number is kNowhere if it does not
  static constexpr uint32_t kNowhere = 0xffffffffu;
  std::vector<bool> waiting_;  ///< by row: its last span has no end yet
};

}  // namespace stagecraft::emulator::trace
