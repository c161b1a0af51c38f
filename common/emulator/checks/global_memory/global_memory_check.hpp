// Finds accesses of global memory that nothing orders, between threads, blocks, clusters, launches and the host's
// copies.
//
// Two accesses of the same byte race when at least one writes, they are not both strong with scopes that include both
// threads, and neither happens before the other. In a cluster ../ordering decides what happens before what; between
// clusters, releases and acquires of the right scope do (grid_knowledge.hpp); between works of a program, streams,
// events and the host's waits (work_order.hpp). Bulk and tensor copies access memory at any time between their issue
// and their end, through the asynchronous proxy: one that reads what threads of the same grid wrote needs a
// fence.proxy.async too.
//
// It also finds reads of what nothing has written, in memory that cudaMalloc gave.
//
// It is chosen by STAGECRAFT_CHECKS=global, because it makes kernels slower, and keeps a grid on one core.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "emulator/checks/global_memory/global_history.hpp"
#include "emulator/checks/global_memory/grid_knowledge.hpp"
#include "emulator/checks/global_memory/handovers.hpp"
#include "emulator/checks/global_memory/hidden_writes.hpp"
#include "emulator/checks/ordering/memory_check.hpp"

namespace stagecraft::emulator::checks {

class GlobalMemoryCheck final : public MemoryCheck {
 public:
  explicit GlobalMemoryCheck(FindingLog& findings) : MemoryCheck(findings) {}
  /// Must be called before the grid starts. The history outlives the check.
  void use(GlobalHistory& history) { history_ = &history; }

  void cluster_started(ClusterRecord& cluster) override;
  void cluster_finished(ClusterRecord& cluster) override;
  void cluster_repeated(ClusterRecord& cluster, machine::Diagnostic& report) override;
  void memory_accessed(ClusterRecord& cluster, const RecordedAccess& recorded) override;
  void operation_issued(ClusterRecord& cluster, const IssuedOperation& issued) override;
  void group_changed(ClusterRecord& cluster, const machine::GroupEvent& event) override;
  void fence_executed(ClusterRecord& cluster, const machine::Fragment& fragment, machine::LaneMask lanes,
                      machine::FenceKind kind) override;
  void tensor_map_changed(ClusterRecord&, const machine::TensorMapEvent& event) override {
    if (event.kind == machine::TensorMapEventKind::acquire) acquired_maps_.insert(event.address);
  }

