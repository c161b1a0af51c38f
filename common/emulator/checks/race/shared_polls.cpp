// What the threads of an endless loop poll in shared memory, what is there, and who wrote it last.
#include <fmt/format.h>

#include <cstring>

#include "emulator/checks/causes/control_flow.hpp"
#include "emulator/checks/ordering/wording.hpp"
#include "emulator/checks/race/race_check.hpp"
#include "emulator/state/fragments.hpp"
#include "emulator/state/mbarrier_table.hpp"

namespace stagecraft::emulator::checks {

void RaceCheck::cluster_repeated(ClusterRecord& cluster, machine::Diagnostic& report) {
  for (const auto& block : cluster.cluster().blocks) {
    for (const machine::Warp& warp : block->warps) {
      const auto poll = polls_.find(&warp);
      if (poll == polls_.end()) continue;
      for (const auto& fragment : warp.fragments) {
        const uint32_t pc = poll->second.pc;
        if (!machine::continues_alone(*fragment) || (poll->second.lanes & fragment->mask) == 0) continue;
        if (pc != fragment->pc && !may_come_before(cluster.kernel(), fragment->pc, pc, fragment->pc, false)) continue;
        if (!report.place.has_warp) {
          report.place = place_of(cluster, cluster.order().warp_number(*fragment), fragment->mask, pc);
        }
        return describe_poll(cluster, poll->second, report);
      }
    }
  }
}

void RaceCheck::describe_poll(ClusterRecord& cluster, const Poll& poll, machine::Diagnostic& report) {
  const uint32_t rank = poll.address >> machine::kSharedRankShift;
  const uint32_t offset = poll.address & machine::kSharedOffsetMask;
  uint64_t value = 0;
  if (rank >= cluster.memory.size() || poll.bytes > sizeof value) return;
  catch_up(states_[cluster]);
  std::memcpy(&value, cluster.cluster().blocks[rank]->shared.data() + offset, poll.bytes);
  // A write that a barrier of the block orders before all else may be forgotten.
  std::string writer, line;
  cluster.memory[rank].for_each_write(offset, poll.bytes, [&](const PastAccess& write, uint32_t) {
    writer = describe(cluster, write);
    line = line_of(cluster, write.pc());
  });
  const std::string place = cluster.kernel().name_of_shared(offset, poll.bytes);
  report.details.push_back(fmt::format("it polls {} in shared memory{}: the value is {} there{}", place,
                                       line_of(cluster, poll.pc), value,
                                       writer.empty() ? writer : ", and " + writer + " last"));
  report.likely_cause =
      writer.empty()
          ? fmt::format("nobody who still runs comes to a write of {}: is it missing, or behind this loop?", place)
          : fmt::format(
                "the write{} has left a value that the loop does not end with, and nobody will change it any "
                "more: is another write missing, or does the loop wait for another value?",
                line);
}

}  // namespace stagecraft::emulator::checks
