#include "emulator/exploration/interleavings.hpp"

#include <algorithm>
#include <utility>

namespace stagecraft::emulator::exploration {
namespace {

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
  find_races(known == 0 ? 0 : known - 1);
}

void Interleavings::find_races(size_t first_new) {
  const size_t count = path_.size();
  // For each step, those that come before it in every equivalent run.
  std::vector<std::vector<bool>> before(count);
  std::map<Actor, size_t> last;
  for (size_t j = 0; j < count; ++j) {
    const Step& step = path_[j].step;
    std::vector<bool>& mine = before[j];
    mine.assign(count, false);
    const auto follow = [&](size_t i) {
      mine[i] = true;
      for (size_t k = 0; k < i; ++k) mine[k] = mine[k] || before[i][k];
    };
    if (const auto found = last.find(step.actor); found != last.end()) follow(found->second);
    if (step.after != Step::kNone) follow(step.after);
    if (step.behind != Step::kNone) follow(step.behind);
    last[step.actor] = j;
    // A race is with a step that nothing else orders before this one.
    std::vector<size_t> races_with;
    for (size_t i = j; i-- > 0;) {
      if (mine[i]) continue;
      if (j >= first_new && related(path_[i].step, step, races)) races_with.push_back(i);
      if (related(path_[i].step, step, orders)) follow(i);
    }
    for (const size_t i : races_with) reverse(i, j, before);
  }
}

void Interleavings::reverse(size_t first, size_t second, const std::vector<std::vector<bool>>& before) {
  // Instead of the first step, what leads to the second goes on, and does not need the first.
  Node& node = path_[first];
  const std::vector<Actor>& enabled = node.step.enabled;
  for (size_t k = first + 1; k <= second; ++k) {
    const bool leads = k == second || (before[second][k] && !before[k][first]);
    if (!leads) continue;
    const Actor actor = path_[k].step.actor;
    if (std::find(enabled.begin(), enabled.end(), actor) == enabled.end()) break;
    node.to_do.insert(actor);
    return;
  }
  node.to_do.insert(enabled.begin(), enabled.end());
}

}  // namespace stagecraft::emulator::exploration
