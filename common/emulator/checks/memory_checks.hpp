// The checks of memory as one observer: it feeds the shared record with each event, and passes the event on to each
// check.
//
// A warp's access of shared memory is the most frequent event, so the checks are no observers of their own: one virtual
// call announces the access, and the hooks of a check are called directly, because its type is known here.
#pragma once

#include <tuple>
#include <vector>

#include "emulator/checks/ordering/memory_check.hpp"

namespace stagecraft::emulator::checks {

/// @tparam Checks  classes that derive from MemoryCheck, in the order in which they see an event
template <typename... Checks>
class MemoryChecks final : public machine::Observer {
 public:
  bool wants_memory_events() const override { return true; }

  void grid_started(const machine::Grid& grid) override {
    record_.clear();
    findings_.start(*grid.kernel);
  }
  void grid_finished(const machine::Grid&) override { record_.clear(); }
  void block_started(const machine::Block& block) override {
    ClusterRecord* cluster = record_.start_block(block);
    if (cluster == nullptr) return;
    for_each_check([&](auto& check) { check.cluster_started(*cluster); });
  }
  void block_finished(const machine::Block& block) override {
    ClusterRecord* cluster = record_.find(*block.cluster);
    if (cluster == nullptr) return;
    for_each_check([&](auto& check) { check.block_finished(*cluster, block); });
    if (!OrderingRecord::finish_block(*cluster)) return;
    for_each_check([&](auto& check) { check.cluster_finished(*cluster); });
    record_.forget(*cluster);
  }
  void cluster_stuck(const machine::Cluster& stuck, machine::Diagnostic&) override {
    ClusterRecord* cluster = record_.find(stuck);
    if (cluster == nullptr) return;
    for_each_check([&](auto& check) { check.cluster_stuck(*cluster); });
  }
  void cluster_repeated(const machine::Cluster& repeated, machine::Diagnostic& report) override {
    ClusterRecord* cluster = record_.find(repeated);
    if (cluster == nullptr) return;
    for_each_check([&](auto& check) { check.cluster_repeated(*cluster, report); });
  }

