// What each thread of a cluster knows to have happened, and how it passes that on.
//
// A thread *releases* what it knows and has done into something that others look at (a barrier, a location), and
// *acquires* what others have released there. happens_before.hpp says which event does which.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "emulator/checks/ordering/latest_few.hpp"
#include "emulator/checks/ordering/small_map.hpp"
#include "emulator/checks/ordering/vector_clock.hpp"
#include "emulator/state/lanes.hpp"

namespace stagecraft::emulator::checks {

/// A clock under construction, to which threads add what they know.
struct Gathering {
  VectorClock clock;
  bool is_empty() const { return latest_[0] == nullptr; }
  void join(const SharedClock& known) {
    if (std::find(latest_.begin(), latest_.end(), known) != latest_.end()) return;
    clock.join(*known);
    latest_[next_++ % latest_.size()] = known;
  }

 private:
  /// Those that were joined last, because threads that come soon after often know the very same: the warps of each
  /// block of a cluster, which arrive in turn, know what their block has waited for.
  std::array<SharedClock, 8> latest_;
  uint32_t next_ = 0;
};

/// What threads have known since they learnt one clock, by what they knew before. Warps that knew the same share one
/// clock afterwards too, so that what they release then is joined once (Gathering).
class Learners {
 public:
  /// What those who knew `known` know now; null: not known here.
  SharedClock find(const SharedClock& known) const {
    const auto found =
        std::find_if(latest_.begin(), latest_.end(), [&](const Step& step) { return step.known == known; });
    return found == latest_.end() ? nullptr : found->now;
  }
  void add(const SharedClock& known, const SharedClock& now) { latest_[next_++ % latest_.size()] = {known, now}; }

 private:
  struct Step {
    SharedClock known, now;
  };
  std::array<Step, 4> latest_;
  uint32_t next_ = 0;
};

/// An arrival of some lanes of a warp at an mbarrier.
struct ArrivalNote {
  uint32_t barrier = 0;  ///< index
  uint32_t pc = 0;
  Time time = 0;  ///< the arrival released what the lanes had done up to this time
  machine::LaneMask lanes = 0;
  uint64_t number = 0;   ///< among the arrivals of its warp, from 1 on
  Time phase = 0;        ///< phases that the barrier had ended
  bool relaxed = false;  ///< it released nothing
};

/// An instruction in which lanes exchanged registers that were computed from loads.
struct ExchangeNote {
  Time time = 0;  ///< what the lanes had done up to this time came before
  uint32_t pc = 0;
  machine::LaneMask lanes = 0;
};

/// An arrival of a warp at a barrier of its block (bar.sync and its kind).
struct MeetingNote {
  uint32_t number = 0;  ///< of the barrier
  uint32_t pc = 0;
  uint64_t phase = 0;  ///< phases that the barrier had completed
  Time time = 0;       ///< what the warp had done up to this time came before; 0: there is no such arrival
};

/// The last wait of a warp for a barrier that passed.
struct WaitNote {
  uint64_t phases = 0;  ///< phases the barrier had ended; 0: the wait was for the phase before the first, and passed
  uint32_t pc = 0;
  machine::LaneMask lanes = 0;
  uint64_t arrivals = 0;  ///< arrivals of the warp before the wait, at any barrier
  Time time = 0;          ///< time of the warp: what it does from then on comes after the wait
  uint64_t meetings = 0;  ///< arrivals of the warp before the wait at barriers of the block or the cluster
  bool repeated = false;  ///< it saw the same phase as the wait before, though the warp arrived somewhere in between
  bool repeated_after_meeting =
      false;             ///< the same, but what came in between was a barrier of the block or the cluster
  bool relaxed = false;  ///< it acquired nothing
};

/// A phase of a barrier of copies that a thread has waited for.
struct AwaitedPhase {
  static constexpr uint32_t kNone = 0xffffffffu;
  uint32_t barrier = kNone;  ///< index
  Time phase = 0;
};

/// A value for each lane. It takes memory only once it is set: most warps never set any, and a warp of a short-lived
/// block must cost little.
template <typename Value>
class ByLane {
 public:
  bool is_set() const { return values_ != nullptr; }
  const Value& operator[](uint32_t lane) const {
    static const Value kUnset{};
    return is_set() ? (*values_)[lane] : kUnset;
  }
  /// The value of one lane, to be changed.
  Value& at(uint32_t lane) {
    if (!is_set()) values_ = std::make_unique<std::array<Value, machine::kWarpSize>>();
    return (*values_)[lane];
  }

