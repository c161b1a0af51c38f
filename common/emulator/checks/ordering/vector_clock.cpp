#include "emulator/checks/ordering/vector_clock.hpp"

#include <algorithm>
#include <bit>

// A vector register of times at once; libc++ has the header too, but it does not compile.
#if defined(__GLIBCXX__)
#include <experimental/simd>
#endif

namespace stagecraft::emulator::checks {

using machine::for_each_lane;
using machine::kAllLanes;
using machine::kWarpSize;

namespace {

#if defined(__GLIBCXX__)
using Times = std::experimental::native_simd<Time>;  // as many as a vector register of the host holds

Times times_at(const std::vector<Time>& times, size_t first) {
  return {times.data() + first, std::experimental::element_aligned};
}
#endif

/// Returns whether a time of `mine` was earlier.
bool raise_all(std::vector<Time>& mine, const std::vector<Time>& theirs) {
  if (theirs.size() > mine.size()) mine.resize(theirs.size(), 0);
  bool raised = false;
  size_t i = 0;
#if defined(__GLIBCXX__)
  Times::mask_type earlier(false);
  for (; i + Times::size() <= theirs.size(); i += Times::size()) {
    const Times my_times = times_at(mine, i), their_times = times_at(theirs, i);
    earlier |= my_times < their_times;
    std::experimental::max(my_times, their_times).copy_to(mine.data() + i, std::experimental::element_aligned);
  }
  raised = std::experimental::any_of(earlier);
#endif
  for (; i < theirs.size(); ++i) {
    raised = raised || mine[i] < theirs[i];
    mine[i] = std::max(mine[i], theirs[i]);
  }
  return raised;
}

bool none_is_later(const std::vector<Time>& mine, const std::vector<Time>& theirs) {
  const size_t common = std::min(mine.size(), theirs.size());
  size_t i = 0;
#if defined(__GLIBCXX__)
  for (; i + Times::size() <= common; i += Times::size()) {
    if (std::experimental::any_of(times_at(mine, i) > times_at(theirs, i))) return false;
  }
#endif
  for (; i < mine.size(); ++i) {
    if (mine[i] > (i < common ? theirs[i] : 0)) return false;
  }
  return true;
}

/// Makes `count` elements of those from `begin` to `end`.
template <typename Value>
void make_room(std::vector<Value>& values, size_t begin, size_t end, size_t count) {
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(begin);
  if (count < end - begin) values.erase(place, place + static_cast<std::ptrdiff_t>(end - begin - count));
  if (count > end - begin) values.insert(place, count - (end - begin), Value{});
}

}  // namespace

void VectorClock::set_lanes(uint32_t warp, size_t begin, size_t end, const std::array<Time, kWarpSize>& times) {
  Time earliest = times[0];
  for (const Time time : times) earliest = std::min(earliest, time);
  size_t count = 0;
  for (const Time time : times) count += time > earliest ? 1 : 0;
  make_room(later_, begin, end, count);
  make_room(later_times_, begin, end, count);
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    if (times[lane] == earliest) continue;
    later_[begin] = warp * kWarpSize + lane;
    later_times_[begin++] = times[lane];
  }
  warps_[warp] = earliest;
}

bool VectorClock::raise_lane(uint32_t component, size_t begin, size_t end, Time time) {
  const auto place = std::lower_bound(later_.begin() + static_cast<std::ptrdiff_t>(begin),
                                      later_.begin() + static_cast<std::ptrdiff_t>(end), component);
  const auto index = place - later_.begin();
  if (static_cast<size_t>(index) < end && *place == component) {
    Time& mine = later_times_[static_cast<size_t>(index)];
    mine = std::max(mine, time);
    return true;
  }
  if (end - begin == kWarpSize - 1) return false;
  later_.insert(place, component);
  later_times_.insert(later_times_.begin() + index, time);
  return true;
}