 private:
  /// What a lane knew at its last fence.
  struct Fenced {
    Time time = 0;
    machine::MemoryScope scope = machine::MemoryScope::block;
    uint32_t pc = 0;
    SharedClock known;  ///< null: it has executed none
    SharedForeign foreign;
    SharedForeign released;  ///< made of these when a strong write first needs it
  };
  /// What a lane has read with relaxed loads, and learns at its next fence.
  struct Pending {
    SharedForeign released;
    uint32_t pc = 0;
  };
  struct CachedRecord {
    uint32_t pc = 0;
    Time time = 0;
    machine::LaneMask lanes = 0;
    uint32_t site = 0;
    uint32_t record = 0;
  };
  /// Whether lanes that know as much as now know that all accesses of a record are over.
  struct Answer {
    uint32_t record = 0;
    bool is_ordered = false;
    bool is_visible = false;  ///< to the asynchronous proxy, without a fence
    uint64_t since = 0;       ///< the number of an access: it holds for that one, and as long as the lanes know no more
  };
  /// Which reader of a log the warp is.
  struct LogEntry {
    uint32_t log = 0;  ///< GlobalHistory::log_number; 0: of none
    uint32_t reader = 0;
    Time time = 0;
    const VectorClock* known = nullptr;  ///< the log keeps it
  };
  struct WarpState {
    std::array<CachedRecord, 64> records{};  ///< by instruction and lanes
    std::array<Answer, 32> answers{};        ///< by record
    uint64_t accesses = 0;                   ///< so far
    uint64_t knowledge = 0;                  ///< the first access since `known_lanes` have known `known` and `version`
    machine::LaneMask known_lanes = 0;
    SharedClock known;
    uint64_t version = 0;  ///< ClusterNotes::version
    ByLane<Fenced> fenced;
    ByLane<Pending> pending;
    AcquireNotes acquires;
    LogEntry logged;
  };
  /// Bulk stores of one thread that it has not waited for, by the numbers of their records.
  struct BulkStores {
    std::vector<uint32_t> open;
    std::deque<std::vector<uint32_t>> groups;
  };
  /// A fence.proxy.async that concerns global memory.
  struct ProxyFence {
    uint32_t warp;
    machine::LaneMask lanes;
    Time time;
    SharedClock known;
    SharedForeign foreign;
  };
  /// The latest of each warp and group of its lanes: who issues a copy need not know the very last.
  using ProxyFences = std::map<std::pair<uint32_t, machine::LaneMask>, std::deque<ProxyFence>>;
  /// The last bulk store, and the lanes that have issued the same one by the same instruction: bytes of the same place
  /// in shared memory to the same place.
  struct SameStore {
    uint32_t warp = 0, pc = 0;
    Time time = 0;
    machine::LaneMask lanes = 0;
    std::vector<machine::SharedRange> reads{};
    std::vector<machine::GlobalRange> global{};
  };
  struct State {
    State(uint32_t number_, uint32_t warps_) : number(number_), warps(warps_), notes(warps_) {}
    uint32_t number;  ///< GlobalHistory::cluster
    std::vector<WarpState> warps;
    ClusterNotes notes;
    std::unordered_map<uint32_t, BulkStores> bulk_stores;  ///< by component of the thread
    std::vector<uint32_t> operations;                      ///< records of asynchronous reads
    SameStore last_store;
    std::deque<NarrowOrder> narrow;  ///< the latest few that ordered nothing
    uint32_t forgotten = 0;          ///< GlobalHistory::times_forgotten
  };
  /// The access that is held against what is remembered.
  struct Present {
    ClusterRecord& cluster;
    State& state;
    const ClusterOrder& order;
    GlobalRecord record;
    uint32_t warp;
    machine::LaneMask lanes;
    uint32_t pc;
    const machine::MemoryAccess* event = nullptr;               ///< null for an operation
    const char* what = "";                                      ///< of an operation
    const std::vector<machine::GlobalRange>* ranges = nullptr;  ///< of an operation
    bool is_same_store = false;                                 ///< other lanes have issued it as well (SameStore)
    std::optional<bool> some_written{};                         ///< of those of an operation; none: not known yet
    uint32_t number = 0;                                        ///< of the record
    uint64_t access = 0, knowledge = 0;                         ///< which answers hold (Answer::since)
    // Cells of an access mostly have the same past: the last that it passed, and the last read that was asked about.
    uint32_t passed = 0, asked = 0;
    bool is_asked_known = false;
    bool hides_passed = false;     ///< a strong write must keep `passed`, or end what is kept
    bool passed_observes = false;  ///< the latter
  };

