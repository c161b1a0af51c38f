// Runs launches under other legal schedules than the default one (STAGECRAFT_EXPLORE).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "emulator/exploration/coverage.hpp"
#include "emulator/machine/machine.hpp"

namespace stagecraft::emulator::exploration {

/// What an exploration needs of a launch.
struct ExploredLaunch {
  machine::Machine& machine;
  const machine::LaunchRequest& request;
  uint64_t number = 1;              ///< in the process, from 1 on
  uint64_t interleavings = 0;       ///< runs at most, one an interleaving, instead of schedules; 0: schedules
  uint64_t schedules = 1;           ///< how many are run
  uint32_t threads = 1;             ///< of the host: that many schedules run at a time
  machine::Cycle limit_cycles = 0;  ///< of the default schedule; 0: none
  bool lanes = false;               ///< lanes of a warp need not meet behind a branch
  bool tolerates = false;           ///< what the chip carries on with is no mistake
  bool overlaps = false;            ///< it may begin before the one before it has ended
  bool checks_global = false;       ///< races in global memory are found
  bool in_one_part = false;         ///< also in the default schedule: the observers are of the whole grid
  std::function<std::vector<std::unique_ptr<machine::Observer>>()> observers{};  ///< made for each run
  const std::atomic<bool>* interrupted = nullptr;                                ///< stops it; null: never
  std::function<void(const machine::Diagnostic&)> report{};                      ///< called for each mistake
};

/// Explores the launches of a process, each before it runs itself, and counts.
///
/// Each run is in a copy of the process (launch_copy.hpp). So all of them see memory as the launch will, and the
/// program sees one launch only, in the default schedule.
class Exploration {
 public:
  /// Runs a launch under other schedules. Reports each mistake that the default schedule does not show, in
  /// the fewest switches that show it, with the option that replays them. A launch that the default schedule stops is
  /// not explored. Throws std::system_error when the host does not let the process copy itself.
  ///
  /// Or runs a launch under all interleavings of its synchronisation that are not equivalent (interleavings.hpp), until
  /// one fails. What commutes is not run in both orders; a race is found in either.
  /// @return whether something was reported
  bool explore(const ExploredLaunch& launch);

  /// What the last launch showed in other schedules, and follows from what it shows in the default one; each once.
  std::vector<machine::Diagnostic> take_consequences();

  /// Whether a launch was explored.
  bool has_launches() const { return launches_ != 0; }
  /// "explored 200 schedules: nothing found", or what was found; and what was not varied.
  std::string text() const;
  nlohmann::json json() const;

 private:
  friend class LaunchExploration;
  std::string text_of_schedules() const;
  std::string text_of_interleavings() const;
  /// "nothing found", where nothing new was.
  std::string nothing() const;

  uint64_t schedules_ = 0;  ///< of each launch
  uint64_t launches_ = 0, runs_ = 0;
  uint64_t skipped_ = 0;   ///< launches that the default schedule stops
  uint64_t failed_ = 0;    ///< runs
  uint64_t cut_off_ = 0;   ///< runs that took too long in virtual time
  uint64_t mistakes_ = 0;  ///< different ones
  uint64_t usual_ = 0;     ///< those that the default schedules show
  bool all_ = false;       ///< all interleavings, not schedules
  uint64_t interleavings_ = 0;
  uint64_t incomplete_ = 0;  ///< launches with more interleavings than were run to their end
  bool was_interrupted_ = false;
  Coverage coverage_;
  std::vector<machine::Diagnostic> consequences_;
};

}  // namespace stagecraft::emulator::exploration
