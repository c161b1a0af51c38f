// A quarter of a multiprocessor: a scheduler, and the pipes that its warps share.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "emulator/timing/code_schedule.hpp"

namespace stagecraft::emulator::timing {

/// Pieces of code of several warps at once. Older blocks come first. Within one, the warp that has issued least since
/// its piece began does; those that have issued as much share what a pipe can do, and the others get what is left. So
/// warps that do the same stay together, and wait together. Source: of a loop of loads and sums, the waits of three
/// warps are as long as those of one (tests/silicon/shared_products.cu, `a loop`), though each could wait while the
/// others add. And three warps of a block end such a loop within 0.1% of each other (tests/silicon/blocks.cu). How the
/// chip's scheduler chooses is not known.
class SubPartition {
 public:
  /// A warp starts a piece of code; `finished` returns its number when it has ended. @param block  a number, lower for
  /// older ones.
  void start(double now, uint32_t block, uint32_t warp, const CodePart& part);
  /// When the next piece ends, or overtakes another, if nothing starts before; a negative number when none is under
  /// way.
  double next_end() const;
  /// Removes the pieces that have ended by `now` and appends their warps, of which there may be none.
  void finished(double now, std::vector<uint32_t>& warps);
  double issued() const { return issued_; }      ///< cycles in which the scheduler has issued
  double products() const { return products_; }  ///< cycles of mma.sync

 private:
  struct Piece {
    uint32_t block, warp;
    double left;                        ///< cycles, when alone
    double rate;                        ///< at which it goes on, of that of a warp that is alone
    std::array<double, kPipes> demand;  ///< of each pipe, part of its time
    double done;                        ///< cycles in which it has issued
    double pace() const;                ///< at which `done` grows
  };
  void advance(double now);
  void set_rates();
  /// The number of the first piece behind those of the same block that have issued as much as this one.
  size_t behind_equals(size_t first) const;
  /// Gives pieces equal rates, as far as what is left of the pipes allows, and takes that from `left`.
  static void share(std::span<Piece> pieces, std::array<double, kPipes>& left);

  std::vector<Piece> pieces_;  ///< by block, and of a block those that have issued least first
  double now_ = 0, issued_ = 0, products_ = 0;
};

}  // namespace stagecraft::emulator::timing
