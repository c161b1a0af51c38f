#include "emulator/scheduling/shrinking.hpp"

#include <algorithm>
#include <utility>

namespace stagecraft::emulator::machine {

Schedule shrink(Schedule schedule, const std::function<bool(const Schedule&)>& fails, uint32_t runs) {
  if (schedule.empty()) return schedule;
  if (runs-- == 0) return schedule;
  if (fails({})) return {};
  // Parts of this many switches are left out, one after another; when none can be, smaller ones.
  size_t part = (schedule.size() + 1) / 2;
  for (;;) {
    bool shrunk = false;
    for (size_t first = 0; first < schedule.size();) {
      if (runs-- == 0) return schedule;
      const auto begin = schedule.begin() + static_cast<std::ptrdiff_t>(first);
      const auto end = schedule.begin() + static_cast<std::ptrdiff_t>(std::min(first + part, schedule.size()));
      Schedule rest(schedule.begin(), begin);
      rest.insert(rest.end(), end, schedule.end());
      if (!rest.empty() && fails(rest)) {
        schedule = std::move(rest);
        shrunk = true;
      } else {
        first += part;
      }
    }
    if (part == 1 && !shrunk) return schedule;
    part = std::min(std::max<size_t>(part / 2, 1), schedule.size());
  }
}

}  // namespace stagecraft::emulator::machine
