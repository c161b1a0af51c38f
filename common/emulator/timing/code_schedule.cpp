#include "emulator/timing/code_schedule.hpp"

#include <algorithm>

namespace stagecraft::emulator::timing {

CodeSchedule::CodeSchedule(const Code& code, const ChipModel& chip) : code_(code), chip_(chip) {
  for (const Instruction& instruction : code) {
    if (instruction.kind != InstructionClass::memory) continue;
    for (const uint32_t written : instruction.writes) {
      if (written >= loaded_.size()) loaded_.resize(written + 1);
      loaded_[written] = true;
    }
  }
  find_earliest();
}

void CodeSchedule::find_earliest() {
  const auto stays = [](const Instruction& instruction) {
    return instruction.kind == InstructionClass::control || instruction.kind == InstructionClass::barrier ||
           instruction.kind == InstructionClass::fence;
  };
  std::unordered_map<uint32_t, uint32_t> written;  // pc after the latest write of a register
  uint32_t piece = 0, after_shared = 0, after_global = 0;
  for (uint32_t pc = 0; pc < code_.size(); ++pc) {
    const Instruction& instruction = code_[pc];
    if (instruction.first || (pc > 0 && stays(code_[pc - 1]))) {
      piece = after_shared = after_global = pc;
      written.clear();
    }
    piece_.push_back(piece);
    const bool is_memory = instruction.kind == InstructionClass::memory;
    uint32_t earliest = piece;
    if (instruction.plain_load) earliest = instruction.shared ? after_shared : after_global;
    for (const uint32_t read : instruction.reads) {
      if (const auto found = written.find(read); found != written.end()) earliest = std::max(earliest, found->second);
    }
    if (is_memory && !instruction.plain_load) {
      earliest = pc;
      (instruction.shared ? after_shared : after_global) = pc + 1;
    }
    earliest_.push_back(earliest);
    // What computes an address moves with the load; what another load gives does not.
    for (const uint32_t each : instruction.writes) written[each] = is_memory ? pc + 1 : earliest;
  }
}

const std::vector<CodePart>& CodeSchedule::parts(uint32_t first, uint32_t last, RunEnd end) {
  const uint64_t key = uint64_t{static_cast<uint8_t>(end)} << 62 | uint64_t{first} << 31 | last;
  const auto found = parts_.find(key);
  if (found != parts_.end()) return found->second;
  return parts_.emplace(key, schedule(first, last, end)).first->second;
}

std::vector<CodePart> CodeSchedule::schedule(uint32_t first, uint32_t last, RunEnd end) const {
  std::vector<CodePart> parts(1);
  parts.back().pc = first;
  std::unordered_map<uint32_t, double> ready;
  std::unordered_map<uint32_t, double> known;  // when a value could be there if only what it needs came before it
  std::array<double, kPipes> free_at{};
  double now = 0, end_of_earlier = 0;
  // Twice, and the second time counts: where the code is a loop, its first instructions need the last ones' results.
  for (const bool counts : {false, true}) {
    end_of_earlier = now;
    const double begin = now;
    known.clear();
    for (uint32_t pc = first; pc <= last && pc < code_.size(); ++pc) {
      const Instruction& instruction = code_[pc];
      const InstructionCost& cost = chip_.costs[static_cast<size_t>(instruction.kind)];
      if (counts) {
        std::vector<uint32_t> needs;
        for (const uint32_t read : instruction.reads) {
          if (read < loaded_.size() && loaded_[read]) needs.push_back(read);
        }
        if (!needs.empty()) {
          if (parts.back().instructions != 0) {
            parts.back().cycles = now - end_of_earlier;
            end_of_earlier = now;
            parts.emplace_back();
            parts.back().pc = pc;
          }
          for (const uint32_t need : needs) {
            if (std::find(parts.back().needs.begin(), parts.back().needs.end(), need) == parts.back().needs.end()) {
              parts.back().needs.push_back(need);
            }
          }
        }
      }
      double at = now, needed = begin;
      for (const uint32_t read : instruction.reads) {
        if (const auto found = ready.find(read); found != ready.end()) at = std::max(at, found->second);
        if (const auto found = known.find(read); found != known.end()) needed = std::max(needed, found->second);
      }
      const bool jumps = instruction.kind == InstructionClass::control && pc == last && end != RunEnd::other;
      // ptxas computes what a loop's branch needs as early as it can.
      if (jumps && end == RunEnd::turn) at = std::max(now, needed + chip_.predicate_to_branch);
      double& pipe = free_at[static_cast<size_t>(cost.pipe)];
      if (cost.slots != 0) at = std::max(at, pipe);
      const double slots = cost.slots * instruction.times, interval = cost.interval * instruction.times;
      pipe = std::max(pipe, at + interval);
      for (const uint32_t written : instruction.writes) {
        ready[written] = at + cost.latency;
        known[written] = needed + cost.latency;
      }
      now = std::max(now, at + slots + cost.stall + (jumps ? chip_.branch_back : 0));
      if (!counts) continue;
      CodePart& part = parts.back();
      ++part.instructions;
      part.pipes[static_cast<size_t>(Pipe::issue)] += slots;
      if (cost.pipe != Pipe::issue) part.pipes[static_cast<size_t>(cost.pipe)] += interval;
      part.pipes[static_cast<size_t>(Pipe::alu)] += cost.alu * instruction.times;
      part.pipes[static_cast<size_t>(Pipe::fma)] += cost.fma * instruction.times;
      part.pipes[static_cast<size_t>(Pipe::fp64)] += cost.fp64 * instruction.times;
    }
  }
  parts.back().cycles = now - end_of_earlier;
  for (CodePart& part : parts) {
    for (const double cycles : part.pipes) part.cycles = std::max(part.cycles, cycles);
  }
  return parts;
}

}  // namespace stagecraft::emulator::timing
