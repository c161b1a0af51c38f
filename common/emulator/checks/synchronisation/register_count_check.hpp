// Finds uses of setmaxnreg that PTX leaves undefined: by some warps of a warpgroup only, with different counts in one
// warpgroup, again before the other warps have come, and in the wrong direction.
//
// PTX ISA, "setmaxnreg". That one asks for more than a block has is a deadlock, which DeadlockCheck explains.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "emulator/checks/reporting/finding_log.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::checks {

class RegisterCountCheck final : public machine::Observer {
 public:
  void grid_started(const machine::Grid& grid) override;
  void registers_changed(const machine::RegisterChange& event) override;
  void block_finished(const machine::Block& block) override;
  std::vector<machine::Finding> findings() override { return findings_.take(); }

 private:
  struct Change {
    uint32_t pc;
    bool increases;
    uint32_t count;
  };
  using Changes = std::vector<std::vector<Change>>;  ///< by warp

  void report(const machine::Block& block, uint32_t before_pc, uint32_t now_pc, machine::Diagnostic finding);

  std::map<const machine::Block*, Changes> changes_;  ///< of blocks that run and have executed one
  FindingLog findings_;
};

}  // namespace stagecraft::emulator::checks
