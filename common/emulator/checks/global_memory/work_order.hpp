// What orders the works of a program: kernels, copies and fills, by streams, events and the host's waits.
//
// Each stream is a component of a WorkClock, and each of its works a time. What the emulated GPU does at once a chip
// may do later and at the same time as other works, unless their order says otherwise. All threads of the host count as
// one, in the order of their calls, because nothing shows how they wait for each other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace stagecraft::emulator::checks {

using WorkTime = uint32_t;

/// How many works of each stream have ended, as far as that is known somewhere.
class WorkClock {
 public:
  WorkTime at(uint32_t component) const { return component < times_.size() ? times_[component] : 0; }
  void raise(uint32_t component, WorkTime time) {
    if (component >= times_.size()) times_.resize(component + 1, 0);
    times_[component] = std::max(times_[component], time);
  }
  void join(const WorkClock& other) {
    for (size_t i = 0; i < other.times_.size(); ++i) raise(static_cast<uint32_t>(i), other.times_[i]);
  }

 private:
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
};

}  // namespace stagecraft::emulator::checks
