// What a launch asks where PTX leaves it open what happens next. Without anybody to ask, the default schedule runs:
// virtual time decides everything.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "emulator/state/event_queue.hpp"

namespace stagecraft::emulator::machine {

struct Cluster;
struct Fragment;
struct Warp;

/// What can go on: a warp, or an event.
struct Candidate {
  Cluster* cluster = nullptr;
  Warp* warp = nullptr;
  const Event* event = nullptr;
  size_t index = 0;           ///< of the event in the cluster's queue
  bool will_be_idle = false;  ///< of a warp: Choices has said so
};

/// Answers for one run of a grid, which then is one part and runs on one thread. Whatever the answers are, the schedule
/// is a legal one: everything that can go on does so at some time.
class Choices {
 public:
  virtual ~Choices() = default;
  /// Called when a warp has started, and after each of its turns, which end before and after the instructions that
  /// others can notice (OrderedPlace::visible). May set `warp.lag`.
  virtual void turn_ended(Warp& warp) = 0;
  /// Returns whether these lanes, which would be next in their warp, let its other lanes that are ready go first, and
  /// do not meet them before those have ended, or wait.
  virtual bool stands_aside(const Fragment& fragment) = 0;
  /// Returns after how many cycles an asynchronous operation that the fragment issues takes effect; `usual` is the
  /// default. Operations that PTX orders keep their order.
  virtual Cycle completion(const Fragment& issuer, Cycle usual) = 0;
  /// Returns whether a try_wait gives up at once: the phase that it waits for has not ended.
  virtual bool gives_up(const Fragment& fragment) = 0;

  /// Whether it decides itself what goes on: then `next` is asked before each turn and each event, and virtual time
  /// decides nothing.
  virtual bool decides_next() const { return false; }
  /// Whether a warp that could go on would repeat itself until something else goes on. It then is a candidate that
  /// `next` must not choose, and where there is no other, the run ends as one that cannot end.
  virtual bool will_be_idle([[maybe_unused]] const Warp& warp) const { return false; }
  /// Returns the index of what goes on; nullopt ends the run.
  virtual std::optional<size_t> next([[maybe_unused]] const std::vector<Candidate>& candidates) { return 0; }
};

}  // namespace stagecraft::emulator::machine
