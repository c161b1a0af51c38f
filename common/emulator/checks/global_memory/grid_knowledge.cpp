#include "emulator/checks/global_memory/grid_knowledge.hpp"

#include <algorithm>

namespace stagecraft::emulator::checks {

using machine::LaneMask;

namespace {

/// Notes of a warp from which on they are thinned out. What is kept then says more than it should of earlier times,
/// which can hide a race but reports none that is not there.
constexpr size_t kMostNotes = 512;

}  // namespace

SharedForeign joined(const SharedForeign& one, const SharedForeign& other) {
  if (one == other || other == nullptr) return one;
  if (one == nullptr) return other;
  Foreign both = *one;
  both.dependencies = one->dependencies || other->dependencies;
  both.clusters.join(other->clusters);
  const auto is = [&](const Foreign& known) {
    return both.clusters.is_same(known.clusters) && both.dependencies == known.dependencies;
  };
  if (is(*one)) return one;
  return is(*other) ? other : std::make_shared<Foreign>(std::move(both));
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
