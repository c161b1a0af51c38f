#include "emulator/checks/barrier_interval.hpp"

namespace stagecraft::emulator::checks {

void BarrierInterval::note_write(const PastAccess& write, uint32_t offset, uint32_t bytes) {
  const uint32_t first = offset / kPageBytes, last = (offset + bytes - 1) / kPageBytes;
  if (!write.is_asynchronous()) return mark(first, last, number_);
  if (under_way_.size() < kMostUnderWay) {
    under_way_.push_back({write, first, last});
    return mark(first, last, kUnderWay);
  }
  // Those of a kernel whose copies are waited for at mbarriers: a barrier of all threads tells nothing of them.
  mark(first, last, kAlways);
  for (const UnderWay& each : under_way_) mark(each.first_page, each.last_page, kAlways);
  under_way_.clear();
}

void BarrierInterval::reset() {
  forget();
  number_ = 1;
  pages_.assign(kPages, {});
  under_way_.clear();
}

}  // namespace stagecraft::emulator::checks
