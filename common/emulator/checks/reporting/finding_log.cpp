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
  replaced_.clear();
}

std::optional<std::string> FindingLog::claim(std::string_view kind, uint32_t before_pc, uint32_t now_pc) {
  if (!ask(kind, before_pc, now_pc)) return std::nullopt;
  return claim_identity(fmt::format("{}: {}, then {}", kind, line(before_pc), line(now_pc)));
}

std::optional<std::string> FindingLog::claim_pair(std::string_view kind, uint32_t one_pc, uint32_t other_pc,
                                                  uint32_t strength) {
  if (!ask(kind, one_pc, other_pc, strength)) return std::nullopt;
  std::string one = line(one_pc), other = line(other_pc);
  if (other < one) std::swap(one, other);
  return claim_identity(fmt::format("{}: {} and {}", kind, one, other), strength);
}

std::optional<std::string> FindingLog::claim(std::string_view kind, uint32_t pc) {
  if (!ask(kind, pc, pc)) return std::nullopt;
  return claim_identity(fmt::format("{}: instruction {}", kind, pc));
}

size_t FindingLog::add(machine::Cycle at, std::string identity, machine::Diagnostic finding) {
  finding.identity = std::move(identity);
  if (replaced_.erase(finding.identity) != 0) {
    const auto weaker = std::find_if(findings_.begin(), findings_.end(), [&](const machine::Finding& each) {
      return each.diagnostic.identity == finding.identity;
    });
    if (weaker != findings_.end()) {
      weaker->diagnostic = std::move(finding);
      return static_cast<size_t>(weaker - findings_.begin());
    }
  }
  findings_.push_back({std::move(finding), at, {}});
  return findings_.size() - 1;
}

void FindingLog::add_suspicion(const machine::Cluster& cluster, uint32_t pc, std::string identity,
                               machine::Diagnostic finding) {
  if (racing_.contains(pc)) return;
  suspicions_.emplace(add(cluster, std::move(identity), std::move(finding)), pc);
}

void FindingLog::note_race(uint32_t one_pc, uint32_t other_pc) {
  racing_.emplace(one_pc, other_pc);
  racing_.emplace(other_pc, one_pc);
}

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

bool FindingLog::ask(std::string_view kind, uint32_t before_pc, uint32_t now_pc, uint32_t strength) {
  uint32_t& least = asked_[{before_pc, now_pc, std::string(kind)}];
  if (strength < least) return false;
  least = strength + 1;
  return true;
}

std::string FindingLog::line(uint32_t pc) const {
  const std::string source = kernel_->describe_source(pc);
  return source.empty() ? std::to_string(pc) : source;
}

std::optional<std::string> FindingLog::claim_identity(std::string identity, uint32_t strength) {
  const auto found = claimed_.find(identity);
  if (found != claimed_.end()) {
    if (found->second >= strength) return std::nullopt;
    replaced_.insert(identity);
  } else if (findings_.size() >= machine::kMostFindings) {
    return std::nullopt;
  }
  claimed_[identity] = strength;
  return identity;
}

}  // namespace stagecraft::emulator::checks