void VectorClock::raise(uint32_t warp, machine::LaneMask lanes, Time time) {
  if (warp >= warps_.size()) warps_.resize(warp + 1, 0);
  if (time <= warps_[warp]) return;
  const auto place = std::lower_bound(later_.begin(), later_.end(), warp * kWarpSize);
  const auto begin = static_cast<size_t>(place - later_.begin());
  size_t end = begin;
  while (end < later_.size() && later_[end] / kWarpSize == warp) ++end;
  if (begin == end && lanes == kAllLanes) {
    warps_[warp] = time;
    return;
  }
  if (std::has_single_bit(lanes) && raise_lane(warp * kWarpSize + machine::first_lane(lanes), begin, end, time)) return;
  std::array<Time, kWarpSize> times;
  times.fill(warps_[warp]);
  for (size_t i = begin; i < end; ++i) times[later_[i] % kWarpSize] = later_times_[i];
  for_each_lane(lanes, [&](uint32_t lane) { times[lane] = std::max(times[lane], time); });
  set_lanes(warp, begin, end, times);
}

void VectorClock::join(const VectorClock& other) {
  if (later_ == other.later_) {
    raise_all(later_times_, other.later_times_);
    if (raise_all(warps_, other.warps_)) drop_settled();
  } else {
    join_lanes(other);
  }
  raise_all(others_, other.others_);
}

void VectorClock::drop_settled() {
  size_t kept = 0;
  for (size_t i = 0; i < later_.size(); ++i) {
    if (later_times_[i] <= warps_[later_[i] / kWarpSize]) continue;
    later_[kept] = later_[i];
    later_times_[kept++] = later_times_[i];
  }
  later_.resize(kept);
  later_times_.resize(kept);
}

void VectorClock::join_lanes(const VectorClock& other) {
  if (other.warps_.size() > warps_.size()) warps_.resize(other.warps_.size(), 0);
  std::vector<uint32_t> later;
  std::vector<Time> times;
  later.reserve(later_.size() + other.later_.size());
  times.reserve(later_.size() + other.later_.size());
  constexpr uint32_t kNone = 0xffffffffu;
  const auto component_at = [](const VectorClock& clock, size_t i) {
    return i < clock.later_.size() ? clock.later_[i] : kNone;
  };
  for (size_t mine = 0, theirs = 0; mine < later_.size() || theirs < other.later_.size();) {
    const uint32_t warp = std::min(component_at(*this, mine), component_at(other, theirs)) / kWarpSize;
    const Time my_earliest = warps_[warp], their_earliest = other.of_warp(warp);
    const size_t begin = later.size();
    for (;;) {
      const uint32_t my_next = component_at(*this, mine), their_next = component_at(other, theirs);
      const uint32_t component = std::min(my_next, their_next);
      if (component / kWarpSize != warp) break;
      const Time time = std::max(my_next == component ? later_times_[mine++] : my_earliest,
                                 their_next == component ? other.later_times_[theirs++] : their_earliest);
      if (time <= std::max(my_earliest, their_earliest)) continue;
      later.push_back(component);
      times.push_back(time);
    }
    if (later.size() - begin < kWarpSize) continue;
    // Each lane is later than both clocks said of the whole warp.
    const Time earliest = *std::min_element(times.begin() + static_cast<std::ptrdiff_t>(begin), times.end());
    warps_[warp] = earliest;
    size_t kept = begin;
    for (size_t i = begin; i < later.size(); ++i) {
      if (times[i] == earliest) continue;
      later[kept] = later[i];
      times[kept++] = times[i];
    }
    later.resize(kept);
    times.resize(kept);
  }
  raise_all(warps_, other.warps_);
  later_ = std::move(later);
  later_times_ = std::move(times);
}

bool VectorClock::is_within(const VectorClock& other) const {
  if (!none_is_later(warps_, other.warps_) || !none_is_later(others_, other.others_)) return false;
  if (later_ == other.later_) return none_is_later(later_times_, other.later_times_);
  size_t theirs = 0;
  for (size_t i = 0; i < later_.size(); ++i) {
    while (theirs < other.later_.size() && other.later_[theirs] < later_[i]) ++theirs;
    const bool is_apart = theirs < other.later_.size() && other.later_[theirs] == later_[i];
    if (later_times_[i] > (is_apart ? other.later_times_[theirs] : other.of_warp(later_[i] / kWarpSize))) return false;
  }
  return true;
}

SharedClock joined_clocks(const SharedClock& one, const SharedClock& other) {
  if (one == other || other->is_within(*one)) return one;
  if (one->is_within(*other)) return other;
  auto both = std::make_shared<VectorClock>(*one);
  both->join(*other);
  return both;
}

}  // namespace stagecraft::emulator::checks
