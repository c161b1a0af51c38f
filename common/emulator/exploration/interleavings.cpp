#include "emulator/exploration/interleavings.hpp"

#include <algorithm>
#include <utility>

namespace stagecraft::emulator::exploration {
namespace {

constexpr size_t kNone = ~size_t{0};

template <typename Relation>
bool related(const Step& earlier, const Step& later, Relation relation) {
  for (const Touch& a : earlier.touches) {
    for (const Touch& b : later.touches) {
      if (relation(a, b)) return true;
    }
  }
  return false;
}

}  // namespace

void wake(std::map<Actor, Step>& asleep, const Step& step) {
  std::erase_if(asleep, [&](const auto& each) { return each.first == step.actor || conflict(each.second, step); });
}

std::optional<Guide> Interleavings::next() {
  if (!has_begun_) {
    has_begun_ = true;
    return Guide{};
  }
  for (; !path_.empty(); path_.pop_back()) {
    Node& node = path_.back();
    node.done[node.step.actor] = node.step;
    for (const Actor actor : node.to_do) {
      if (node.done.contains(actor) || node.asleep.contains(actor)) continue;
      node.step.actor = actor;
      Guide guide;
      for (const Node& each : path_) guide.prefix.push_back(each.step.actor);
      guide.asleep = node.asleep;
      guide.asleep.insert(node.done.begin(), node.done.end());
      return guide;
    }
  }
  return std::nullopt;
}

void Interleavings::add(const Trace& trace) {
  const size_t known = path_.size();
  // Whether a step is idle is known later in the run, and so may differ.
  size_t first = known == 0 ? 0 : known - 1;
  for (size_t i = first; i-- > 0;) {
    if (path_[i].step.idle != trace[i].idle) first = i;
    path_[i].step = trace[i];
  }
  std::map<Actor, Step> asleep;
  for (size_t i = known == 0 ? 0 : known - 1; i < trace.size(); ++i) {
    if (i < known) {
      path_[i].step = trace[i];
      asleep = path_[i].asleep;
      asleep.insert(path_[i].done.begin(), path_[i].done.end());
    } else {
      path_.push_back({trace[i], {trace[i].actor}, {}, asleep});
    }
    wake(asleep, trace[i]);
  }
  find_races(first);
}

void Interleavings::find_races(size_t first) {
  // By actor: the last step, and the last one that was not idle.
  std::map<Actor, std::pair<size_t, size_t>> last;
  for (size_t j = 0; j < path_.size(); ++j) {
    const Step& step = path_[j].step;
    size_t own = kNone;
    if (const auto found = last.find(step.actor); found != last.end()) {
      own = step.idle == Step::Idle::next ? found->second.first : found->second.second;
    }
    const size_t not_idle =
        step.idle == Step::Idle::no ? j : last.try_emplace(step.actor, kNone, kNone).first->second.second;
    last[step.actor] = {j, not_idle};
    if (j < first) continue;
    std::vector<bool>& mine = path_[j].before;
    mine.assign(j, false);
    const auto follow = [&](size_t i) {
      mine[i] = true;
      for (size_t k = 0; k < i; ++k) mine[k] = mine[k] || path_[i].before[k];
    };
    if (own != kNone) follow(own);
    if (step.after != Step::kNone) follow(step.after);
    if (step.behind != Step::kNone) follow(step.behind);
    // A race is with a step that nothing else orders before this one.
    std::vector<size_t> races_with;
    for (size_t i = j; i-- > 0;) {
      const Step& earlier = path_[i].step;
      if (mine[i] || earlier.idle == Step::Idle::first) continue;
      if (related(earlier, step, races)) races_with.push_back(i);
      if (earlier.idle == Step::Idle::no && related(earlier, step, orders)) follow(i);
    }
    for (const size_t i : races_with) reverse(i, j);
  }
}

void Interleavings::reverse(size_t first, size_t second) {
  // Instead of the first step, what leads to the second goes on, and does not need the first.
  Node& node = path_[first];
  const std::vector<Actor>&enabled = node.step.enabled, &repeating = node.step.repeating;
  for (size_t k = first + 1; k <= second; ++k) {
    const bool leads = k == second || (path_[second].before[k] && !path_[k].before[first]);
    if (!leads) continue;
    const Actor actor = path_[k].step.actor;
    // It would only do again what it has done.
    if (std::find(repeating.begin(), repeating.end(), actor) != repeating.end()) return;
    if (std::find(enabled.begin(), enabled.end(), actor) == enabled.end()) break;
    node.to_do.insert(actor);
    return;
  }
  node.to_do.insert(enabled.begin(), enabled.end());
}

}  // namespace stagecraft::emulator::exploration
