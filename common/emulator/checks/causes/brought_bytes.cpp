#include "emulator/checks/causes/brought_bytes.hpp"

#include <fmt/format.h>

#include "emulator/checks/ordering/wording.hpp"

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
  std::string text;
  for (size_t i = 0; i < ranges.size(); ++i) {
    const BroughtRange& range = ranges[i];
    text += i == 0 ? "" : i + 1 == ranges.size() ? " and " : ", ";
    text += fmt::format("{}{} to {}", range.end - range.begin, i == 0 ? " bytes" : "",
                        cluster.kernel().name_of_shared_byte(range.begin));
    if (cluster.memory.size() > 1) text += fmt::format(" of the block of rank {}", range.rank);
  }
  return text;
}

}  // namespace stagecraft::emulator::checks
