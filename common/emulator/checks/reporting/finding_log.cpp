#include "emulator/checks/reporting/finding_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace stagecraft::emulator::checks {

void FindingLog::start(const machine::Kernel& kernel) {
  kernel_ = &kernel;
  asked_.clear();
  claimed_.clear();
  findings_.clear();
  racing_.clear();
  suspicions_.clear();
  withdrawn_.clear();
}

std::optional<std::string> FindingLog::claim(std::string_view kind, uint32_t before_pc, uint32_t now_pc) {
  if (!ask(kind, before_pc, now_pc)) return std::nullopt;
  return claim(fmt::format("{}: {}, then {}", kind, line(before_pc), line(now_pc)));
}

std::optional<std::string> FindingLog::claim_pair(std::string_view kind, uint32_t one_pc, uint32_t other_pc) {
  if (!ask(kind, one_pc, other_pc)) return std::nullopt;
  std::string one = line(one_pc), other = line(other_pc);
  if (other < one) std::swap(one, other);
  return claim(fmt::format("{}: {} and {}", kind, one, other));
}

std::optional<std::string> FindingLog::claim(std::string_view kind, uint32_t pc) {
  if (!ask(kind, pc, pc)) return std::nullopt;
  return claim(fmt::format("{}: instruction {}", kind, pc));
}

size_t FindingLog::add(machine::Cycle at, std::string identity, machine::Diagnostic finding) {
  finding.identity = std::move(identity);
  findings_.push_back({std::move(finding), at, {}});
  return findings_.size() - 1;
}

void FindingLog::add_suspicion(const machine::Cluster& cluster, uint32_t pc, std::string identity,
                               machine::Diagnostic finding) {
  if (racing_.contains(pc)) return;
  suspicions_.emplace(add(cluster, std::move(identity), std::move(finding)), pc);
}

void FindingLog::note_race(uint32_t one_pc, uint32_t other_pc) { racing_.insert({one_pc, other_pc}); }

void FindingLog::add_detail(size_t number, const machine::Cluster& cluster, std::string detail) {
  findings_[number].later.push_back({cluster.now, std::move(detail)});
}

std::vector<machine::Finding> FindingLog::take() {
  std::vector<machine::Finding> taken = std::exchange(findings_, {});
  for (const auto& [number, pc] : suspicions_) {
    if (racing_.contains(pc)) withdrawn_.insert(number);
  }
  suspicions_.clear();
  for (auto number = withdrawn_.rbegin(); number != withdrawn_.rend(); ++number) {
    taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(*number));
  }
  withdrawn_.clear();
  return taken;
}

bool FindingLog::ask(std::string_view kind, uint32_t before_pc, uint32_t now_pc) {
  return asked_.emplace(before_pc, now_pc, kind).second;
}

std::string FindingLog::line(uint32_t pc) const {
  const std::string source = kernel_->describe_source(pc);
  return source.empty() ? std::to_string(pc) : source;
}

std::optional<std::string> FindingLog::claim(std::string identity) {
  if (findings_.size() >= machine::kMostFindings || !claimed_.insert(identity).second) return std::nullopt;
  return identity;
}

}  // namespace stagecraft::emulator::checks
