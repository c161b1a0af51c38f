#include "emulator/timing/machine_schedule.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

namespace stagecraft::emulator::timing {
namespace {

constexpr uint32_t kNone = MachineInstruction::kNone;

/// Cycles for which a load or a store holds the scoreboard of its operands, at least. Not measured.
constexpr double kReadOperands = 12;

/// An access or a product weighs more than other instructions where it is decided to which block a piece belongs:
/// ptxas moves these.
constexpr double kWeightOfAccess = 50, kWeightOfFree = 0.2;

bool is_control(const Code& code, uint32_t pc) { return pc != kNone && code[pc].kind == InstructionClass::control; }

bool separates(InstructionClass kind) {
  return kind == InstructionClass::control || kind == InstructionClass::barrier || kind == InstructionClass::fence;
}

/// The two banks of a sub-partition's registers, of which each reads one register a cycle. An instruction issues when
/// it can read all of its operands without a pause; the bank of which it reads less may begin later than the other.
/// Source: the costs that tests/silicon/register_banks.cu measured, also of conflicts in turn.
class RegisterBanks {
 public:
  /// When an instruction that could issue at some time does.
  double issue(double at, const std::array<uint8_t, 2>& reads) {
    const int most = std::max(reads[0], reads[1]);
    for (size_t bank = 0; bank < reads.size(); ++bank) {
      if (reads[bank] != 0) at = std::max(at, free_at_[bank] - (most - reads[bank]));
    }
    for (size_t bank = 0; bank < reads.size(); ++bank) {
      if (reads[bank] != 0) free_at_[bank] = std::max(at, free_at_[bank]) + reads[bank];
    }
    return at;
  }
  void begin_again(double at) {
    for (double& each : free_at_) each = std::max(each - at, 0.);
  }

