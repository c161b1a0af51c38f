// What orders the works of a program: kernels, copies and fills, by streams, events and the host's waits.
//
// Each stream is a component of a WorkClock, and each of its works a time. What the emulated GPU does at once a chip
// may do later and at the same time as other works, unless their order says otherwise. All threads of the host count as
// one, in the order of their calls, because nothing shows how they wait for each other.
//
// A kernel that may begin before the one before it has ended, and never executes griddepcontrol.wait, breaks the chain:
// kernels behind it wait for its end, which says nothing about that of the one before. PTX ISA, "griddepcontrol": .wait
// waits for "all prerequisite grids", and "if the prerequisite grid is using griddepcontrol.launch_dependents, then the
// dependent grid must use griddepcontrol.wait to ensure correct functional execution". So this holds for ordinary
// launches behind it too. Copies, events and the host wait for all works of a stream.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace stagecraft::emulator::checks {

using WorkTime = uint32_t;

/// Which works of each stream have ended, as far as that is known somewhere: all up to a time, except for some.
class WorkClock {
 public:
  bool knows(uint32_t component, WorkTime time) const {
    return at(component) >= time && missed_by(component, time) == 0;
  }
  /// The time of the kernel that has not waited for this work, and so let it be missed; 0: it is not missed.
  WorkTime missed_by(uint32_t component, WorkTime time) const {
    for (const Missed& each : missed_) {
      if (each.component == component && each.time == time) return each.by;
    }
    return 0;
  }
  WorkTime at(uint32_t component) const { return component < times_.size() ? times_[component] : 0; }
  void raise(uint32_t component, WorkTime time) {
    if (component >= times_.size()) times_.resize(component + 1, 0);
    times_[component] = std::max(times_[component], time);
  }
  void join(const WorkClock& other) {
    std::vector<Missed> missed;
    for (const Missed& each : missed_) {
      if (!other.knows(each.component, each.time)) missed.push_back(each);
    }
    for (const Missed& each : other.missed_) {
      if (at(each.component) < each.time) missed.push_back(each);
    }
    missed_ = std::move(missed);
    for (size_t i = 0; i < other.times_.size(); ++i) raise(static_cast<uint32_t>(i), other.times_[i]);
  }
  /// A work may still be under way, though the one of the same stream with time `by`, which is known to have ended,
  /// came later.
  void miss(uint32_t component, WorkTime time, WorkTime by) {
    if (missed_by(component, time) == 0) missed_.push_back({component, time, by});
  }
  /// All works of a component up to its time have ended.
  void miss_none(uint32_t component) {
    std::erase_if(missed_, [&](const Missed& each) { return each.component == component; });
  }

 private:
  struct Missed {
    uint32_t component;
    WorkTime time, by;
  };

  std::vector<Missed> missed_;
  std::vector<WorkTime> times_;
};

/// A work that begins: which one of its stream it is, and which works have ended by then.
struct WorkStart {
  uint32_t component = 0;
  WorkTime time = 0;
  WorkClock known;
  WorkClock known_to_host;  ///< and so to all works that begin later
  /// It may begin before the kernel before it in its stream has ended (programmatic stream serialisation). Until it
  /// executes griddepcontrol.wait only these works have ended.
  bool may_overlap = false;
  WorkClock known_before_wait;
  std::string stream;  ///< as reports name it: "the legacy default stream", "stream 4"
};

/// What a stream knows.
struct StreamOrder {
  uint32_t component = 0;   ///< 0: none yet
  WorkTime time = 0;        ///< works so far
  WorkClock known;          ///< which works have ended when its next one begins
  WorkClock awaited;        ///< those of events that it has waited for since its last work
  WorkClock at_last_start;  ///< known when its last work could begin
  bool last_is_kernel = false;
  bool last_overlaps = false;         ///< it may have begun before the one before it had ended
  bool last_lets_next_start = false;  ///< by griddepcontrol.launch_dependents
};

}  // namespace stagecraft::emulator::checks
