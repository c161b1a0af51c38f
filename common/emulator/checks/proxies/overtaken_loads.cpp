#include "emulator/checks/proxies/overtaken_loads.hpp"

#include <algorithm>

namespace stagecraft::emulator::checks {

using machine::LaneMask;

namespace {

// Loads kept for each warp: those of all stages of a ring, and what it reads from a stage at once is in registers.
constexpr size_t kLoadsKept = 256;

}  // namespace

bool OvertakenLoads::Load::overlaps(const machine::SharedRange& range) const {
  bool found = false;
  machine::for_each_lane(access.lanes, [&](uint32_t lane) {
    found = found || (shared[lane] < range.address + range.bytes && range.address < shared[lane] + bytes);
  });
  return found;
}

void OvertakenLoads::note_read(const RecordedAccess& recorded) {
  const machine::MemoryAccess& event = recorded.event;
  std::vector<Load>& latest = latest_[recorded.warp_number];
  auto load =
      std::find_if(latest.begin(), latest.end(), [&](const Load& each) { return each.access.pc() == event.pc; });
  if (load == latest.end()) load = latest.insert(load, Load{});
  load->access = {recorded.warp_number, event.lanes, recorded.warp->time, event.pc};
  load->bytes = event.bytes;
  std::copy_n(event.shared, machine::kWarpSize, load->shared.begin());
}

void OvertakenLoads::note_fence(uint32_t warp, LaneMask lanes) {
  std::erase_if(latest_[warp], [&](const Load& load) { return (load.access.lanes & ~lanes) == 0; });
}

void OvertakenLoads::note_arrival(const UnreadLoads& unread, const machine::BarrierEvent& event, uint32_t warp,
                                  Time time) {
  const uint32_t pc = event.fragment->pc;
  for (Load& load : overtaken_[warp]) {
    if (load.over == 0 && !unread.is_unread(load.access.pc(), pc)) load.over = time;
  }
  for (const Load& load : latest_[warp]) {
    if (!unread.is_unread(load.access.pc(), pc)) continue;
    overtaken_[warp].push_back(load);
    overtaken_[warp].back().arrival_pc = pc;
    overtaken_[warp].back().arrival_lane = machine::first_lane(event.lanes);
    overtaken_[warp].back().arrival = time;
  }
  while (overtaken_[warp].size() > kLoadsKept) overtaken_[warp].pop_front();
}

void OvertakenLoads::note_meeting(uint32_t warp, Time time) {
  for (Load& load : overtaken_[warp]) {
    if (load.over == 0) load.over = time;
  }
}

}  // namespace stagecraft::emulator::checks
