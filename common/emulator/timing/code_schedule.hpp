// How long a piece of straight code takes a warp that is alone on its sub-partition.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/timing/chip_model.hpp"
#include "emulator/timing/trace.hpp"

namespace stagecraft::emulator::timing {

/// Instructions between two places where the warp may have to wait for loads.
struct CodePart {
  uint32_t pc = 0;                     ///< its first instruction
  std::vector<uint32_t> needs;         ///< registers that loads may still have to fill
  double cycles = 0;                   ///< when alone
  std::array<double, kPipes> pipes{};  ///< cycles of each pipe
  uint32_t instructions = 0;
};

class CodeSchedule {
 public:
  CodeSchedule(const Code& code, const ChipModel& chip);
  /// The parts of the instructions `first` to `last`. Each instruction issues when its operands are there, and
  /// meanwhile those that follow it in the same straight code.
  const std::vector<CodePart>& parts(uint32_t first, uint32_t last, RunEnd end = RunEnd::other);
  /// The first place in its piece of straight code to which ptxas may move an instruction with those that compute what
  /// it needs: no other load's result is needed between, and for a load there lie no stores to its memory and no
  /// barriers between. Stores and atomic operations stay where they are.
  uint32_t earliest(uint32_t pc) const { return earliest_[pc]; }
  /// The first instruction of the straight code that an instruction is a part of.
  uint32_t piece(uint32_t pc) const { return piece_[pc]; }

 private:
  using Pipes = std::array<double, kPipes>;
  /// When the instructions of a piece of straight code issue in a warp that is alone, in cycles from its beginning.
  struct PieceTimes {
    std::vector<double> begin, end;              ///< by instruction: of its issue
    std::vector<double> through;                 ///< the latest end up to and including it
    std::vector<double> known;                   ///< when its operands could be there
    std::vector<std::pair<double, Pipes>> used;  ///< of the pipes, until the end of each instruction; by time
  };
  std::vector<CodePart> schedule(uint32_t first, uint32_t last, RunEnd end);
  const PieceTimes& times_of(uint32_t piece);
  PieceTimes issue_times(uint32_t piece, uint32_t behind) const;
  void find_earliest();

  const Code& code_;
  const ChipModel& chip_;
  std::vector<bool> loaded_;                ///< by register: some load writes it
  std::vector<uint32_t> earliest_, piece_;  ///< by pc
  std::unordered_map<uint64_t, std::vector<CodePart>> parts_;
  std::unordered_map<uint32_t, PieceTimes> times_;  ///< by first instruction
};

}  // namespace stagecraft::emulator::timing