 private:
  std::array<double, 2> free_at_{};
};

}  // namespace

MachineSchedule::MachineSchedule(const Code& code, const MachineCode& machine_code, const CodeSchedule& pieces,
                                 const ChipModel& chip)
    : code_(code),
      machine_code_(machine_code),
      chip_(chip),
      block_of_(code.size()),
      share_of_(code.size(), 0),
      copies_of_(code.size(), 1),
      scoreboard_of_(code.size(), MachineInstruction::kNoScoreboard),
      branches_at_(code.size()) {
  for (const MachineInstruction& each : machine_code) {
    if (each.accesses && each.pc != kNone) scoreboard_of_[each.pc] = each.result;
    if (each.branches && each.pc != kNone) branches_at_[each.pc] = true;
  }
  const std::vector<Range> ranges = find_ranges();
  for (size_t i = 0; i < ranges.size(); ++i) blocks_.push_back(std::make_unique<MachineBlock>());
  give_pieces(ranges, pieces);
  for (size_t i = 0; i < ranges.size(); ++i) {
    MachineBlock& block = *blocks_[i];
    count_shares(ranges[i], &block, pieces);
    schedule(ranges[i], block);
    std::sort(block.accesses.begin(), block.accesses.end());
    CodePart& sum = block.sum.emplace_back().code;
    if (!block.parts.empty()) sum.pc = block.parts.front().code.pc;
    for (const MachinePart& part : block.parts) {
      sum.cycles += part.code.cycles;
      for (size_t pipe = 0; pipe < kPipes; ++pipe) sum.pipes[pipe] += part.code.pipes[pipe];
    }
  }
}

std::vector<MachineSchedule::Range> MachineSchedule::find_ranges() const {
  const auto count = static_cast<uint32_t>(machine_code_.size());
  std::vector<bool> begins(count + 1);
  begins[0] = begins[count] = true;
  for (uint32_t i = 0; i < count; ++i) {
    const MachineInstruction& instruction = machine_code_[i];
    // ptxas's own branches, such as those around the functions of divisions, do not end a block.
    const bool of_ptx = is_control(code_, instruction.pc);
    const bool goes_back = instruction.target != kNone && instruction.target <= i;
    if (instruction.target != kNone && (of_ptx || goes_back)) begins[instruction.target] = true;
    if ((instruction.branches && (of_ptx || goes_back)) || instruction.ends) begins[i + 1] = true;
    const bool synchronises =
        instruction.kind == InstructionClass::barrier || instruction.kind == InstructionClass::fence;
    if (synchronises && instruction.pc != kNone && separates(code_[instruction.pc].kind)) begins[i + 1] = true;
  }
  std::vector<Range> ranges;
  for (uint32_t i = 0, first = 0; i < count; ++i) {
    if (!begins[i + 1]) continue;
    ranges.push_back({first, i + 1});
    first = i + 1;
  }
  return ranges;
}

std::vector<uint32_t> MachineSchedule::find_depths() const {
  std::vector<uint32_t> depths(machine_code_.size(), 0);
  for (uint32_t i = 0; i < machine_code_.size(); ++i) {
    const uint32_t target = machine_code_[i].target;
    if (target == kNone || target >= i) continue;
    for (uint32_t k = target; k <= i; ++k) ++depths[k];
  }
  return depths;
}

void MachineSchedule::give_pieces(const std::vector<Range>& ranges, const CodeSchedule& pieces) {
  const std::vector<uint32_t> depths = find_depths();
  std::unordered_map<uint32_t, std::map<size_t, double>> votes;  // by piece and range
  for (size_t range = 0; range < ranges.size(); ++range) {
    for (uint32_t i = ranges[range].first; i < ranges[range].behind; ++i) {
      const uint32_t pc = machine_code_[i].pc;
      if (pc == kNone) continue;
      const InstructionClass kind = code_[pc].kind;
      const bool multiplies = chip_.costs[static_cast<size_t>(kind)].pipe == Pipe::matrix;
      const bool weighs = machine_code_[i].accesses || multiplies || separates(kind);
      votes[pieces.piece(pc)][range] += weighs ? kWeightOfAccess : kind == InstructionClass::free ? kWeightOfFree : 1;
    }
  }
  std::unordered_map<uint32_t, const MachineBlock*> chosen;  // by piece
  for (const auto& vote : votes) {
    const std::map<size_t, double>& of_ranges = vote.second;
    double most = 0;
    for (const auto& [range, weight] : of_ranges) most = std::max(most, weight);
    size_t best = ranges.size();
    // The copy that is deeper in loops comes first.
    const auto rank = [&](size_t range) { return std::pair(depths[ranges[range].first], of_ranges.at(range)); };
    for (const auto& [range, weight] : of_ranges) {
      if (weight * 2 >= most && (best == ranges.size() || rank(range) > rank(best))) best = range;
    }
    chosen.emplace(vote.first, blocks_[best].get());
  }
  for (uint32_t pc = 0; pc < code_.size(); ++pc) {
    const auto found = chosen.find(pieces.piece(pc));
    if (found != chosen.end()) block_of_[pc] = found->second;
  }
}

void MachineSchedule::count_shares(const Range& range, const MachineBlock* block, const CodeSchedule& pieces) {
  // How often the block has what the PTX has once: accesses and operations on floats.
  std::unordered_map<uint32_t, uint32_t> accesses, floats;  // by pc
  std::unordered_map<uint32_t, double> instructions;        // by piece
  double all = 0;
  for (uint32_t i = range.first; i < range.behind; ++i) {
    const MachineInstruction& instruction = machine_code_[i];
    if (instruction.pc == kNone || block_of_[instruction.pc] != block) continue;
    if (instruction.accesses) ++accesses[instruction.pc];
    if (instruction.kind == InstructionClass::float32 && code_[instruction.pc].kind == InstructionClass::float32) {
      ++floats[instruction.pc];
    }
    ++instructions[pieces.piece(instruction.pc)];
    ++all;
  }
  // The middle of a piece: ptxas leaves some out of copies, and joins loads of others.
  const auto middle = [&](const auto& counts) {
    std::unordered_map<uint32_t, std::vector<uint32_t>> of_pieces;
    for (const auto& [pc, count] : counts) of_pieces[pieces.piece(pc)].push_back(count);
    std::unordered_map<uint32_t, uint32_t> middles;
    for (auto& of_piece : of_pieces) {
      std::vector<uint32_t>& all = of_piece.second;
      std::sort(all.begin(), all.end());
      middles.emplace(of_piece.first, all[(all.size() - 1) / 2]);
    }
    return middles;
  };
  const auto of_accesses = middle(accesses), of_floats = middle(floats);
  for (uint32_t pc = 0; pc < code_.size(); ++pc) {
    if (block_of_[pc] != block) continue;
    const uint32_t piece = pieces.piece(pc);
    // Loads may be joined with those of other copies, and sums are not.
    for (const auto* const of_pieces : {&of_accesses, &of_floats}) {
      const auto found = of_pieces->find(piece);
      if (found != of_pieces->end()) copies_of_[pc] = std::max(copies_of_[pc], found->second);
    }
    share_of_[pc] = instructions[piece] / all / copies_of_[pc];
  }
}

void MachineSchedule::schedule(const Range& range, MachineBlock& block) const {
  constexpr uint32_t kScoreboards = MachineInstruction::kScoreboards;
  std::array<double, kPipes> free_at{};
  std::array<double, kScoreboards> held_until{};
  // A bit for each scoreboard: when it is free depends on an access, of this block, or of what came before it.
  uint32_t depends_on_memory = (1u << kScoreboards) - 1, held_by_access = 0;
  double now = 0;
  // Others of the sub-partition issue where this warp pauses, so banks are also looked at as if it never did.
  RegisterBanks banks, banks_of_many;
  double issued = 0;
  MachinePart part;
  const auto close = [&] {
    part.code.pipes[static_cast<size_t>(Pipe::issue)] = issued;
    part.code.cycles = now;
    for (const double cycles : part.code.pipes) part.code.cycles = std::max(part.code.cycles, cycles);
    for (uint8_t board = 0; board < kScoreboards; ++board) {
      if (held_until[board] <= now) continue;
      part.held.emplace_back(board, held_until[board] - now);
      depends_on_memory |= 1u << board;
    }
    for (double& each : free_at) each = std::max(each - now, 0.);
    held_until.fill(0);
    banks.begin_again(now);
    banks_of_many.begin_again(issued);
    now = issued = 0;
    block.parts.push_back(std::move(part));
    part = {};
  };
  for (uint32_t i = range.first; i < range.behind; ++i) {
    const MachineInstruction& instruction = machine_code_[i];
    // What ptxas branches around is for numbers that are not ordinary, if it calls a function.
    if (instruction.branches && !is_control(code_, instruction.pc) && instruction.target != kNone &&
        instruction.target > i && instruction.target < range.behind &&
        std::any_of(machine_code_.begin() + i, machine_code_.begin() + instruction.target,
                    [](const MachineInstruction& each) { return each.calls; })) {
      i = instruction.target - 1;
    }
    const uint32_t waits = instruction.waits & depends_on_memory;
    if (waits != 0) {
      if (part.code.instructions != 0) close();
      part.waits |= static_cast<uint8_t>(waits);
      depends_on_memory &= ~waits;
      held_by_access &= ~waits;
    }
    const InstructionCost& cost = chip_.costs[static_cast<size_t>(instruction.kind)];
    double at = instruction.accesses ? now : std::max(now, free_at[static_cast<size_t>(cost.pipe)]);
    for (uint32_t board = 0; board < kScoreboards; ++board) {
      if ((instruction.waits >> board & 1) != 0) at = std::max(at, held_until[board]);
    }
    if (part.code.instructions == 0 && instruction.pc != kNone) part.code.pc = instruction.pc;
    ++part.code.instructions;
    at = banks.issue(at, instruction.reads);
    issued = banks_of_many.issue(issued, instruction.reads) + 1;
    const bool recorded = instruction.accesses && instruction.pc != kNone;
    // Accesses wait in a queue for their unit, and the warp goes on.
    if (cost.pipe != Pipe::issue && !recorded) {
      part.code.pipes[static_cast<size_t>(cost.pipe)] += cost.interval;
      free_at[static_cast<size_t>(cost.pipe)] = at + cost.interval;
    }
    const auto hold = [&](uint8_t board, double cycles) {
      if (board >= kScoreboards) return;
      held_until[board] = std::max(held_until[board], at + cycles);
      depends_on_memory &= held_by_access | ~(1u << board);
    };
    hold(instruction.operands, kReadOperands);
    now = at + std::max<double>(instruction.stall, 1);
    if (!recorded) {
      const bool is_other = instruction.kind == InstructionClass::other;
      hold(instruction.result, instruction.constant ? chip_.constant_latency
                               : is_other           ? chip_.special_latency
                                                    : cost.latency);
      continue;
    }
    part.access = instruction.pc;
    part.result = instruction.result;
    block.accesses.push_back(instruction.pc);
    if (instruction.result < kScoreboards) {
      depends_on_memory |= 1u << instruction.result;
      held_by_access |= 1u << instruction.result;
    }
    close();
  }
  if (part.code.instructions != 0) close();
}

}  // namespace stagecraft::emulator::timing
