// The causes of a deadlock, as rules: one table, in the order in which they are tried.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/checks/deadlock/sleepers.hpp"

namespace stagecraft::emulator::checks {

/// What a group waits for, and how far that has come. A rule is for one situation or several.
enum Situation : uint32_t {
  kNoSituation = 0,
  kRegisters = 1u << 0,
  kTensorMemory = 1u << 1,
  kBlockPair = 1u << 2,  ///< the same instruction by a warp of the peer
  kNamedBarrier = 1u << 3,
  kWarpgroup = 1u << 4,  ///< the other warps of the warpgroup
  kClusterBarrier = 1u << 5,
  kWarp = 1u << 6,  ///< other lanes of the warp
  // An mbarrier:
  kInitialisedTwice = 1u << 7,  ///< at two places, for different counts
  kBytesMissing = 1u << 8,      ///< all have arrived
  kBytesSurplus = 1u << 9,      ///< more bytes came than were announced
  kPhasesOverrun = 1u << 10,    ///< the lanes of one instruction have ended several phases
  kArrivalsMissing = 1u << 11,  ///< some have arrived in this phase
  kLaterPhase = 1u << 12,       ///< nothing has happened since a phase ended
  // An mbarrier at which nobody has ever arrived:
  kFirstWaitPassed = 1u << 13,  ///< somebody's first wait for it passed at once, as a producer's does
  kOthersEnded = 1u << 14,      ///< all who sleep wait for it
  kOthersSleep = 1u << 15,      ///< some sleep elsewhere
};

/// How much a cause is worth: of several waits at which a chain ends, the report is about the one of greatest weight.
enum class Weight : uint8_t {
  none,         ///< no rule knows anything
  held_up,      ///< others of its warp, which wait elsewhere, hold it up
  cluster,      ///< somebody does not come to the barrier of the whole cluster
  absence,      ///< somebody does not come, and nothing tells who
  two_sides,    ///< as before, and other waits depend on it
  slot,         ///< other barriers tell what the wait is meant for
  rounds,       ///< what threads have done before tells where they lost step
  wrong_place,  ///< the wait, or the instruction, is in a wrong place
  count,        ///< some arrivals came, and not all
  state,        ///< the state of what is waited for is itself the mistake
};

struct Rule {
  uint32_t situations;
  /// Says why the group's wait does not end; empty where the rule does not apply.
  std::string (*explain)(const Sleepers& sleepers, const Group& group);
  Weight weight;
  /// The test that pins it: the rule explains one of its deadlocks.
  std::string_view test;
  /// Its weight for an mbarrier that has completed a phase: the thread that brings the rest may wait elsewhere.
  Weight later_weight = weight;
};

/// All rules. The first for a situation that applies is taken.
std::span<const Rule> rules();

/// Why a group waits.
struct Explanation {
  const Group* group = nullptr;
  const Rule* rule = nullptr;  ///< null: none applies
  Weight weight = Weight::none;
  std::string text{};
};

/// Explains all groups: the roots first, and among these the wait that says most about the mistake.
std::vector<Explanation> explain(const Sleepers& sleepers);

}  // namespace stagecraft::emulator::checks
