// Which warp ran or waited, and what the asynchronous units did, in virtual time: a record of a launch's first cluster.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "emulator/state/grid.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::trace {

/// A piece of a row, from `begin` up to `end`.
struct Span {
  machine::Cycle begin = 0, end = 0;
  std::string what;  ///< what is waited for, or done: "full[1]", "tcgen05.mma"
  uint32_t pc = 0;
};

struct WarpRow {
  uint32_t block = 0, warp = 0;  ///< rank in the cluster, number in the block
  machine::Cycle begin = 0, end = 0;
  std::vector<Span> waits;  ///< between them it ran
  bool copies = false, multiplies = false, loads_tensor_memory = false;
  /// "warp 1, multiplies"
  std::string label(bool with_block) const;
};

/// The work of a unit of a block, in the order of issue. Copies overlap.
struct UnitRow {
  uint32_t block = 0;
  std::vector<Span> spans;
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
  void operation_issued(const machine::AsyncOperation& operation) override;
  void tensor_memory_changed(const machine::TensorEvent& event) override;

  const machine::Kernel* kernel() const { return kernel_; }
  uint32_t blocks() const { return blocks_; }
  const std::vector<WarpRow>& warps() const { return warps_; }
  const std::vector<UnitRow>& copies() const { return copies_; }
  const std::vector<UnitRow>& multiplications() const { return multiplications_; }
  /// The end of the last row.
  machine::Cycle end() const;

 private:
  static constexpr size_t kMostSpans = 200'000;  // in a row; later ones are not recorded

  WarpRow* row_of(const machine::Warp& warp);
  void begin_wait_if_idle(const machine::Warp& warp);
  void end_wait(WarpRow& row, machine::Cycle now);

  const machine::Kernel* kernel_ = nullptr;
  const machine::Cluster* cluster_ = nullptr;  ///< the one that is recorded
  uint32_t blocks_ = 0, warps_per_block_ = 0;
  std::vector<WarpRow> warps_;
  std::vector<UnitRow> copies_, multiplications_;
  std::vector<bool> waiting_;  ///< by row: its last span has no end yet
};

}  // namespace stagecraft::emulator::trace
