#include "emulator/checks/ordering/vector_clock.hpp"

namespace stagecraft::emulator::checks {

using machine::for_each_lane;
using machine::kAllLanes;

namespace {

void raise_all(std::vector<Time>& mine, const std::vector<Time>& theirs) {
  if (theirs.size() > mine.size()) mine.resize(theirs.size(), 0);
  for (size_t i = 0; i < theirs.size(); ++i) mine[i] = std::max(mine[i], theirs[i]);
}

bool none_is_later(const std::vector<Time>& mine, const std::vector<Time>& theirs) {
  const size_t common = std::min(mine.size(), theirs.size());
  uint32_t later = 0;
  for (size_t i = 0; i < common; ++i) later |= mine[i] > theirs[i] ? 1u : 0u;
  for (size_t i = common; i < mine.size(); ++i) later |= mine[i] != 0 ? 1u : 0u;
  return later == 0;
}

}  // namespace

VectorClock::Lanes& VectorClock::take_apart(uint32_t warp) {
  const auto place = std::lower_bound(apart_.begin(), apart_.end(), warp,
                                      [](const Lanes& lanes, uint32_t number) { return lanes.warp < number; });
  if (place != apart_.end() && place->warp == warp) return *place;
  Lanes lanes{warp, {}};
  lanes.times.fill(of_warp(warp));
  return *apart_.insert(place, lanes);
}

bool VectorClock::settle(const Lanes& lanes) {
  const auto [earliest, latest] = std::minmax_element(lanes.times.begin(), lanes.times.end());
  warps_[lanes.warp] = *earliest;
  return *earliest == *latest;
}

void VectorClock::raise(uint32_t warp, machine::LaneMask lanes, Time time) {
  if (warp >= warps_.size()) warps_.resize(warp + 1, 0);
  if (lanes == kAllLanes && find(warp) == nullptr) {
    warps_[warp] = std::max(warps_[warp], time);
    return;
  }
  Lanes& mine = take_apart(warp);
  for_each_lane(lanes, [&](uint32_t lane) { mine.times[lane] = std::max(mine.times[lane], time); });
  if (settle(mine)) apart_.erase(apart_.begin() + (&mine - apart_.data()));
}

void VectorClock::join(const VectorClock& other) {
  for (const Lanes& theirs : other.apart_) take_apart(theirs.warp);
  for (Lanes& mine : apart_) {
    const Lanes* theirs = other.find(mine.warp);
    const Time of_all = other.of_warp(mine.warp);
    for (uint32_t lane = 0; lane < machine::kWarpSize; ++lane) {
      mine.times[lane] = std::max(mine.times[lane], theirs != nullptr ? theirs->times[lane] : of_all);
    }
  }
  raise_all(warps_, other.warps_);
  std::erase_if(apart_, [&](const Lanes& mine) { return settle(mine); });
  raise_all(others_, other.others_);
}

bool VectorClock::is_within(const VectorClock& other) const {
  if (!none_is_later(warps_, other.warps_) || !none_is_later(others_, other.others_)) return false;
  return std::all_of(apart_.begin(), apart_.end(), [&](const Lanes& mine) {
    bool within = true;
    for (uint32_t lane = 0; lane < machine::kWarpSize; ++lane) {
      within = within && mine.times[lane] <= other.at(mine.warp * machine::kWarpSize + lane);
    }
    return within;
  });
}

}  // namespace stagecraft::emulator::checks
