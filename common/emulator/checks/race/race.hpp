// Finds accesses of shared memory that nothing orders.
//
// Two accesses of the same bytes race when at least one writes, not both are strong (volatile, atomic), and neither
// happens before the other. What happens before what is decided by the synchronisation that the program made
// (happens_before.hpp), not by the order in which things chanced to happen: so a race is found although this run got
// away with it, and the same in every run of the same schedule.
//
// Threads, bulk and tensor copies, cp.async and the operand reads of the tensor core take part; mbarriers themselves
// are no data. Lanes that write the same value to the same place in one instruction do not race. When threads do so
// that nothing orders, such as all those of a block that set a flag, it is a race by PTX, but the value does not depend
// on who comes first, and chips are not known to mind.
//
// Accesses that are ordered may still need more: a fence.proxy.async where an asynchronous unit follows a thread's
// write (proxy_check.cpp), and in tensor memory the waits and fences of tcgen05 (tensor_order.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "emulator/checks/ordering/happens_before.hpp"
#include "emulator/checks/proxies/proxy_fences.hpp"
#include "emulator/checks/race/barrier_interval.hpp"
#include "emulator/checks/race/shadow_memory.hpp"
#include "emulator/checks/reporting/finding_log.hpp"
#include "emulator/checks/tensor_memory/tensor_order.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::checks {

class RaceCheck : public machine::Observer {
 public:
  bool wants_memory_events() const override { return true; }
  void grid_started(machine::Grid&) override;
  void grid_finished(machine::Grid&) override;
  void block_started(machine::Block& block) override;
  void block_finished(machine::Block& block) override;
  void barrier(const machine::BarrierEvent& event) override;
  void cluster_stuck(machine::Cluster& cluster, machine::Diagnostic& report) override;
  void access(const machine::MemoryAccess& access) override;
  void warp_synchronised(machine::Fragment& fragment, machine::LaneMask lanes) override;
  void fence(machine::Fragment& fragment, machine::LaneMask lanes, machine::FenceKind kind) override;
  void rendezvous(const machine::Rendezvous& event) override;
  void issued(const machine::AsyncOperation& operation) override;
  void group(const machine::GroupEvent& event) override;
  void warpgroup_issued(const machine::WarpgroupIssue& event) override;
  void warpgroup_waited(const machine::WarpgroupWait& event) override;
  void tensor(const machine::TensorEvent& event) override;
  std::vector<machine::Finding> findings() override { return findings_.take(); }

 private:
  /// What is remembered of accesses of shared memory; empty, it is kept for the next cluster.
  struct Memory {
    std::vector<ShadowMemory> shadows;  ///< by rank
    BarrierInterval interval;
  };
  struct ClusterState {
    ClusterState(const machine::Cluster& cluster_, Memory memory, uint32_t blocks, uint32_t warps, uint32_t threads)
        : cluster(&cluster_),
          order(blocks, warps, threads),
          shadows(std::move(memory.shadows)),
          interval(std::move(memory.interval)),
          proxy_fences(blocks * warps),
          tensor_memory(blocks, blocks * warps) {}
    /// Only there a barrier of a block is one of all threads, and accesses are put off.
    bool has_one_block() const { return shadows.size() == 1; }

    const machine::Cluster* cluster;
    ClusterOrder order;
    std::vector<ShadowMemory> shadows;  ///< by rank
    BarrierInterval interval;
    ProxyFences proxy_fences;
    std::map<uint32_t, size_t> awaited_fences;  ///< warp that lacks one: number of the finding that says so
    TensorOrder tensor_memory;
    std::set<uint32_t> racing;  ///< instructions that race for tensor memory
    struct Uncommitted {
      uint32_t operations = 0, pc = 0;  ///< pc: of the latest
    };
    std::map<std::pair<uint32_t, uint32_t>, Uncommitted> uncommitted;  ///< by warp and lane, those since a commit
    uint32_t finished_blocks = 0;
  };
  /// An access that is being checked.
  struct Present {
    PastAccess record;
    uint32_t warp;            ///< whose clock counts: that of the thread, or of the issuer
    machine::LaneMask lanes;  ///< the same for lanes, when the record is not scattered
    const VectorClock* known;
    const char* what = "";                  ///< of an operation, for reports
    const VectorClock* together = nullptr;  ///< of a wgmma: what its four warps knew, beyond what PTX lets it rely on
    bool changes_nothing = false;           ///< a write of what is there already
    bool was_put_off = false;
  };
  /// What became of the histories of one block that an access has met: one that comes again goes the same way.
  class Outcomes {
   public:
    static constexpr uint32_t kNone = 0xffffffffu;
    uint32_t rank = 0;
    uint32_t begun = kNone;  ///< the history that a write has begun

