// Finds accesses of shared memory that nothing orders.
//
// Two accesses of the same bytes race when at least one writes, not both are strong (volatile, atomic), and neither
// happens before the other. What happens before what is decided by the synchronisation that the program makes
// (../ordering/happens_before.hpp), not by the order in which things happened in this run. So a race is found although
// this run had the right result, and it is the same in every run of the same schedule.
//
// Threads, bulk and tensor copies, cp.async and the operand reads of the tensor core are checked; mbarriers themselves
// are not data. Lanes that write the same value to the same place in one instruction do not race. When threads that
// nothing orders do so, such as all those of a block that set a flag, it is a race by PTX; but the value does not
// depend on which comes first, and chips are not known to mind.
//
// An access goes through three stages:
//
//   RaceCheck        makes an event one or several accesses of a range of bytes, and defers those that cannot race
//                    with what the other threads do before the next barrier (barrier_interval.hpp);
//   HistoryCheck     holds an access against what is remembered of its bytes, and remembers it;
//   RaceReport       reports a race, with what RaceCause supposes to be the reason.
//
// Ordered accesses may still need more, which other checks look for: fences where an asynchronous unit follows a
// thread's write (../proxies), and in tensor memory the waits and fences of tcgen05 (../tensor_memory).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "emulator/checks/ordering/memory_check.hpp"
#include "emulator/checks/race/barrier_interval.hpp"
#include "emulator/checks/race/history_check.hpp"
#include "emulator/checks/race/race_report.hpp"

namespace stagecraft::emulator::checks {

class RaceCheck final : public MemoryCheck {
 public:
  explicit RaceCheck(FindingLog& findings) : MemoryCheck(findings), report_(findings) {}

  void cluster_started(ClusterRecord& cluster) override;
  void block_finished(ClusterRecord& cluster, const machine::Block& block) override;
  void cluster_finished(ClusterRecord& cluster) override;
  void cluster_stuck(ClusterRecord& cluster) override;
  void cluster_repeated(ClusterRecord& cluster, machine::Diagnostic& report) override;
  void barrier_changed(ClusterRecord& cluster, const machine::BarrierEvent& event) override;
  void memory_accessed(ClusterRecord& cluster, const RecordedAccess& recorded) override;
  void threads_met(ClusterRecord& cluster, const machine::Rendezvous& event) override;
  void operation_issued(ClusterRecord& cluster, const IssuedOperation& operation) override;
  void add_results(std::vector<machine::WrittenResult>& results) override;

 private:
  /// A strong read of shared memory.
  struct Poll {
    uint32_t pc = 0;
    machine::LaneMask lanes = 0;
    uint32_t address = 0;  ///< of the first of them, with rank
    uint32_t bytes = 0;
  };
  struct State {
    State(ClusterRecord& cluster_, BarrierInterval& interval_, RaceReport& report)
        : cluster(cluster_),
          order(cluster_.order()),
          defers_reads(cluster_.has_one_block()),
          defers_writes(defers_reads && !cluster_.kernel().has_async_proxy),
          interval(interval_),
          histories(cluster_, interval_, report) {}

    ClusterRecord& cluster;
    const ClusterOrder& order;
    const bool defers_reads;
    /// Not where asynchronous operations may need a fence after a write, which must be known at once.
    const bool defers_writes;
    BarrierInterval& interval;
    HistoryCheck histories;
  };

  void check_now(State& state, const RecordedAccess& recorded, const PastAccess& record);
  static bool defer(State& state, const RecordedAccess& recorded, const PastAccess& record);
  static void catch_up(State& state);
  void describe_poll(ClusterRecord& cluster, const Poll& poll, machine::Diagnostic& report);
  static machine::LaneMask check_lanes(State& state, const machine::MemoryAccess& access, machine::LaneMask lanes,
                                       PresentAccess& now);
  static void check_scattered(State& state, const uint32_t* addresses, uint32_t bytes, PresentAccess& now,
                              Outcomes& outcomes);
  void check_overlapping_writes(State& state, const RecordedAccess& recorded);
  static void check_range(State& state, uint32_t address, uint32_t bytes, uint32_t unit, const PresentAccess& now,
                          Outcomes& outcomes);

  RaceReport report_;
  std::vector<std::unique_ptr<BarrierInterval>> intervals_;  ///< by slot; cluster after cluster uses it
  PerCluster<State> states_;
  std::map<const machine::Warp*, Poll> polls_;   ///< the last one of each warp
  std::map<uint32_t, std::string> stale_waits_;  ///< those that harmed nothing that was found, by pc
};

}  // namespace stagecraft::emulator::checks