 private:
  std::unique_ptr<std::array<Value, machine::kWarpSize>> values_;
};

/// What the lanes of one warp know, and what the warp has done at barriers.
struct WarpOrder {
  Time time = 2;          ///< time of what it does now; it has started at time 1
  bool accessed = false;  ///< something was done at this time; releasing it begins the next time
  machine::LaneMask existing = machine::kAllLanes;
  ByLane<SharedClock> fenced;  ///< known at the last fence; null: none
  ByLane<Time> fenced_time;
  ByLane<SharedClock> pending;   ///< read by relaxed accesses; becomes known at the next fence
  ByLane<SharedClock> executed;  ///< what it knows through relaxed barriers as well; null: the same as `known`
  /// The same at the last tcgen05.fence::before_thread_sync, and when that was; null: none.
  ByLane<SharedClock> handed_over;
  ByLane<Time> handed_over_time;
  bool has_copies = false;  ///< some lane has waited for a group of its copies
  LatestFew<ArrivalNote, 32> arrivals;
  LatestFew<ExchangeNote, 32> exchanges;
  uint64_t arrival_count = 0, meeting_count = 0;
  std::array<MeetingNote, 4> meetings{};  ///< the latest few, `next_meeting` being the oldest
  uint32_t next_meeting = 0;
  SmallMap<WaitNote> waits;                          ///< by barrier
  AwaitedPhase awaited;                              ///< by the last of these that was for copied bytes
  uint64_t cluster_arrived = 0, cluster_passed = 0;  ///< the last phase of the cluster's barrier, from 1 on
  MeetingNote relaxed_arrival;                       ///< the last one at the cluster's barrier that orders no memory
  Time cluster_passed_at = 0;                        ///< what the warp does from then on comes after the first

  const SharedClock& known(uint32_t lane) const { return known_[alike_ ? 0 : lane]; }
  /// Whether these lanes know the same.
  bool know_alike(machine::LaneMask lanes) const { return alike_ || know_the_same(lanes); }
  /// From now on these lanes know what `clock` says.
  void learn(machine::LaneMask lanes, const SharedClock& clock);

 private:
  bool know_the_same(machine::LaneMask lanes) const;

  bool alike_ = false;  ///< all lanes know what the first of these clocks says
  std::array<SharedClock, machine::kWarpSize> known_;
};

/// The warps of a cluster, by number: warps of the block of rank 0 first.
class ThreadKnowledge {
 public:
  ThreadKnowledge(uint32_t blocks, uint32_t warps_per_block, uint32_t threads_per_block);

  /// The component of a thread in a clock.
  static uint32_t component_of(uint32_t warp, uint32_t lane) { return warp * machine::kWarpSize + lane; }

  std::vector<WarpOrder>& warps() { return warps_; }
  uint32_t count() const { return static_cast<uint32_t>(warps_.size()); }
  const WarpOrder& warp(uint32_t number) const { return warps_[number]; }
  WarpOrder& warp(uint32_t number) { return warps_[number]; }
  /// What a lane knows to have been executed, which its tcgen05 instructions after a fence::after_thread_sync rely on.
  const SharedClock& known_executed(uint32_t warp, uint32_t lane) const {
    const SharedClock& executed = warps_[warp].executed[lane];
    return executed != nullptr ? executed : warps_[warp].known(lane);
  }
  /// What a lane knows, with its own copies that it has waited for.
  SharedClock knowledge_of(uint32_t warp, uint32_t lane) const;

  /// Ends the time of what a warp has done. Returns that time: those who know it know all that was done until then.
  Time publish(uint32_t warp);
  /// Separates what a warp has done, which has earlier times, from what it does next, which has this time or later
  /// ones.
  void mark(uint32_t warp);

  /// Adds to `target` what the lanes know and have done.
  void release(uint32_t warp, machine::LaneMask lanes, Gathering& target);
  /// Adds what they knew and had done at their last fence.
  void release_fenced(uint32_t warp, machine::LaneMask lanes, Gathering& target);
  /// Adds what they know about execution beyond what an arrival releases anyway.
  void release_executed(uint32_t warp, machine::LaneMask lanes, bool relaxed, Gathering& target) const;

  /// The lanes learn what `source` says; null: nothing.
  /// @param learners  others who learnt the same, if there are such
  void acquire(uint32_t warp, machine::LaneMask lanes, const SharedClock& source, Learners* learners = nullptr);
  /// They will learn it at their next fence.
  void acquire_at_fence(uint32_t warp, machine::LaneMask lanes, const SharedClock& source);
  /// They learn that it has been executed, which orders no memory.
  void learn_executed(uint32_t warp, machine::LaneMask lanes, const SharedClock& source);

  /// Lanes of a warp meet in bar.warp.sync: each learns what the others know and have done.
  void warp_met(uint32_t warp, machine::LaneMask lanes);
  void fence(uint32_t warp, machine::LaneMask lanes);
  /// tcgen05.fence::before_thread_sync: a relaxed arrival passes on what was executed before it.
  void hand_over(uint32_t warp, machine::LaneMask lanes);

  /// A thread has waited until `ended` of its own copies, which `component` counts, have ended.
  void wait_for_own_copies(uint32_t warp, uint32_t lane, uint32_t component, Time ended);
  /// How many of the copies that `component` counts have ended, as far as their own thread has waited for them.
  Time waited(uint32_t component) const { return waited_.at(component); }

 private:
  void release_copies(uint32_t warp, machine::LaneMask lanes, Gathering& target) const;

  std::vector<WarpOrder> warps_;
  /// Copies that their own thread has waited for, by component. They are not in the thread's clock, which it shares
  /// with other lanes.
  VectorClock waited_;
  std::multimap<uint32_t, uint32_t> own_copies_;  ///< components of them, by component of the thread
};

}  // namespace stagecraft::emulator::checks
