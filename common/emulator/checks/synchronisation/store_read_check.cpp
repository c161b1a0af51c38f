#include "emulator/checks/synchronisation/store_read_check.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "emulator/checks/ordering/wording.hpp"
#include "emulator/checks/reporting/report.hpp"

namespace stagecraft::emulator::checks {

void StoreReadCheck::store_read_early(ClusterRecord& cluster, const machine::EarlyRead& event) {
  const machine::StoreUnderWay& store = *event.store;
  const auto identity = findings_.claim("early read", store.pc, event.pc);
  if (!identity) return;
  machine::Diagnostic finding;
  finding.kind = "missing wait";
  finding.place = place_of(cluster, cluster.order().warp_number(*event.fragment), event.lanes, event.pc);
  finding.message = fmt::format("reads global memory at 0x{:x}, which a {} is still to write: what is read is old",
                                event.address, store.what);
  const machine::Extent3& block = store.block->index;
  finding.details.push_back(fmt::format("block ({},{},{}) warp {} [{}] issued the {}{}", block.x, block.y, block.z,
                                        store.warp, describe_lanes(1u << store.lane), store.what,
                                        line_of(cluster, store.pc)));
  if (store.group->read_awaited) {
    finding.details.push_back(
        "it has waited with cp.async.bulk.wait_group.read, which ends when shared memory has been read; the writes to "
        "global memory end later");
    finding.likely_cause =
        "wait with cp.async.bulk.wait_group, without .read, before the result is read; other threads need a barrier "
        "after that wait";
  } else {
    finding.details.push_back("nobody has waited for it");
    finding.likely_cause =
        "the thread that issues the copy must commit it (cp.async.bulk.commit_group) and wait "
        "(cp.async.bulk.wait_group 0, without .read) before the result is read; other threads need a barrier after "
        "that wait";
  }
  findings_.add(cluster.cluster(), *identity, std::move(finding));
}

}  // namespace stagecraft::emulator::checks
