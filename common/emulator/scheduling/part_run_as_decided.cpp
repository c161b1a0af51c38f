// A grid in which Choices decides what goes on.
#include <algorithm>
#include <optional>
#include <vector>

#include "emulator/scheduling/part_run.hpp"
#include "emulator/state/choices.hpp"
#include "emulator/state/waiting.hpp"

namespace stagecraft::emulator::machine {

void PartRun::start_clusters_as_decided() {
  while (grid_.has_next_cluster() && (grid_.resident.empty() || grid_.kernel->clusters_interact)) {
    const std::vector<Sm*> room = find_room();
    if (room.empty()) return;
    grid_.resident.push_back(start_cluster(room, result_.cycles));
    current_ = grid_.resident.back().get();
  }
}

std::vector<Candidate> PartRun::list_candidates() {
  const Choices& choices = *grid_.request->choices;
  std::vector<Candidate> candidates;
  for (const auto& cluster : grid_.resident) {
    for (const auto& block : cluster->blocks) {
      if (block->exited) continue;
      for (Warp& warp : block->warps) {
        // A sleep of a given time may end at any time.
        for (const auto& fragment : warp.fragments) {
          if (fragment->state == FragmentState::blocked && fragment->wait.kind == WaitKind::sleep) end_sleep(*fragment);
        }
        if (!is_ready(warp)) continue;
        candidates.push_back({.cluster = cluster.get(), .warp = &warp, .will_be_idle = choices.will_be_idle(warp)});
      }
    }
    const std::vector<Event>& events = cluster->events.all();
    for (size_t i = 0; i < events.size(); ++i) {
      const bool is_first = std::none_of(events.begin(), events.end(), [&](const Event& other) {
        return other.in_order != nullptr && other.in_order == events[i].in_order &&
               other.when.sequence < events[i].when.sequence;
      });
      if (is_first) candidates.push_back({.cluster = cluster.get(), .event = &events[i], .index = i});
    }
  }
  return candidates;
}

bool PartRun::end_a_sleep() {
  for (const auto& cluster : grid_.resident) {
    if (cluster->time_limits.empty()) continue;
    cluster->now = std::max(cluster->now, cluster->time_limits.next_time());
    end_sleep(cluster->time_limits.next());
    return true;
  }
  return false;
}

void PartRun::carry_out(const Candidate& candidate) {
  Cluster& cluster = *candidate.cluster;
  current_ = &cluster;
  if (candidate.event != nullptr) {
    carry_out(cluster, cluster.events.take(candidate.index));
    return;
  }
  Warp& warp = *candidate.warp;
  warp.clock = cluster.now = std::max(cluster.now, warp.clock);
  run_warp(warp, kWarpTurn, result_.executed);
  grid_.request->choices->turn_ended(warp);
  if (loops_[&cluster].repeats(cluster, warp, grid_.effects)) cluster.repeats_since = grid_.effects + 1;
  if (warp.live == 0 && warp.block->live_warps == 0 && !warp.block->exited) finish_block(*warp.block);
}

void PartRun::run_as_decided() {
  for (;;) {
    start_clusters_as_decided();
    if (grid_.resident.empty()) return;
    const std::vector<Candidate> candidates = list_candidates();
    const bool are_all_idle =
        std::all_of(candidates.begin(), candidates.end(), [](const Candidate& each) { return each.will_be_idle; });
    if (are_all_idle) {
      if (end_a_sleep()) continue;
      if (candidates.empty()) return report_stuck(*grid_.resident.front(), result_.cycles);
      return report_endless(*candidates.front().cluster);
    }
    if (const GoOn answer = goes_on_(result_.cycles); answer != GoOn::yes) return stop(answer, result_.cycles);
    const std::optional<size_t> chosen = grid_.request->choices->next(candidates);
    if (!chosen) {
      result_.ended = GoOn::no;
      return;
    }
    carry_out(candidates[*chosen]);
    result_.cycles = std::max(result_.cycles, current_->now);
    if (current_->live_blocks == 0 && current_->events.empty()) {
      finish_cluster(*current_);
    } else if (current_->repeats_since == grid_.effects + 1 && nothing_can_end()) {
      return report_endless(*current_);
    }
  }
}

}  // namespace stagecraft::emulator::machine
