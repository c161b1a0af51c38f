#include "emulator/trace/timeline_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace stagecraft::emulator::trace {

using machine::BarrierEventKind;
using machine::Cycle;

namespace {

class Preparation {
 public:
  Preparation(const Timeline& timeline, std::string report) : timeline_(timeline), source_(*timeline.kernel()) {
    run_.timeline = &timeline;
    run_.report = std::move(report);
  }

  Run finish() {
    add_tracks(timeline_.copies(), "TMA");
    add_tracks(timeline_.multiplications(), "tensor core");
    for (const OperationSpan& arrival : timeline_.arrivals()) {
      run_.arrival_places.push_back(place(arrival.pc));
      issued_.try_emplace(arrival.number, Issue{&arrival, -1, -1});
    }
    const auto& steps = timeline_.steps();
    for (size_t i = 0; i < steps.size(); ++i) {
      run_.step_places.push_back(steps[i].warp < 0 ? -1 : place(steps[i].pc));
      if (steps[i].kind == BarrierEventKind::phase_complete) {
        ends_[{steps[i].barrier, steps[i].phase - 1}] = static_cast<int32_t>(i);
      }
    }
    count_roles();
    for (const WarpRow& row : timeline_.warps()) add_warp(row);
    return std::move(run_);
  }

 private:
  struct Issue {
    const OperationSpan* span;
    int32_t track, operation;
  };

  int32_t place(uint32_t pc) {
    const auto [found, is_new] = numbers_.emplace(pc, static_cast<int32_t>(run_.places.size()));
    if (is_new) run_.places.push_back(source_.place(pc));
    return found->second;
  }

  void add_tracks(const std::vector<UnitRow>& units, const char* name) {
    for (const UnitRow& unit : units) {
      const size_t first = run_.tracks.size();
      for (const OperationSpan& span : unit.spans) {
        size_t track = first;
        while (track < run_.tracks.size() && run_.tracks[track].operations.back().span->end > span.begin) ++track;
        if (track == run_.tracks.size()) run_.tracks.push_back({unit.block, name, {}});
        std::vector<RunTrack::Operation>& operations = run_.tracks[track].operations;
        issued_.try_emplace(span.number,
                            Issue{&span, static_cast<int32_t>(track), static_cast<int32_t>(operations.size())});
        operations.push_back({&span, place(span.pc)});
      }
    }
  }

  /// Each place where a warp waits, arrives or issues something is a vote for the role of that place.
  void count_roles() {
    votes_.resize(timeline_.warps().size());
    const auto vote = [&](int32_t warp, uint32_t pc) {
      if (warp < 0) return;
      const std::string& role = run_.places[static_cast<size_t>(place(pc))].role;
      if (!role.empty()) ++votes_[static_cast<size_t>(warp)][role];
    };
    for (size_t i = 0; i < timeline_.warps().size(); ++i) {
      for (const WaitSpan& wait : timeline_.warps()[i].waits) vote(static_cast<int32_t>(i), wait.pc);
    }
    for (const BarrierStep& step : timeline_.steps()) vote(step.warp, step.pc);
    for (const auto& [number, issue] : issued_) vote(issue.span->warp, issue.span->pc);
  }

  std::string name_of(const WarpRow& row, size_t index) const {
    const auto& votes = votes_[index];
    const auto most =
        std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == votes.end() ? row.label(false) : fmt::format("{} (warp {})", most->first, row.warp);
  }

  void add_warp(const WarpRow& row) {
    RunWarp warp{row.block, row.warp, name_of(row, run_.warps.size()), row.begin, row.end, {}};
    for (const WaitSpan& span : row.waits) {
      const int32_t at = place(span.pc);
      if (!warp.waits.empty() && span.barrier >= 0) {
        RunWait& last = warp.waits.back();  // a poll that gave up and was repeated
        if (last.barrier == span.barrier && last.phase == span.phase && last.place == at) {
          last.end = span.end;
          last.open = span.open;
          continue;
        }
      }
      warp.waits.push_back({span.begin, span.end, span.what, at, span.barrier, span.phase, span.open, {}});
      if (span.ended_by >= 0) {
        warp.waits.back().ender.warp = span.ended_by;
        warp.waits.back().ender.place = place(span.ended_pc);
      }
    }
    for (RunWait& wait : warp.waits) {
      if (wait.barrier >= 0 && !wait.open) wait.ender = ender_of(wait);
    }
    run_.warps.push_back(std::move(warp));
  }

  Ender ender_of(const RunWait& wait) {
    Ender ender;
    const auto end = ends_.find({static_cast<uint32_t>(wait.barrier), wait.phase});
    if (end == ends_.end()) return ender;
    const BarrierStep& step = timeline_.steps()[static_cast<size_t>(end->second)];
    ender.step = end->second;
    if (step.warp >= 0) {
      ender.warp = step.warp;
      ender.place = place(step.pc);
    } else if (const auto issue = issued_.find(step.operation); issue != issued_.end()) {
      ender.warp = issue->second.span->warp;
      ender.place = place(issue->second.span->pc);
      ender.track = issue->second.track;
      ender.operation = issue->second.operation;
      ender.what = issue->second.span->what;
      if (ender.track < 0) add_last_operation(ender, issue);
    }
    return ender;
  }

  /// An arrival that a unit was asked for comes when the operations before it have ended: finds the last to end.
  void add_last_operation(Ender& ender, std::map<uint64_t, Issue>::const_iterator arrival) const {
    constexpr int kFar = 64;  // operations; what was issued long before has ended long before
    auto issue = arrival;
    for (int i = 0; i < kFar && issue != issued_.begin(); ++i) {
      --issue;
      const OperationSpan& span = *issue->second.span;
      if (issue->second.track < 0 || span.warp != ender.warp || span.end != arrival->second.span->end) continue;
      ender.track = issue->second.track;
      ender.operation = issue->second.operation;
      return;
    }
  }

  const Timeline& timeline_;
  SourceText source_;
  Run run_;
  std::map<uint32_t, int32_t> numbers_;                    ///< of places, by pc
  std::map<uint64_t, Issue> issued_;                       ///< by the number of the operation
  std::map<std::pair<uint32_t, uint64_t>, int32_t> ends_;  ///< steps that ended a phase, by barrier and phase
  std::vector<std::map<std::string, size_t>> votes_;       ///< by warp
};

}  // namespace

Run prepare_run(const Timeline& timeline, std::string report) {
  return Preparation(timeline, std::move(report)).finish();
}

}  // namespace stagecraft::emulator::trace