  State& state_of(ClusterRecord& cluster);
  uint32_t site_of(const machine::Kernel& kernel, uint32_t pc);
  bool observes(const machine::Kernel& kernel, uint32_t pc);
  uint32_t record_of(Present& now, machine::LaneMask lanes);
  static bool is_same_store(State& state, const machine::AsyncOperation& event, uint32_t warp, Time time);
  /// Logs a read, if that is all that it needs (read_log.hpp); returns whether it was.
  bool log_read(ClusterRecord& cluster, State& state, const RecordedAccess& recorded);
  bool may_log(GlobalAllocation& allocation, uint64_t page);
  uint32_t reader_of(State& state, const WarpOrder& order, const RecordedAccess& recorded);
  /// A sector whose cells are looked at.
  GlobalSector& sector_of(GlobalAllocation& allocation, uint64_t offset) {
    const uint64_t page = offset / GlobalAllocation::kPageBytes;
    if (allocation.uses[page] != history_->mark_of(GlobalHistory::PageUse::noted)) look_at_page(allocation, page);
    return history_->shadow().sector(allocation, offset);
  }
  void look_at_page(GlobalAllocation& allocation, uint64_t page);
  void check_scattered(Present& now, const machine::MemoryAccess& event, uint8_t width);
  void check_run(Present& now, uint64_t address, uint64_t bytes, GlobalEntry entry);
  /// Where the bytes of a lane are.
  struct Place {
    GlobalAllocation* allocation;
    GlobalSector* sector;
    uint64_t offset;
  };
  void check_bytes(Present& now, const Place& place, GlobalCell& cell, uint64_t offset, uint32_t bytes,
                   GlobalEntry entry);
  void check_part(Present& now, const Place& place, uint32_t bytes, GlobalEntry entry);
  bool pass_cell(Present& now, const GlobalAllocation& allocation, GlobalCell& cell, GlobalSector& sector,
                 uint32_t mask, GlobalEntry entry);
  void check_cell(Present& now, GlobalAllocation& allocation, GlobalCell& cell, GlobalSector& sector, uint64_t offset,
                  uint32_t bytes, GlobalEntry entry);
  bool passes(Present& now, uint32_t past);
  bool outlasts(const Present& now, uint32_t past) const;
  GlobalEntry replacing(Present& now, const GlobalCell& cell, uint64_t address, uint32_t bytes, GlobalEntry entry);
  void note_read(Present& now, GlobalCell& cell, GlobalEntry entry);
  void hold_against(Present& now, GlobalAllocation& allocation, const GlobalCell& cell, GlobalEntry past,
                    uint64_t offset, uint32_t bytes, GlobalEntry entry);
  bool has_observed(Present& now, const GlobalCell& cell, machine::LaneMask lanes);
  bool has_observed_later(Present& now, const GlobalCell& cell, GlobalEntry past, machine::LaneMask lanes);
  bool has_read_before(const Present& now, const GlobalCell& cell, machine::LaneMask lanes) const;
  /// Finds out which answers hold for an access.
  static void begin_access(Present& now);
  /// The answer about a record, if it is known; else null.
  static const Answer* find_answer(const Present& now, uint32_t past) {
    const WarpState& warp = now.state.warps[now.warp];
    const Answer& answer = warp.answers[past % warp.answers.size()];
    const bool holds = answer.record == past && (answer.since == now.knowledge || answer.since == now.access);
    return holds ? &answer : nullptr;
  }
  /// Whether all of the lanes know all of a record.
  bool knows_all(Present& now, uint32_t past) {
    if (const Answer* const known = find_answer(now, past)) return known->is_ordered;
    const GlobalRecord& record = history_->record(past);
    // As long as a cluster has learnt nothing from others, all that they do at the same time is out of order.
    const bool is_elsewhere = record.cluster != now.state.number && history_->is_of_current_work(record.cluster);
    return !(is_elsewhere && now.state.notes.is_empty()) && find_out_all(now, past);
  }
  bool needs_proxy_fence(const GlobalRecord& past) const;
  bool find_out_all(Present& now, uint32_t past);
  bool knows(Present& now, const GlobalRecord& past, machine::LaneMask past_lanes, machine::LaneMask lanes);
  bool are_both_strong(const Present& now, const GlobalRecord& past) const;
  void check_proxy(Present& now, GlobalAllocation& allocation, const GlobalRecord& past, machine::LaneMask past_lanes,
                   uint64_t offset, uint32_t bytes);
  bool is_fenced(Present& now, const GlobalRecord& past, machine::LaneMask past_lanes);
  void check_map(ClusterRecord& cluster, const machine::AsyncOperation& copy);
  bool reads_some_written(Present& now, GlobalAllocation& allocation, uint32_t lane);
  void check_written(Present& now, GlobalAllocation& allocation, const GlobalSector& sector, uint64_t offset,
                     uint32_t bytes, GlobalEntry entry);

