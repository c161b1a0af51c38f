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
}

const std::vector<CodePart>& CodeSchedule::parts(uint32_t first, uint32_t last) {
  const uint64_t key = uint64_t{first} << 32 | last;
  const auto found = parts_.find(key);
  if (found != parts_.end()) return found->second;
  return parts_.emplace(key, schedule(first, last)).first->second;
}

std::vector<CodePart> CodeSchedule::schedule(uint32_t first, uint32_t last) const {
  std::vector<CodePart> parts(1);
  parts.back().pc = first;
  std::unordered_map<uint32_t, double> ready;
  std::array<double, kPipes> free_at{};
  double now = 0, end_of_earlier = 0;
  // Twice, and the second time counts: where the code is a loop, its first instructions need the last ones' results.
  for (const bool counts : {false, true}) {
    end_of_earlier = now;
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
      double at = now;
      for (const uint32_t read : instruction.reads) {
        if (const auto found = ready.find(read); found != ready.end()) at = std::max(at, found->second);
      }
      double& pipe = free_at[static_cast<size_t>(cost.pipe)];
      if (cost.slots != 0) at = std::max(at, pipe);
      pipe = std::max(pipe, at + cost.interval);
      for (const uint32_t written : instruction.writes) ready[written] = at + cost.latency;
      now = std::max(now, at + cost.slots);
      if (!counts) continue;
      CodePart& part = parts.back();
      ++part.instructions;
      part.pipes[static_cast<size_t>(Pipe::issue)] += cost.slots;
      if (cost.pipe != Pipe::issue) part.pipes[static_cast<size_t>(cost.pipe)] += cost.interval;
    }
  }
  parts.back().cycles = now - end_of_earlier;
  for (CodePart& part : parts) {
    for (const double cycles : part.pipes) part.cycles = std::max(part.cycles, cycles);
  }
  return parts;
}

}  // namespace stagecraft::emulator::timing
