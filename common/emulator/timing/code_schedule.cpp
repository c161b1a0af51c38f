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
  // ptxas makes an addition of floats in shared memory a loop of compare and swap, and moves no load over it.
  const auto loops = [](const Instruction& instruction) { return instruction.shared && instruction.floating; };
  const auto stays = [&](const Instruction& instruction) {
    return instruction.kind == InstructionClass::control || instruction.kind == InstructionClass::barrier ||
           instruction.kind == InstructionClass::fence || loops(instruction);
  };
  std::unordered_map<uint32_t, uint32_t> written;  // pc after the latest write of a register
  uint32_t piece = 0, after_shared = 0, after_global = 0;
  for (uint32_t pc = 0; pc < code_.size(); ++pc) {
    const Instruction& instruction = code_[pc];
    if (instruction.first || loops(instruction) || (pc > 0 && stays(code_[pc - 1]))) {
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
  const uint64_t key = uint64_t{static_cast<uint8_t>(end)} << 60 | uint64_t{first} << 30 | last;
  const auto found = parts_.find(key);
  if (found != parts_.end()) return found->second;
  return parts_.emplace(key, schedule(first, last, end)).first->second;
}

namespace {

/// Machine instructions among which ptxas finds one that can issue. Its scheduler looks at more, but also saves
/// registers. Source: the stall counts in its code of the loop of n_body (tests/silicon/fractals_and_bodies.cu), which
/// are 274 without the waits for eight roots; with 8, 16 and 32, such a turn takes 301, 230 and 188 cycles here.
constexpr size_t kWindow = 8;

bool is_in_order(const Instruction& instruction, const InstructionCost& cost) {
  return instruction.kind == InstructionClass::control || instruction.kind == InstructionClass::barrier ||
         instruction.kind == InstructionClass::fence || cost.stall > 0;
}

}  // namespace

CodeSchedule::PieceTimes CodeSchedule::issue_times(uint32_t piece, uint32_t behind) const {
  constexpr uint32_t kNone = 0xffffffffu;
  const uint32_t count = behind - piece;
  // Which instruction gives an operand: the latest before, or else one of the turn before, where the code is a loop.
  std::vector<std::vector<uint32_t>> sources(count), of_turn_before(count);
  std::unordered_map<uint32_t, uint32_t> writer;
  for (const bool second : {false, true}) {
    for (uint32_t i = 0; i < count; ++i) {
      const Instruction& instruction = code_[piece + i];
      for (const uint32_t read : instruction.reads) {
        const auto found = writer.find(read);
        if (found == writer.end()) continue;
        if (!second) {
          sources[i].push_back(found->second);
        } else if (found->second >= i) {
          of_turn_before[i].push_back(found->second);
        }
      }
      for (const uint32_t written : instruction.writes) writer[written] = i;
    }
  }
  const auto cost_of = [&](uint32_t i) -> const InstructionCost& {
    return chip_.costs[static_cast<size_t>(code_[piece + i].kind)];
  };
  PieceTimes times;
  std::array<double, kPipes> free_at{};
  std::vector<double> ready_before;  // results of the turn before, from the beginning of this one
  // Twice, and the second time counts: where the code is a loop, its first instructions need the last ones' results.
  for (const bool counts : {false, true}) {
    times = {};
    times.begin.assign(count, 0);
    times.end.assign(count, 0);
    times.known.assign(count, 0);
    std::vector<double> ready(count, 0);
    std::vector<uint32_t> next(count + 1);  // a list of those that have not issued
    for (uint32_t i = 0; i <= count; ++i) next[i] = i + 1;
    std::vector<bool> issued(count);
    uint32_t head = 0;
    double now = 0;
    while (head < count) {
      double soonest = -1;
      uint32_t chosen = kNone, before_chosen = kNone, before = kNone;
      size_t seen = 0;
      for (uint32_t i = head; i < count && seen < kWindow; before = i, i = next[i]) {
        const InstructionCost& cost = cost_of(i);
        if (cost.slots != 0) ++seen;
        const bool in_order = is_in_order(code_[piece + i], cost);
        if (in_order && i != head) break;
        double at = now;
        bool known = true;
        for (const uint32_t source : sources[i]) {
          if (!issued[source]) known = false;
          at = std::max(at, ready[source]);
        }
        if (counts) {
          for (const uint32_t source : of_turn_before[i]) at = std::max(at, ready_before[source]);
        }
        if (known && cost.slots != 0) at = std::max(at, free_at[static_cast<size_t>(cost.pipe)]);
        if (known && (soonest < 0 || at < soonest)) {
          soonest = at;
          chosen = i;
          before_chosen = before;
          if (at <= now) break;
        }
        if (in_order) break;
      }
      const uint32_t i = chosen;
      if (before_chosen == kNone) {
        head = next[i];
      } else {
        next[before_chosen] = next[i];
      }
      const Instruction& instruction = code_[piece + i];
      const InstructionCost& cost = cost_of(i);
      const double slots = cost.slots * instruction.times, interval = cost.interval * instruction.times;
      double& pipe = free_at[static_cast<size_t>(cost.pipe)];
      pipe = std::max(pipe, soonest + interval);
      issued[i] = true;
      ready[i] = soonest + cost.latency;
      times.begin[i] = soonest;
      times.end[i] = now = std::max(now, soonest + slots + cost.stall);
      for (const uint32_t source : sources[i]) {
        times.known[i] = std::max(times.known[i], times.known[source] + cost_of(source).latency);
      }
    }
    ready_before = ready;
    for (double& each : ready_before) each -= now;
    for (double& each : free_at) each -= now;
  }
  std::vector<uint32_t> order(count);
  for (uint32_t i = 0; i < count; ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return times.end[a] < times.end[b]; });
  Pipes used{};
  for (const uint32_t i : order) {
    const Instruction& instruction = code_[piece + i];
    const InstructionCost& cost = cost_of(i);
    used[static_cast<size_t>(Pipe::issue)] += cost.slots * instruction.times;
    if (cost.pipe != Pipe::issue) used[static_cast<size_t>(cost.pipe)] += cost.interval * instruction.times;
    used[static_cast<size_t>(Pipe::alu)] += cost.alu * instruction.times;
    used[static_cast<size_t>(Pipe::fma)] += cost.fma * instruction.times;
    used[static_cast<size_t>(Pipe::fp64)] += cost.fp64 * instruction.times;
    times.used.emplace_back(times.end[i], used);
  }
  double through = 0;
  for (uint32_t i = 0; i < count; ++i) times.through.push_back(through = std::max(through, times.end[i]));
  return times;
}

