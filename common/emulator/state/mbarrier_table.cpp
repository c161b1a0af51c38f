#include "emulator/state/mbarrier_table.hpp"

#include <fmt/format.h>

namespace stagecraft::emulator::machine {

uint64_t word_of(const Mbarrier& barrier) {
  constexpr uint64_t kCountMask = (1u << 20) - 1;
  constexpr uint64_t kTransactionMask = (1u << 22) - 1;
  const uint64_t pending = ((1u << 20) - barrier.pending) & kCountMask;
  const uint64_t expected = ((1u << 20) - barrier.expected) & kCountMask;
  const uint64_t transaction = static_cast<uint64_t>(barrier.transaction) & kTransactionMask;
  return (barrier.phase & 1) << 63 | pending << 43 | transaction << 21 | expected << 1;
}

std::vector<std::string> describe(const Mbarrier& barrier, std::string_view name) {
  std::string line =
      fmt::format("{}: phase {}, {} of {} arrivals pending", name, barrier.phase, barrier.pending, barrier.expected);
  std::vector<std::string> lines;
  if (barrier.transaction > 0) {
    line += fmt::format(", {} of {} bytes outstanding", barrier.transaction, barrier.announced);
  } else if (barrier.transaction < 0) {
    line += fmt::format(", {} bytes more came than the {} announced", -barrier.transaction, barrier.announced);
  } else if (barrier.announced > 0) {
    line += fmt::format(", all {} announced bytes came", barrier.announced);
  }
  lines.push_back(std::move(line));
  return lines;
}

}  // namespace stagecraft::emulator::machine
