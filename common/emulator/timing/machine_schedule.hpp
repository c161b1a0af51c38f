// How long a warp that is alone on its sub-partition takes for its machine code, where a program has that.
//
// The model replays what PTX instructions did. Machine code is in *blocks*, which only a branch or a barrier of the PTX
// begins or ends, and each piece of straight PTX code belongs to the block that has most of what ptxas made of it. A
// warp that comes to such a piece executes the block: the accesses that it makes meanwhile happen where the block has
// them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "emulator/timing/chip_model.hpp"
#include "emulator/timing/code_schedule.hpp"
#include "emulator/timing/trace.hpp"

namespace stagecraft::emulator::timing {

/// Machine instructions of a block between two places where the warp waits for memory, or asks something of it.
struct MachinePart {
  uint8_t waits = 0;  ///< a bit for each scoreboard that must be free before it begins
  CodePart code;
  uint32_t access = MachineInstruction::kNone;         ///< what its last instruction loads or stores: the pc in the PTX
  uint8_t result = MachineInstruction::kNoScoreboard;  ///< what that access holds
  std::vector<std::pair<uint8_t, double>> held;        ///< other scoreboards, and for how many cycles from its end on
};

struct MachineBlock {
  std::vector<MachinePart> parts;
  std::vector<MachinePart> sum;  ///< one part with all their instructions
  /// The PTX instructions whose accesses are in it, in rising order.
  std::vector<uint32_t> accesses;
};

class MachineSchedule {
 public:
  /// @param pieces  knows the pieces of the PTX code.
  MachineSchedule(const Code& code, const MachineCode& machine_code, const CodeSchedule& pieces, const ChipModel& chip);
  /// The block of the piece of PTX code that an instruction is a part of; null where it needs no machine code.
  const MachineBlock* block_of(uint32_t pc) const { return block_of_[pc]; }
  /// Which part of its block the piece that an instruction belongs to is, by the number of instructions; and how often
  /// the block has the piece, as where ptxas has unrolled a loop.
  double share_of(uint32_t pc) const { return share_of_[pc]; }
  uint32_t copies_of(uint32_t pc) const { return copies_of_[pc]; }
  /// The scoreboard that the access of a PTX instruction holds.
  uint8_t scoreboard_of(uint32_t pc) const { return scoreboard_of_[pc]; }
  /// Whether a branch of the PTX code is one in the machine code, too.
  bool branches_at(uint32_t pc) const { return branches_at_[pc]; }

 private:
  struct Range {
    uint32_t first, behind;
  };
  std::vector<Range> find_ranges() const;
  std::vector<uint32_t> find_depths() const;
  void give_pieces(const std::vector<Range>& ranges, const CodeSchedule& pieces);
  void count_shares(const Range& range, const MachineBlock* block, const CodeSchedule& pieces);
  void schedule(const Range& range, MachineBlock& block) const;

  const Code& code_;
  const MachineCode& machine_code_;
  const ChipModel& chip_;
  std::vector<std::unique_ptr<MachineBlock>> blocks_;  ///< by range
  std::vector<const MachineBlock*> block_of_;          ///< by pc
  std::vector<double> share_of_;                       ///< by pc, of one copy
  std::vector<uint32_t> copies_of_;                    ///< by pc
  std::vector<uint8_t> scoreboard_of_;                 ///< by pc
  std::vector<bool> branches_at_;                      ///< by pc
};

}  // namespace stagecraft::emulator::timing
