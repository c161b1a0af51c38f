// Which interleavings of a launch are still to be run, so that each other one is equivalent to one that was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "emulator/exploration/steps.hpp"

namespace stagecraft::emulator::exploration {

/// What a run follows: who goes on first, and whose next steps would repeat what another run has done.
struct Guide {
  std::vector<Actor> prefix;
  std::map<Actor, Step>
      asleep;  ///< before the last step of the prefix: from there on, each until a step conflicts with it
};

/// The search: dynamic partial-order reduction (C. Flanagan and P. Godefroid, 2005) with sleep sets (P. Godefroid,
/// 1996).
///
/// Idle steps, which a loop takes in vain, change nothing (idle_turns.hpp). So they order nothing, and a run goes on
/// behind them as if they had not been: a write after the first of them need not be run before it, because the loop
/// will read again. Where something comes between the steps of one repetition, the loop sees the old value of one thing
/// and the new one of another. So the steps after the first race with later writes as others do.
class Interleavings {
 public:
  /// Returns how the next run goes; nullopt when all have been run. `add` must follow.
  std::optional<Guide> next();
  /// Takes what the run did. It begins with the guide's prefix.
  void add(const Trace& trace);

 private:
  /// A state, and the step from it that is being explored.
  struct Node {
    Step step;
    std::set<Actor> to_do;
    std::map<Actor, Step> done;    ///< those explored before
    std::map<Actor, Step> asleep;  ///< when the state was reached
    std::vector<bool> before{};    ///< by earlier step: whether it comes before this one in every equivalent run
  };

  /// @param first  the first step that is not as it was in the run before.
  void find_races(size_t first);
  /// Sees to a run in which the second of two steps that race comes first.
  void reverse(size_t first, size_t second);

  std::vector<Node> path_;
  bool has_begun_ = false;
};

/// Removes the actors from a sleep set that a step wakes.
void wake(std::map<Actor, Step>& asleep, const Step& step);

}  // namespace stagecraft::emulator::exploration