  void synchronise(Present& now);
  SharedForeign released_by(Present& now, uint32_t lane);
  SharedForeign fenced_by(Present& now, uint32_t lane);
  SharedForeign read_location(Present& now, const GlobalLocation& location);
  void executed_memory_fence(ClusterRecord& cluster, uint32_t warp, machine::LaneMask lanes, uint32_t pc);

  void report_race(Present& now, GlobalAllocation& allocation, const GlobalRecord& past, machine::LaneMask past_lanes,
                   machine::LaneMask lanes, uint64_t offset, uint32_t bytes);
  std::string reason(Present& now, const GlobalRecord& past, machine::LaneMask past_lanes, machine::LaneMask lanes,
                     std::string& cause);
  void note_polled(const ClusterRecord& cluster, const AcquireNote& read, machine::Diagnostic& report);
  // ---- Why releases and acquires do not order two accesses (global_handover.cpp) ----
  /// What was found, and what to try.
  struct Handover {
    std::string what, cause;
  };
  /// An acquire that the racing lane knows of, and a release that it has read from.
  struct Pair {
    const AcquireNote* acquire = nullptr;
    const ReleaseNote* release = nullptr;
    uint32_t warp = 0;  ///< of the acquire
  };
  std::optional<Handover> explain_handover(Present& now, const GlobalRecord& past, machine::LaneMask past_lanes,
                                           uint32_t lane);
  std::optional<Handover> known_to_others(Present& now, const GlobalRecord& past, machine::LaneMask past_lanes,
                                          uint32_t lane);
  Handover explain_pair(Present& now, const GlobalRecord& past, machine::LaneMask past_lanes, const Pair& pair,
                        uint32_t lane);
  std::optional<Handover> relaxed_writer(Present& now, const GlobalRecord& past, const AcquireNote& acquire,
                                         uint32_t warp, uint32_t lane);
  std::optional<Handover> not_acquired(Present& now, const GlobalRecord& past, machine::LaneMask past_lanes,
                                       uint32_t lane);
  machine::LaneMask not_covered(const ReleaseNote& release, const GlobalRecord& past, machine::LaneMask lanes) const;
  std::string spell_acquire(Present& now, const AcquireNote& acquire, uint32_t warp, uint32_t lane);
  std::string spell_releaser(const ReleaseNote& release) const;
  /// Calls `visit(note, warp)` for each strong read that a lane has made, or knows that others of its cluster have.
  template <typename Visit>
  void for_each_acquire(Present& now, uint32_t lane, Visit&& visit) {
    const VectorClock& known = *now.order.known(now.warp, lane);
    for (uint32_t warp = 0; warp < now.state.warps.size(); ++warp) {
      for (const AcquireNote& note : now.state.warps[warp].acquires) {
        const bool own = warp == now.warp && (note.lanes >> lane & 1) != 0;
        if (own || known.at(ThreadKnowledge::component_of(warp, machine::first_lane(note.lanes))) >= note.time) {
          visit(note, warp);
        }
      }
    }
  }

  GlobalHistory* history_ = nullptr;
  PerCluster<State> states_;
  std::vector<uint32_t> sites_;  ///< by pc; 0: not known yet
  std::unordered_map<uint64_t, GlobalLocation> locations_;
  ReleaseNotes releases_;
  uint64_t handovers_ = 0;  ///< notes of releases and acquires so far
  HiddenWrites hidden_;
  std::vector<uint8_t> observes_;  ///< by pc, of atomics: 1 if their result is used, 2 if not; 0: not known yet
  std::unordered_map<uint32_t, ClusterRecord*> running_;    ///< by number of the cluster
  std::unordered_map<uint32_t, ProxyFences> proxy_fences_;  ///< by number of the cluster
  std::unordered_set<uint64_t> acquired_maps_;              ///< tensor maps that some thread of the grid has acquired
  /// By past site, pc and what it is: one more than how strong an order the reported pair needs.
  std::unordered_map<uint64_t, uint32_t> reported_;
};

}  // namespace stagecraft::emulator::checks
