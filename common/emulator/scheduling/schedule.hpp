// Schedules other than the default one: as a list of switches, drawn at random, recorded, and replayed.
//
// A schedule is what virtual time makes of a launch, except for its switches. Each belongs to one choice of one warp:
// "from its 17th choice on, warp 1 has its turns as if its clock were 4096 cycles later". What a warp is asked depends
// on its own instructions much more than on what others do. So a switch means the same when others are left out, and a
// long list that shows a mistake can be shrunk to the few that matter (shrinking.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "emulator/state/choices.hpp"
#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

/// One deviation from the default schedule.
struct Switch {
  uint64_t cluster = 0;  ///< number of its first block in the grid, x fastest
  uint32_t warp = 0;     ///< in the cluster
  uint32_t choice = 0;   ///< how often Choices had been asked about the warp before
  /// Depends on the question: the lag of the warp's turns, in cycles, or how much later than usual an operation takes
  /// effect. 1: no lag, at once. For other questions, yes.
  uint64_t amount = 1;
  bool operator==(const Switch&) const = default;
};
using Schedule = std::vector<Switch>;

/// Returns "w1.17+4096,c8w0.3": warp 1 of cluster 0, its choice 17, 4096 cycles; warp 0 of the cluster whose first
/// block has number 8, its choice 3, amount 1. Empty for the default schedule.
std::string text_of(const Schedule& schedule);
/// Reads what text_of returns; nullopt for anything else.
std::optional<Schedule> parse_schedule(std::string_view text);

/// Follows a list of switches, or draws them, and records those that it has made.
class ChosenSchedule : public Choices {
 public:
  /// Replays.
  explicit ChosenSchedule(const Schedule& plan);
  /// Draws. Every second run is by probabilistic concurrency testing (S. Burckhardt et al., "A randomized scheduler
  /// with probabilistic guarantees of finding bugs", 2010): warps have random priorities, and at most three times in
  /// each cluster, at random, the one that had its turn gets the lowest. In the others warps are held back for random
  /// times at a random rate.
  /// @param run     number of the run, which with the seed decides everything.
  /// @param points  turns that a cluster has in the default schedule, at most.
  /// @param lanes   whether lanes of a warp may stand aside.
  ChosenSchedule(uint64_t seed, uint64_t run, uint64_t points, bool lanes);

  void turn_ended(Warp& warp) override;
  bool stands_aside(const Fragment& fragment) override;
  Cycle completion(const Fragment& issuer, Cycle usual) override;
  bool gives_up(const Fragment& fragment) override;

  /// The switches so far.
  const Schedule& made() const { return made_; }
  /// Each of them as a sentence: "warp 1 is held back before mbarrier.try_wait at ring.cu:41".
  const std::vector<std::string>& sentences() const { return sentences_; }
  /// Lanes of a warp were at different places.
  bool parts_lanes() const { return parts_lanes_; }
  /// The most turns that a cluster has had.
  uint64_t points() const;

 private:
  /// What is particular to a run at random; rates are out of 256.
  struct Manner {
    bool has_priorities = false;
    uint32_t lowered = 0;  ///< with priorities: how often one becomes the lowest
    uint32_t turns = 0, completions = 0, lanes = 0, polls = 0;
  };
  struct ClusterState {
    uint64_t turns = 0;
    std::vector<uint64_t> lowered_at;  ///< turns after which a priority becomes the lowest, falling
    uint64_t lowered = 0;              ///< how many have
  };

  /// Returns the amount of the warp's next choice if the plan has it, or else that which `draw` returns; 0 for the
  /// default.
  template <typename Draw>
  uint64_t decide(Warp& warp, Draw draw);
  uint64_t draw_turn(const Warp& warp, ClusterState& cluster);
  uint64_t draw_cycles();
  bool chance(uint32_t of_256) { return random_() % 256 < of_256; }
  template <typename Sentence>
  void note(Sentence sentence);

  bool draws_ = false, parts_lanes_ = false;
  Manner manner_;
  uint64_t points_ = 0;
  std::mt19937_64 random_;
  std::map<std::tuple<uint64_t, uint32_t, uint32_t>, uint64_t> plan_;
  std::unordered_map<uint64_t, ClusterState> clusters_;  ///< by number
  Schedule made_;
  std::vector<std::string> sentences_;
};

}  // namespace stagecraft::emulator::machine
