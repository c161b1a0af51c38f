// What an exploration leaves as it is, though PTX lets it vary: where that could change what a launch does, running all
// that is varied proves nothing.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

#include "emulator/exploration/launch_copy.hpp"
#include "emulator/machine/machine.hpp"

namespace stagecraft::emulator::exploration {

struct ExploredLaunch;

class Coverage {
 public:
  /// Notes what is not varied in a launch, whatever its runs do.
  void add(const ExploredLaunch& launch);
  /// Notes what one of its runs has shown.
  void add(const ExploredLaunch& launch, const CopyOutcome& outcome);

  bool is_complete() const { return parts_.empty() && registers_.empty(); }
  /// "\n  not varied: ...", to follow what an exploration says; empty: it is complete.
  std::string text() const;
  nlohmann::json json() const;

 private:
  std::set<std::string> all() const;

  std::set<std::string> parts_;
  std::set<std::string> registers_;  ///< "%smid"
};

}  // namespace stagecraft::emulator::exploration
