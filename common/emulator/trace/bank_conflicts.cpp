#include "emulator/trace/bank_conflicts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace stagecraft::emulator::trace {

void BankConflicts::grid_started(const machine::Grid& grid) {
  kernel_ = grid.kernel;
  by_pc_.clear();
}

void BankConflicts::memory_accessed(const machine::MemoryAccess& access) {
  if (access.shared == nullptr || access.kind == machine::AccessKind::update) return;
  Traffic& traffic = by_pc_[access.pc];
  ++traffic.requests;
  traffic.wavefronts +=
      wavefronts_of(access.shared, access.lanes, access.bytes, access.kind == machine::AccessKind::read);
  traffic.fewest += fewest_wavefronts(access.lanes, access.bytes);
}

std::vector<LineTraffic> BankConflicts::lines() const {
  std::vector<LineTraffic> lines;
  for (const auto& [pc, traffic] : by_pc_) {
    const std::string source = kernel_->describe_source(pc), instruction = kernel_->describe_instruction(pc);
    auto line = std::find_if(lines.begin(), lines.end(), [&](const LineTraffic& each) {
      return each.source == source && each.instruction == instruction && !source.empty();
    });
    if (line == lines.end()) line = lines.insert(lines.end(), {source, instruction});
    line->requests += traffic.requests;
    line->wavefronts += traffic.wavefronts;
    line->fewest += traffic.fewest;
  }
  return lines;
}

std::string BankConflicts::text() const {
  const std::vector<LineTraffic> all = lines();
  if (all.empty()) return {};
  size_t source_width = 0, instruction_width = 0;
  for (const LineTraffic& line : all) {
    source_width = std::max(source_width, line.source.size());
    instruction_width = std::max(instruction_width, line.instruction.size());
  }
  std::string text = fmt::format("stagecraft: shared memory in kernel {}: wavefronts, passes over its {} banks\n",
                                 kernel_->display_name, kBanks);
  for (const LineTraffic& line : all) {
    const auto each = [&](uint64_t count) { return static_cast<double>(count) / static_cast<double>(line.requests); };
    text += fmt::format("  {:<{}}  {:<{}}  {:>8} requests {:>9} wavefronts  {:>4.1f} each", line.source, source_width,
                        line.instruction, instruction_width, line.requests, line.wavefronts, each(line.wavefronts));
    text += line.wavefronts > line.fewest ? fmt::format(", {:.1f} without conflicts\n", each(line.fewest)) : "\n";
  }
  return text;
}

nlohmann::json BankConflicts::json() const {
  nlohmann::json rows = nlohmann::json::array();
  for (const LineTraffic& line : lines()) {
    rows.push_back({{"source", line.source},
                    {"instruction", line.instruction},
                    {"requests", line.requests},
                    {"wavefronts", line.wavefronts},
                    {"fewest", line.fewest}});
  }
  return {{"kind", "bank conflicts"}, {"kernel", kernel_->display_name}, {"lines", rows}};
}

}  // namespace stagecraft::emulator::trace
