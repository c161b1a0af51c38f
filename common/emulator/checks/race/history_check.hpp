// Holds an access against the histories of the bytes that it touches: what it races with, and what is remembered of it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "emulator/checks/ordering/ordering_record.hpp"
#include "emulator/checks/race/barrier_interval.hpp"
#include "emulator/checks/race/present_access.hpp"
#include "emulator/checks/race/race_report.hpp"

namespace stagecraft::emulator::checks {

/// What became of the histories of one block that an access has met: cells with a history that was met before are
/// treated the same.
class Outcomes {
 public:
  static constexpr uint32_t kNone = 0xffffffffu;
  uint32_t rank = 0;
  uint32_t begun = kNone;  ///< the history that a write has begun

  void add(uint32_t before, uint32_t after) {
    befores_[next_ % befores_.size()] = before;
    afters_[next_++ % afters_.size()] = after;
  }
  /// What cells with `history` have from now on; kNone: not known.
  uint32_t of(uint32_t history) const {
    // Outcomes come first: the number of a history that nothing has any more is used again for the next.
    if (std::find(afters_.begin(), afters_.end(), history) != afters_.end()) return history;
    const auto found = std::find(befores_.begin(), befores_.end(), history);
    return found == befores_.end() ? kNone : afters_[static_cast<size_t>(found - befores_.begin())];
  }

 private:
  std::array<uint32_t, 4> befores_{kNone, kNone, kNone, kNone}, afters_ = befores_;
  uint32_t next_ = 0;
};

/// Checks the accesses of one cluster.
class HistoryCheck {
 public:
  HistoryCheck(ClusterRecord& cluster, const BarrierInterval& interval, RaceReport& report)
      : cluster_(cluster), order_(cluster.order()), interval_(interval), report_(report) {}

  /// Checks an access of a range in the block of rank `rank`, and remembers it.
  /// @param unit      bytes that a lane touches at once
  /// @param outcomes  of the same access in other ranges of that block
  void check(uint32_t rank, uint32_t offset, uint32_t bytes, uint32_t unit, const PresentAccess& now,
             Outcomes& outcomes);

 private:
  uint32_t read(uint32_t rank, Cells& cells, const PresentAccess& now);
  void check_read(uint32_t rank, const Cells& cells, const PresentAccess& now);
  uint32_t write(uint32_t rank, Cells& cells, const PresentAccess& now, uint32_t& begun);
  bool races(uint32_t rank, const PastAccess& before, const Cells& cells, const PresentAccess& now) {
    if (before.agent == PastAccess::kNobody || (before.strong() && now.record.strong())) return false;
    return !order_.knows_of_all(before, *now.known) && find_race(rank, before, cells, now);
  }
  bool find_race(uint32_t rank, const PastAccess& before, const Cells& cells, const PresentAccess& now);
  bool is_superseded(const PastAccess& before, const PastAccess& now) const;

  ClusterRecord& cluster_;
  const ClusterOrder& order_;
  const BarrierInterval& interval_;
  RaceReport& report_;
  bool lanes_decide_ = false;  ///< cells that differ only in their lanes may differ in whether there is a race
};

}  // namespace stagecraft::emulator::checks
