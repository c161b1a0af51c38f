#include "emulator/checks/causes/brought_bytes.hpp"

#include <fmt/format.h>

#include "emulator/checks/ordering/wording.hpp"
#include "emulator/checks/reporting/report.hpp"

namespace stagecraft::emulator::checks {

std::vector<BroughtRange> brought_in(const ClusterRecord& cluster, uint32_t barrier, Time phase) {
  constexpr uint32_t kStep = 16;  // most copies bring multiples of 16 bytes, and a cell has no more
  const ClusterOrder& order = cluster.order();
  std::vector<BroughtRange> ranges;
  for (uint32_t rank = 0; rank < cluster.memory.size(); ++rank) {
    const ShadowMemory& memory = cluster.memory[rank];
    for (uint32_t at = 0; at < memory.bytes(); at += kStep) {
      memory.for_each_write(at, kStep, [&](const PastAccess& write, uint32_t offset) {
        if (!write.is_asynchronous()) return;
        const Operation& copy = order.operation(write.operation());
        if (copy.completion != machine::AsyncCompletion::mbarrier || copy.barrier != barrier || copy.phase != phase) {
          return;
        }
        const bool follows = !ranges.empty() && ranges.back().rank == rank && ranges.back().end >= offset;
        if (!follows) ranges.push_back({rank, offset, offset, copy.pc});
        ranges.back().end = at + kStep;
      });
    }
  }
  return ranges;
}

std::string spell_brought(const ClusterRecord& cluster, const std::vector<BroughtRange>& ranges) {
  constexpr size_t kMost = 4;
  if (ranges.size() > kMost) return {};
  std::vector<std::string> parts;
  for (const BroughtRange& range : ranges) {
    parts.push_back(fmt::format("{}{} to {}", range.end - range.begin, parts.empty() ? " bytes" : "",
                                cluster.kernel().name_of_shared_byte(range.begin)));
    if (cluster.memory.size() > 1) parts.back() += fmt::format(" of the block of rank {}", range.rank);
  }
  return join(parts);
}

}  // namespace stagecraft::emulator::checks
