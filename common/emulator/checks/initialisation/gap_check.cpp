#include "emulator/checks/initialisation/gap_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "emulator/checks/ordering/wording.hpp"
#include "emulator/state/device_memory.hpp"

namespace stagecraft::emulator::checks {

using machine::AccessKind;
using machine::kSharedOffsetMask;

void GapCheck::cluster_started(ClusterRecord& cluster) {
  if (kernel_ == &cluster.kernel()) return;
  kernel_ = &cluster.kernel();
  gaps_.clear();
  std::vector<machine::SharedVariable> variables = kernel_->shared_variables;
  std::erase_if(variables, [](const machine::SharedVariable& each) { return each.size == 0; });
  std::sort(variables.begin(), variables.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  uint32_t end = 0;
  for (const machine::SharedVariable& each : variables) {
    if (end != 0 && each.offset > end) gaps_.emplace_back(end, each.offset);
    end = each.offset + each.size;
  }
  // Dynamic shared memory begins behind what is static, at a multiple of its alignment.
  const uint32_t last = machine::kSharedReservedBytes + kernel_->static_shared_bytes;
  if (end != 0 && last > end) gaps_.emplace_back(end, last);
}

bool GapCheck::is_in_gap(uint32_t offset) const {
  return std::any_of(gaps_.begin(), gaps_.end(),
                     [&](const auto& gap) { return offset >= gap.first && offset < gap.second; });
}

void GapCheck::check_access(const ClusterRecord& cluster, const machine::MemoryAccess& access) {
  machine::LaneMask outside = 0;
  machine::for_each_lane(access.lanes, [&](uint32_t lane) {
    const uint32_t offset = access.shared[lane] & kSharedOffsetMask;
    outside |= (is_in_gap(offset) || is_in_gap(offset + access.bytes - 1) ? 1u : 0u) << lane;
  });
  if (outside == 0) return;
  const uint32_t offset = access.shared[machine::first_lane(outside)] & kSharedOffsetMask;
  report(cluster, *access.fragment, outside, is_in_gap(offset) ? offset : offset + access.bytes - 1,
         access.kind == AccessKind::read ? "reads" : "writes");
}

void GapCheck::operation_issued(ClusterRecord& cluster, const IssuedOperation& operation) {
  if (gaps_.empty()) return;
  const machine::AsyncOperation& event = operation.event;
  const auto look = [&](const std::vector<machine::SharedRange>& ranges, const char* verb) {
    for (const machine::SharedRange& range : ranges) {
      if (range.bytes == 0) continue;
      const uint32_t first = range.address & kSharedOffsetMask, last = first + range.bytes - 1;
      if (!is_in_gap(first) && !is_in_gap(last)) continue;
      report(cluster, *event.fragment, 1u << event.lane, is_in_gap(first) ? first : last, verb);
    }
  };
  look(event.reads, "reads");
  look(event.writes, "writes");
}

void GapCheck::barrier_changed(ClusterRecord& cluster, const machine::BarrierEvent& event) {
  if (gaps_.empty() || event.kind != machine::BarrierEventKind::init || event.fragment == nullptr) return;
  if (is_in_gap(event.offset)) report(cluster, *event.fragment, event.lanes, event.offset, "puts an mbarrier at");
}

void GapCheck::report(const ClusterRecord& cluster, const machine::Fragment& fragment, machine::LaneMask lanes,
                      uint32_t offset, const char* verb) {
  auto identity = findings_.claim("gap", fragment.pc, fragment.pc);
  if (!identity) return;
  machine::Diagnostic finding;
  finding.kind = "illegal address";
  finding.subject = variable_of(cluster.kernel().name_of_shared(offset, 1));
  finding.place = place_of(cluster, cluster.order().warp_number(fragment), lanes, fragment.pc);
  finding.message = fmt::format("{} shared address {:#x}, which belongs to no variable", verb, offset);
  finding.details.push_back("that is " + cluster.kernel().describe_gap(offset));
  finding.details.emplace_back("the bytes are there only because the next variable must be aligned");
  finding.likely_cause = "an index runs past the end of the array, or the array is declared too short";
  findings_.add(cluster.cluster(), std::move(*identity), std::move(finding));
}

}  // namespace stagecraft::emulator::checks
