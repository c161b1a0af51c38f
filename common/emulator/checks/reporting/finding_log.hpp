// What a check has found in a grid, each thing once.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "emulator/state/grid.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::checks {

/// Told once is what has the same kind and the same lines. A flaw comes again with every element of a tile, in every
/// cluster; and where a grid runs in parts, in every part (machine/findings.hpp), for which each finding has its
/// identity with it.
class FindingLog {
 public:
  /// Begins anew.
  void start(const machine::Kernel& kernel);

  /// The identity of a finding of this kind between two instructions. Nothing when it is one that has been told, or
  /// when enough have been.
  std::optional<std::string> claim(std::string_view kind, uint32_t before_pc, uint32_t now_pc);
  /// The same where it does not matter which of the two comes first.
  std::optional<std::string> claim_pair(std::string_view kind, uint32_t one_pc, uint32_t other_pc);
  /// Of one instruction, even if others stand in its line.
  std::optional<std::string> claim(std::string_view kind, uint32_t pc);

  /// Adds what was claimed, as of the cluster's present time. Returns its number.
  size_t add(const machine::Cluster& cluster, std::string identity, machine::Diagnostic finding);
  /// Adds to a finding what has come to light now.
  void add_detail(size_t number, const machine::Cluster& cluster, std::string detail);

  std::vector<machine::Finding> take();

 private:
  /// False when this has been asked before: to tell lines takes long.
  bool ask(std::string_view kind, uint32_t before_pc, uint32_t now_pc);
  std::string line(uint32_t pc) const;
  std::optional<std::string> claim(std::string identity);

  const machine::Kernel* kernel_ = nullptr;
  std::set<std::tuple<uint32_t, uint32_t, std::string>> asked_;  ///< instructions and kind
  std::set<std::string> claimed_;
  std::vector<machine::Finding> findings_;
};

}  // namespace stagecraft::emulator::checks
