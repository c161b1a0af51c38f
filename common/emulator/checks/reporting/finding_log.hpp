// What the checks have found in a grid, each finding once.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "emulator/state/barrier_misuse.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::checks {

/// Several flaws of how one instruction uses a barrier are one finding, which has this kind.
inline constexpr std::string_view kBarrierMisuse = machine::kBarrierMisuse;

/// Findings of the same kind on the same source lines count as one. A flaw occurs again with every element of a tile
/// and in every cluster; and where a grid runs in parts, in every part. So each finding carries an identity, by which
/// those of several parts are merged (scheduling/findings.hpp).
class FindingLog {
 public:
  /// Forgets all findings; the next ones are about this kernel.
  void start(const machine::Kernel& kernel);

  /// Returns the identity of a finding of this kind between two instructions, to be passed to `add`. Nothing when it
  /// was claimed before, or when there are enough findings.
  std::optional<std::string> claim(std::string_view kind, uint32_t before_pc, uint32_t now_pc);
  /// Does the same where it does not matter which of the two comes first. Among pairs of threads at the same two
  /// instructions the one is reported that needs the strongest barrier: a higher `strength` claims again what a lower
  /// one has claimed, and `add` then replaces that finding.
  std::optional<std::string> claim_pair(std::string_view kind, uint32_t one_pc, uint32_t other_pc,
                                        uint32_t strength = 0);
  /// Does the same for one instruction, even if others are on the same line.
  std::optional<std::string> claim(std::string_view kind, uint32_t pc);

  /// Does the same for a kind that is reported once for each grid.
  std::optional<std::string> claim_kind(std::string kind) { return claim_identity(std::move(kind)); }

  /// Adds a finding that was claimed, made at virtual time `at`. Returns its number.
  size_t add(machine::Cycle at, std::string identity, machine::Diagnostic finding);
  /// Adds a finding at the cluster's present time.
  size_t add(const machine::Cluster& cluster, std::string identity, machine::Diagnostic finding) {
    return add(cluster.now, std::move(identity), std::move(finding));
  }
  /// Adds a finding about what an instruction reads, unless a race of that instruction explains it: one that was
  /// reported before, or will be.
  void add_suspicion(const machine::Cluster& cluster, uint32_t pc, std::string identity, machine::Diagnostic finding);
  /// Drops a finding that was added, because another says more.
  void withdraw(size_t number) { withdrawn_.insert(number); }
  /// Takes note of a race that these instructions take part in.
  void note_race(uint32_t one_pc, uint32_t other_pc);
  /// The instructions that take part in races so far, and another with which each races.
  const std::map<uint32_t, uint32_t>& racing() const { return racing_; }
  /// Adds to a finding a detail that was found out now.
  void add_detail(size_t number, const machine::Cluster& cluster, std::string detail);

  /// Returns all findings and forgets them.
  std::vector<machine::Finding> take();

 private:
  /// Returns false when this has been asked before. It saves the search for source lines, which takes long.
  bool ask(std::string_view kind, uint32_t before_pc, uint32_t now_pc, uint32_t strength = 0);
  std::string line(uint32_t pc) const;
  std::optional<std::string> claim_identity(std::string identity, uint32_t strength = 0);

  const machine::Kernel* kernel_ = nullptr;
  /// Instructions and kind, and one more than the greatest strength so far.
  std::map<std::tuple<uint32_t, uint32_t, std::string>, uint32_t> asked_;
  std::map<std::string, uint32_t> claimed_;  ///< and their strength
  /// What was claimed again and is still to be added: others may be claimed and added before.
  std::set<std::string> replaced_;
  std::vector<machine::Finding> findings_;
  std::map<uint32_t, uint32_t> racing_;    ///< instructions, and another with which each races
  std::map<size_t, uint32_t> suspicions_;  ///< findings that a race would explain: their instructions, by number
  std::set<size_t> withdrawn_;
};

}  // namespace stagecraft::emulator::checks