const CodeSchedule::PieceTimes& CodeSchedule::times_of(uint32_t piece) {
  const auto found = times_.find(piece);
  if (found != times_.end()) return found->second;
  uint32_t behind = piece + 1;
  while (behind < code_.size() && piece_[behind] == piece) ++behind;
  return times_.emplace(piece, issue_times(piece, behind)).first->second;
}

std::vector<CodePart> CodeSchedule::schedule(uint32_t first, uint32_t last, RunEnd end) {
  std::vector<CodePart> parts;
  last = std::min<uint32_t>(last, static_cast<uint32_t>(code_.size()) - 1);
  /// What the pipes have done until a time.
  const auto used_until = [](const PieceTimes& times, double at) {
    const auto behind = std::upper_bound(times.used.begin(), times.used.end(), at,
                                         [](double value, const auto& each) { return value < each.first; });
    return behind == times.used.begin() ? Pipes{} : std::prev(behind)->second;
  };
  const auto close = [&](uint32_t begin, uint32_t behind) {  // instructions of one piece
    const uint32_t piece = piece_[begin];
    const PieceTimes& times = times_of(piece);
    const double from = begin == piece ? 0 : times.through[begin - piece - 1], to = times.through[behind - piece - 1];
    Pipes used = used_until(times, to);
    if (begin != piece) {
      const Pipes before = used_until(times, from);
      for (size_t pipe = 0; pipe < kPipes; ++pipe) used[pipe] -= before[pipe];
    }
    CodePart& part = parts.back();
    part.cycles += to - from;
    for (size_t pipe = 0; pipe < kPipes; ++pipe) part.pipes[pipe] += used[pipe];
  };
  uint32_t begin = first;
  for (uint32_t pc = first; pc <= last; ++pc) {
    std::vector<uint32_t> needs;
    for (const uint32_t read : code_[pc].reads) {
      if (read < loaded_.size() && loaded_[read]) needs.push_back(read);
    }
    if (pc > begin && piece_[pc] != piece_[begin]) {
      close(begin, pc);
      begin = pc;
    }
    if (parts.empty() || (!needs.empty() && parts.back().instructions != 0)) {
      if (pc > begin) close(begin, pc);
      begin = pc;
      parts.emplace_back();
      parts.back().pc = pc;
    }
    CodePart& part = parts.back();
    for (const uint32_t need : needs) {
      if (std::find(part.needs.begin(), part.needs.end(), need) == part.needs.end()) part.needs.push_back(need);
    }
    ++part.instructions;
  }
  close(begin, last + 1);
  if (code_[last].kind == InstructionClass::control && end != RunEnd::other) {
    CodePart& part = parts.back();
    part.cycles += chip_.branch_back;
    // ptxas computes what a loop's branch needs as early as it can.
    if (end == RunEnd::turn && piece_[first] == piece_[last]) {
      const PieceTimes& times = times_of(piece_[first]);
      const uint32_t branch = last - piece_[first];
      const double all_else = branch == 0 ? 0 : times.through[branch - 1];
      const double at = std::max(all_else, times.known[branch] + chip_.predicate_to_branch);
      part.cycles += at - times.begin[branch];
    }
  }
  const InstructionCost& cost = chip_.costs[static_cast<size_t>(code_[last].kind)];
  parts.back().cycles += cost.function_cycles(end);
  parts.back().pipes[static_cast<size_t>(Pipe::issue)] += cost.function_instructions(end);
  for (CodePart& part : parts) {
    for (const double cycles : part.pipes) part.cycles = std::max(part.cycles, cycles);
  }
  return parts;
}

}  // namespace stagecraft::emulator::timing