  void barrier_changed(const machine::BarrierEvent& event) override {
    ClusterRecord* cluster = record_.find(*event.block->cluster);
    if (cluster == nullptr) return;
    for_each_check([&](auto& check) { check.barrier_changed(*cluster, event); });
    OrderingRecord::order_of(*cluster).barrier_changed(event);
  }
  void memory_accessed(const machine::MemoryAccess& event) override {
    ClusterRecord* cluster = record_.find(event.fragment->cluster());
    if (cluster == nullptr) return;
    const RecordedAccess recorded = OrderingRecord::order_of(*cluster).memory_accessed(event);
    for_each_check([&](auto& check) { check.memory_accessed(*cluster, recorded); });
  }
  void warp_synchronised(const machine::Fragment& fragment, machine::LaneMask lanes) override {
    announce(
        fragment.cluster(), [&](ClusterOrder& order) { order.warp_synchronised(fragment, lanes); },
        [&](auto& check, ClusterRecord& cluster) { check.warp_synchronised(cluster, fragment, lanes); });
  }
  void lanes_exchanged(const machine::Fragment& fragment, machine::LaneMask lanes) override {
    ClusterRecord* cluster = record_.find(fragment.cluster());
    if (cluster != nullptr) OrderingRecord::order_of(*cluster).lanes_exchanged(fragment, lanes);
  }
  void store_read_early(const machine::EarlyRead& event) override {
    ClusterRecord* cluster = record_.find(event.fragment->cluster());
    if (cluster == nullptr) return;
    for_each_check([&](auto& check) { check.store_read_early(*cluster, event); });
  }
  void fence_executed(const machine::Fragment& fragment, machine::LaneMask lanes, machine::FenceKind kind) override {
    announce(
        fragment.cluster(), [&](ClusterOrder& order) { order.fence_executed(fragment, lanes, kind); },
        [&](auto& check, ClusterRecord& cluster) { check.fence_executed(cluster, fragment, lanes, kind); });
  }
  void threads_met(const machine::Rendezvous& event) override {
    announce(
        *event.cluster, [&](ClusterOrder& order) { order.threads_met(event); },
        [&](auto& check, ClusterRecord& cluster) { check.threads_met(cluster, event); });
  }
  void operation_issued(const machine::AsyncOperation& event) override {
    ClusterRecord* cluster = record_.find(event.fragment->cluster());
    if (cluster == nullptr) return;
    const IssuedOperation issued = OrderingRecord::order_of(*cluster).operation_issued(event);
    for_each_check([&](auto& check) { check.operation_issued(*cluster, issued); });
  }
  void group_changed(const machine::GroupEvent& event) override {
    announce(
        event.fragment->cluster(), [&](ClusterOrder& order) { order.group_changed(event); },
        [&](auto& check, ClusterRecord& cluster) { check.group_changed(cluster, event); });
  }
  void tensor_map_changed(const machine::TensorMapEvent& event) override {
    announce(
        event.fragment->cluster(), [&](ClusterOrder& order) { order.tensor_map_changed(event); },
        [&](auto& check, ClusterRecord& cluster) { check.tensor_map_changed(cluster, event); });
  }
  void tensor_memory_changed(const machine::TensorEvent& event) override {
    announce(
        event.fragment->cluster(), [&](ClusterOrder& order) { order.tensor_memory_changed(event); },
        [&](auto& check, ClusterRecord& cluster) { check.tensor_memory_changed(cluster, event); });
  }
  void nan_scales_used(const machine::NanScales& event) override {
    ClusterRecord* cluster = record_.find(*event.block->cluster);
    if (cluster == nullptr) return;
    for_each_check([&](auto& check) { check.nan_scales_used(*cluster, event); });
  }
  void warpgroup_issued(const machine::WarpgroupIssue& event) override {
    announce(
        event.fragment->cluster(), [&](ClusterOrder& order) { order.warpgroup_issued(event); },
        [&](auto& check, ClusterRecord& cluster) { check.warpgroup_issued(cluster, event); });
  }
  void warpgroup_waited(const machine::WarpgroupWait& event) override {
    announce(
        event.fragment->cluster(), [&](ClusterOrder& order) { order.warpgroup_waited(event); },
        [&](auto& check, ClusterRecord& cluster) { check.warpgroup_waited(cluster, event); });
  }
  void warpgroup_fenced(const machine::Fragment& fragment) override {
    ClusterRecord* cluster = record_.find(fragment.cluster());
    if (cluster == nullptr) return;
    for_each_check([&](auto& check) { check.warpgroup_fenced(*cluster, fragment); });
  }
  void warpgroup_registers_used(const machine::WarpgroupRegisterUse& event) override {
    ClusterRecord* cluster = record_.find(event.fragment->cluster());
    if (cluster == nullptr) return;
    for_each_check([&](auto& check) { check.warpgroup_registers_used(*cluster, event); });
  }

  std::vector<machine::Finding> findings() override { return findings_.take(); }
  std::vector<machine::WrittenResult> results() override {
    std::vector<machine::WrittenResult> results;
    for_each_check([&](auto& check) { check.add_results(results); });
    return results;
  }

  /// One of the checks, for what it needs besides events.
  template <typename Check>
  Check& get() {
    return std::get<Check>(checks_);
  }

 private:
  template <typename Call>
  void for_each_check(Call&& call) {
    std::apply([&](auto&... checks) { (call(checks), ...); }, checks_);
  }
  /// Feeds the record of a cluster, then calls the checks.
  template <typename Feed, typename Call>
  void announce(const machine::Cluster& of_event, Feed&& feed, Call&& call) {
    ClusterRecord* cluster = record_.find(of_event);
    if (cluster == nullptr) return;
    feed(OrderingRecord::order_of(*cluster));
    for_each_check([&](auto& check) { call(check, *cluster); });
  }
  template <typename Check>
  FindingLog& findings_for() {
    return findings_;
  }

  OrderingRecord record_;
  FindingLog findings_;
  std::tuple<Checks...> checks_{findings_for<Checks>()...};
};

}  // namespace stagecraft::emulator::checks
