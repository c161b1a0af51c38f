// A quarter of a multiprocessor: a scheduler, and the pipes that its warps share.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "emulator/timing/code_schedule.hpp"

namespace stagecraft::emulator::timing {

/// Pieces of code of several warps at once. The scheduler has an order of warps: the one that started last comes first,
/// and another gets what that leaves of each pipe. Source: of 2 to 4 warps of a sub-partition that began together,
/// those with higher numbers ended first (tests/silicon/register_banks.cu), and loops of loads and sums take as long as
/// that order makes them (tests/silicon/shared_products.cu).
class SubPartition {
 public:
  /// A warp starts a piece of code; `finished` returns its number when it has ended.
  void start(double now, uint32_t warp, const CodePart& part);
  /// When the next piece ends if nothing starts before; a negative number when none is under way.
  double next_end() const;
  /// Removes the pieces that have ended by `now` and appends their warps.
  void finished(double now, std::vector<uint32_t>& warps);
  /// Changes with each start and end: an end that was planned before a change is void.
  uint64_t version() const { return version_; }
  double issued() const { return issued_; }      ///< cycles in which the scheduler has issued
  double products() const { return products_; }  ///< cycles of mma.sync

 private:
  struct Piece {
    uint32_t warp;
    double left;                        ///< cycles, when alone
    double rate;                        ///< at which it goes on, of that of a warp that is alone
    std::array<double, kPipes> demand;  ///< of each pipe, part of its time
  };
  void advance(double now);
  void set_rates();

  std::vector<Piece> pieces_;  ///< in the order of their warps
  double now_ = 0, issued_ = 0, products_ = 0;
  uint64_t version_ = 0;
};

}  // namespace stagecraft::emulator::timing