    void add(uint32_t before, uint32_t after) {
      befores_[next_ % befores_.size()] = before;
      afters_[next_++ % afters_.size()] = after;
    }
    /// That of cells which have `history`; kNone: not known.
    uint32_t of(uint32_t history) const {
      // What has become of others first: the number of a history that nothing has any more is given to the next.
      if (std::find(afters_.begin(), afters_.end(), history) != afters_.end()) return history;
      const auto found = std::find(befores_.begin(), befores_.end(), history);
      return found == befores_.end() ? kNone : afters_[static_cast<size_t>(found - befores_.begin())];
    }

   private:
    std::array<uint32_t, 4> befores_{kNone, kNone, kNone, kNone}, afters_ = befores_;
    uint32_t next_ = 0;
  };

  ClusterState* state_of(const machine::Cluster* cluster);
  bool put_off(ClusterState& state, const machine::MemoryAccess& access, const PastAccess& record);
  void catch_up(ClusterState& state);
  machine::LaneMask check_lanes(ClusterState& state, const machine::MemoryAccess& access, machine::LaneMask lanes,
                                Present& now);
  void check_scattered(ClusterState& state, const uint32_t* addresses, uint32_t bytes, Present& now,
                       Outcomes& outcomes);
  void check_overlapping_writes(ClusterState& state, const machine::MemoryAccess& access, uint32_t warp);
  void check_overrun(ClusterState& state, const machine::BarrierEvent& event);
  void check_initialised(ClusterState& state, const machine::BarrierEvent& event);

  // An access against the histories of the bytes that it touches; race_cells.cpp.
  void check_range(ClusterState& state, uint32_t address, uint32_t bytes, uint32_t unit, const Present& now,
                   Outcomes& outcomes);
  uint32_t read(ClusterState& state, uint32_t rank, Cells& cells, const Present& now);
  void check_read(ClusterState& state, uint32_t rank, const Cells& cells, const Present& now);
  uint32_t write(ClusterState& state, uint32_t rank, Cells& cells, const Present& now, uint32_t& begun);
  bool races(ClusterState& state, uint32_t rank, const PastAccess& before, const Cells& cells, const Present& now) {
    if (before.agent == PastAccess::kNobody || (before.strong() && now.record.strong())) return false;
    return !state.order.knows_of_all(before, *now.known) && find_race(state, rank, before, cells, now);
  }
  bool find_race(ClusterState& state, uint32_t rank, const PastAccess& before, const Cells& cells, const Present& now);
  static bool is_superseded(const ClusterState& state, const PastAccess& before, const PastAccess& now);

