#include "emulator/state/warp_copies.hpp"

#include <algorithm>
#include <utility>

#include "emulator/state/grid.hpp"
#include "emulator/state/waiting.hpp"

namespace stagecraft::emulator::machine {

WarpCopies::Copy& WarpCopies::issue(LaneMask lanes, uint64_t end) {
  const size_t size = under_way_.size();
  if (issued_ - finished_ == size) {
    std::vector<Copy> larger(std::max<size_t>(4, 2 * size));
    for (uint64_t n = finished_ + 1; n <= issued_; ++n) larger[n % larger.size()] = under_way_[n % size];
    under_way_ = std::move(larger);
  }
  ++issued_;
  for_each_lane(lanes, [&](uint32_t lane) {
    last_[lane] = issued_;
    end_[lane] = end;
  });
  Copy& copy = under_way_[issued_ % under_way_.size()];
  copy.lanes = lanes;
  return copy;
}

void WarpCopies::finish_oldest() {
  ++finished_;
  if (waiting_.empty()) return;
  const auto ended = std::stable_partition(waiting_.begin(), waiting_.end(),
                                           [&](const Waiting& each) { return !has_ended(each.copy); });
  const std::vector<Waiting> woken(ended, waiting_.end());
  waiting_.erase(ended, waiting_.end());
  for (const Waiting& each : woken) wake(*each.fragment);
}

void WarpCopies::commit(LaneMask lanes) {
  // Groups that have not finished are remembered, all of them.
  bool full = newest_.empty();
  for_each_lane(lanes, [&](uint32_t lane) {
    full = full || (groups_[lane] >= newest_.size() && !has_ended(newest_[groups_[lane] % newest_.size()][lane]));
  });
  if (full) {
    const size_t size = newest_.size();
    std::vector<PerLane> larger(std::max<size_t>(4, 2 * size));
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      const uint64_t first = groups_[lane] - std::min<uint64_t>(groups_[lane], size);
      for (uint64_t group = first; group < groups_[lane]; ++group) {
        larger[group % larger.size()][lane] = newest_[group % size][lane];
      }
    }
    newest_ = std::move(larger);
  }
  // An empty group is finished when the one before it is.
  for_each_lane(lanes, [&](uint32_t lane) {
    newest_[groups_[lane] % newest_.size()][lane] = last_[lane];
    ++groups_[lane];
  });
}

uint64_t WarpCopies::awaited(LaneMask lanes, uint32_t keep) const {
  if (keep >= newest_.size()) return 0;  // what is older than what is remembered has finished
  uint64_t copy = 0;
  for_each_lane(lanes, [&](uint32_t lane) {
    if (groups_[lane] > keep) copy = std::max(copy, newest_[(groups_[lane] - keep - 1) % newest_.size()][lane]);
  });
  return copy;
}

}  // namespace stagecraft::emulator::machine
