// One run in which a search decides what goes on; it records the steps.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/exploration/idle_turns.hpp"
#include "emulator/exploration/interleavings.hpp"
#include "emulator/exploration/steps.hpp"
#include "emulator/state/choices.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::exploration {

class DecidedRun : public machine::Choices {
 public:
  /// @param most_steps  after so many, the run ends.
  DecidedRun(Guide guide, size_t most_steps) : guide_(std::move(guide)), most_steps_(most_steps) {}

  bool decides_next() const override { return true; }
  std::optional<size_t> next(const std::vector<machine::Candidate>& candidates) override;
  void turn_ended(machine::Warp& warp) override;
  bool will_be_idle(const machine::Warp& warp) const override { return idle_turns_.will_be_idle(warp); }
  bool stands_aside(const machine::Fragment&) override {
    parts_lanes_ = true;
    return false;
  }
  machine::Cycle completion(const machine::Fragment& issuer, machine::Cycle usual) override;
  bool gives_up(const machine::Fragment& fragment) override;

  /// What notes what the steps touch; it must be among the observers of the run, and not live longer than this.
  std::unique_ptr<machine::Observer> make_observer();

  const Trace& trace() const { return trace_; }
  /// It ended because what could go on has been run already.
  bool is_redundant() const { return is_redundant_; }
  /// It ended because an actor could not go on that could, at the same place, in the run that it repeats.
  bool has_diverged() const { return has_diverged_; }
  /// Lanes of a warp were at different places.
  bool parts_lanes() const { return parts_lanes_; }
  /// A try_wait that no loop repeats might have answered false.
  bool tries_once() const { return tries_once_; }
  /// It ended because it had too many steps.
  bool is_too_long() const { return is_too_long_; }

 private:
  class Notes;

  Actor actor_of(const machine::Candidate& candidate);
  /// Returns which of the enabled ones goes on; nullopt ends the run.
  std::optional<size_t> choose(const Step& step) const;
  /// Adds to the step that is under way.
  void note(Touch touch);
  /// Adds to the step of a warp that is under way, or to its next.
  void note_for(const machine::Warp& warp, Touch touch);
  /// Marks the last steps of a warp as idle.
  void mark_idle(Actor actor, uint32_t steps);
  /// Adds what a warp asks that may be answered with no, at the start of its step.
  static void note_questions(const machine::Warp& warp, Step& step);

  Guide guide_;
  size_t most_steps_;
  Trace trace_;
  bool is_redundant_ = false, has_diverged_ = false, is_too_long_ = false;
  bool parts_lanes_ = false, tries_once_ = false;
  struct Origin {
    Actor actor;
    uint32_t step;
  };
  /// Who began an event, by the event's cluster and sequence.
  std::map<std::pair<const machine::Cluster*, uint64_t>, Origin> origins_;
  std::unordered_map<const void*, uint32_t> last_in_order_;  ///< steps
  std::map<Actor, std::vector<Touch>> later_;
  IdleTurns idle_turns_;
  uint64_t effects_ = 0;      ///< of the grid, when the last step began
  std::set<Actor> spinning_;  ///< warps whose last turns were idle
};

}  // namespace stagecraft::emulator::exploration