  // What asynchronous operations need beside order; proxy_check.cpp.
  void check_proxies(ClusterState& state, const machine::AsyncOperation& operation);
  static void note_thread_write(ClusterState& state, uint32_t address, uint32_t bytes) {
    const uint32_t rank = address >> machine::kSharedRankShift;
    if (rank < state.shadows.size()) {
      state.shadows[rank].note_thread_write(address & machine::kSharedOffsetMask, bytes);
    }
  }
  void check_initialised(ClusterState& state, const machine::AsyncOperation& operation);
  static bool is_copied_with(ClusterState& state, const machine::AsyncOperation& operation,
                             const machine::MatrixRead& matrix);
  void check_alignment(ClusterState& state, const machine::AsyncOperation& operation);
  void note_fence(ClusterState& state, machine::Fragment& fragment, machine::LaneMask lanes, machine::FenceKind kind);
  void report_proxy(ClusterState& state, const PastAccess& before, const machine::AsyncOperation& operation,
                    uint32_t address, bool writes);
  void report_layout(ClusterState& state, const PastAccess& before, const machine::AsyncOperation& operation,
                     const machine::MatrixRead& matrix, uint32_t address);
  machine::Place place_of(const ClusterState& state, const machine::AsyncOperation& operation) const;
  // Tensor memory; tensor_report.cpp.
  void report_tensor(ClusterState& state, const std::vector<TensorConflict>& conflicts);
  void check_quarter(const ClusterState& state, const machine::TensorEvent& event);
  static void note_commits(ClusterState& state, const machine::AsyncOperation& operation);
  void report_uncommitted(const ClusterState& state);
  std::string cause_of(ClusterState& state, const TensorConflict& conflict) const;
  std::string describe(const ClusterState& state, const TensorAccess& access) const;

  // Reports; race_report.cpp.
  void report(ClusterState& state, const PastAccess& before, const Present& now, uint32_t address);
  void report_same_instruction(ClusterState& state, const PastAccess& now, machine::LaneMask others, uint32_t address);
  void report_overrun(ClusterState& state, const machine::BarrierEvent& event, const BarrierOrder& barrier);
  void report_uninitialised(ClusterState& state, const machine::Fragment& fragment, machine::LaneMask lanes,
                            const BarrierOrder& barrier);
  void report_outlived(const ClusterState& state, const Operation& copy);
  void report_stale(ClusterState& state, uint32_t warp, const WaitNote& note, const BarrierOrder& barrier);
  machine::Place place_of(const ClusterState& state, uint32_t warp, machine::LaneMask lanes, uint32_t pc) const;
  std::string describe(const ClusterState& state, const PastAccess& access) const;
  std::string cause_of(ClusterState& state, const PastAccess& before, const Present& now);
  std::string cause_with_copy(ClusterState& state, const PastAccess& thread, const Operation& copy, bool copy_first,
                              const VectorClock& known);
  std::string cause_between_threads(ClusterState& state, const PastAccess& before, const Present& now);
  /// For an access by a warp that has waited for a copy's barrier, and yet came before its bytes; empty when it has
  /// not.
  std::string cause_in_bytes(const ClusterState& state, const Operation& copy, uint32_t waiting_warp) const;
  /// For two copies to the same bytes; empty when their barriers and phases explain nothing.
  std::string cause_between_copies(const ClusterState& state, const Operation& first, const Operation& second) const;
  /// For a copy into what the tensor core reads: how a commit that came before the read let the copy's thread go on;
  /// empty when none did.
  std::string cause_in_commits(const ClusterState& state, const Operation& read, uint32_t waiting_warp) const;
  /// How the thread of `access` gave the bytes away too early, or for itself alone; empty when nothing shows that.
  /// `known` is what the other side had learnt when it took them (null: not known any more), `copy` what it took them
  /// for, if that was a copy, and `since` the number of arrivals that do not count, because they came before.
  std::string cause_in_arrivals(const ClusterState& state, const PastAccess& access, uint32_t other_warp,
                                const VectorClock* known, const Operation* copy, uint64_t since) const;
  machine::LaneMask arrived_since(const ClusterState& state, const PastAccess& access, uint32_t barrier) const;
  std::string unused_sibling(const ClusterState& state, const BarrierOrder& barrier, uint32_t waiting_warp) const;
  std::string line_of(uint32_t pc) const;
  std::string name_of(const BarrierOrder& barrier) const;

  const machine::Grid* grid_ = nullptr;
  std::map<const machine::Cluster*, std::unique_ptr<ClusterState>> clusters_;
  ClusterState* latest_ = nullptr;
  bool lanes_decide_ = false;  ///< whether there is a race: cells that differ in nothing else may differ in that
  std::vector<Memory> spare_;  ///< of clusters that have ended, for those to come
  FindingLog findings_;
};

}  // namespace stagecraft::emulator::checks
