#include "emulator/checks/global_memory/grid_knowledge.hpp"

#include <algorithm>

namespace stagecraft::emulator::checks {

using machine::LaneMask;

namespace {

/// Notes of a warp from which on they are thinned out. What is kept then says more than it should of earlier times,
/// which can hide a race but reports none that is not there.
constexpr size_t kMostNotes = 512;

SharedClock joined_clocks(const SharedClock& one, const SharedClock& other) {
  if (one == other || other->is_within(*one)) return one;
  if (one->is_within(*other)) return other;
  auto both = std::make_shared<VectorClock>(*one);
  both->join(*other);
  return both;
}

}  // namespace

const VectorClock* Foreign::find(uint32_t cluster) const {
  const auto found = std::lower_bound(clusters.begin(), clusters.end(), cluster,
                                      [](const auto& each, uint32_t number) { return each.first < number; });
  return found != clusters.end() && found->first == cluster ? found->second.get() : nullptr;
}

SharedForeign joined(const SharedForeign& one, const SharedForeign& other) {
  if (one == other || other == nullptr) return one;
  if (one == nullptr) return other;
  auto both = std::make_shared<Foreign>();
  both->dependencies = one->dependencies || other->dependencies;
  both->clusters.reserve(std::max(one->clusters.size(), other->clusters.size()) + 1);
  auto mine = one->clusters.begin();
  auto theirs = other->clusters.begin();
  while (mine != one->clusters.end() || theirs != other->clusters.end()) {
    if (theirs == other->clusters.end() || (mine != one->clusters.end() && mine->first < theirs->first)) {
      both->clusters.push_back(*mine++);
    } else if (mine == one->clusters.end() || theirs->first < mine->first) {
      both->clusters.push_back(*theirs++);
    } else {
      both->clusters.emplace_back(mine->first, joined_clocks(mine->second, theirs->second));
      ++mine;
      ++theirs;
    }
  }
  return both;
}

void join_into(SharedForeign& known, const SharedForeign& more) {
  if (known == nullptr || more == nullptr || known.use_count() != 1) {
    known = joined(known, more);
    return;
  }
  // All are made as Foreign that may change (joined, GlobalMemoryCheck).
  auto& mine = const_cast<Foreign&>(*known);
  mine.dependencies = mine.dependencies || more->dependencies;
  for (const auto& [cluster, clock] : more->clusters) {
    const auto at = std::lower_bound(mine.clusters.begin(), mine.clusters.end(), cluster,
                                     [](const auto& each, uint32_t number) { return each.first < number; });
    if (at != mine.clusters.end() && at->first == cluster) {
      at->second = joined_clocks(at->second, clock);
    } else {
      mine.clusters.emplace(at, cluster, clock);
    }
  }
}

void ClusterNotes::add(uint32_t warp, LaneMask lanes, Time time, const SharedForeign& learnt) {
  if (learnt == nullptr) return;
  std::vector<Note>& notes = warps_[warp].notes;
  const auto last = std::find_if(notes.rbegin(), notes.rend(), [&](const Note& note) { return note.lanes == lanes; });
  if (last != notes.rend() && last->learnt == learnt) return;
  ++version_;
  SharedForeign all = last == notes.rend() ? learnt : joined(last->learnt, learnt);
  if (last != notes.rend() && last->time == time) {
    last->learnt = std::move(all);
    return;
  }
  notes.push_back({lanes, time, std::move(all)});
  if (notes.size() < kMostNotes) return;
  // The later one of two notes of the same lanes takes the earlier one's time.
  std::vector<Note> kept;
  for (size_t i = 0; i < notes.size(); ++i) {
    const bool pairs = i + 1 < notes.size() / 2 && notes[i].lanes == notes[i + 1].lanes;
    if (pairs) notes[i].learnt = notes[i + 1].learnt;
    kept.push_back(std::move(notes[i]));
    if (pairs) ++i;
  }
  notes = std::move(kept);
}

SharedForeign ClusterNotes::known(const ClusterOrder& order, uint32_t warp, uint32_t lane) {
  if (is_empty()) return nullptr;
  WarpNotes& mine = warps_[warp];
  const SharedClock& known = order.known(warp, lane);
  const auto is_known = [&](uint32_t number, const Note& note) {
    return known->at(ThreadKnowledge::component_of(number, machine::first_lane(note.lanes))) >= note.time;
  };
  if (mine.version != version_ || mine.known != known) {
    mine.version = version_;
    mine.known = known;
    mine.answer = nullptr;
    for (uint32_t number = 0; number < warps_.size(); ++number) {
      const std::vector<Note>& notes = warps_[number].notes;
      LaneMask done = 0;
      for (auto note = notes.rbegin(); note != notes.rend() && done != machine::kAllLanes; ++note) {
        if ((note->lanes & ~done) == 0 || !is_known(number, *note)) continue;
        mine.answer = joined(mine.answer, note->learnt);
        done |= note->lanes;
      }
    }
  }
  // What the lane has learnt itself, and others of its warp may not know yet.
  SharedForeign answer = mine.answer;
  for (auto note = mine.notes.rbegin(); note != mine.notes.rend(); ++note) {
    if ((note->lanes >> lane & 1) == 0) continue;
    if (!is_known(warp, *note)) answer = joined(answer, note->learnt);
    break;
  }
  return answer;
}

}  // namespace stagecraft::emulator::checks
