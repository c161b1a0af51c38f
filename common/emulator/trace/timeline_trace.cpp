#include "emulator/trace/timeline_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace stagecraft::emulator::trace {

using machine::BarrierEventKind;
using machine::Cycle;
using nlohmann::json;

namespace {

constexpr double kWithin = 0.5;   // less than a cycle: so much before the end of a slice is inside of it
constexpr int kFirstUnit = 1000;  // thread number of the first unit's track; those of warps begin at 1

/// Source lines may have bytes that are no UTF-8.
std::string text_of(const json& data) { return data.dump(-1, ' ', false, json::error_handler_t::replace); }

class TraceWriter {
 public:
  explicit TraceWriter(const Run& run) : run_(run) {}

  std::string write() {
    name_processes();
    for (const RunWarp& warp : run_.warps) add_warp(warp);
    for (size_t i = 0; i < run_.tracks.size(); ++i) add_track(run_.tracks[i], i);
    add_counters();
    add_flows();
    // One event a line, so that two traces can be compared.
    std::string text = fmt::format("{{\"otherData\": {},\n\"traceEvents\": [\n", text_of(other_data()));
    for (size_t i = 0; i < events_.size(); ++i) text += text_of(events_[i]) + (i + 1 < events_.size() ? ",\n" : "\n");
    return text + "]}\n";
  }

 private:
  json other_data() const {
    json data{{"kernel", run_.timeline->kernel()->display_name},
              {"source", run_.timeline->kernel()->source_file()},
              {"unit", "a microsecond is a cycle of virtual time"}};
    if (!run_.report.empty()) data["report"] = run_.report;
    return data;
  }

  static uint32_t process_of(uint32_t block) { return block + 1; }
  static uint32_t thread_of(const RunWarp& warp) { return warp.warp + 1; }
  static uint32_t thread_of(size_t track) { return static_cast<uint32_t>(kFirstUnit + track); }

  void name(const char* what, uint32_t process, uint32_t thread, json arguments) {
    events_.push_back({{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", thread}, {"args", std::move(arguments)}});
  }

  void name_thread(uint32_t process, uint32_t thread, const std::string& text) {
    name("thread_name", process, thread, {{"name", text}});
    name("thread_sort_index", process, thread, {{"sort_index", thread}});
  }

  void name_processes() {
    std::set<uint32_t> blocks;
    for (const RunWarp& warp : run_.warps) blocks.insert(warp.block);
    for (const uint32_t block : blocks) {
      name("process_name", process_of(block), 0,
           {{"name", fmt::format("block {} of {}", block, run_.timeline->kernel()->display_name)}});
    }
  }

  void slice(uint32_t process, uint32_t thread, const std::string& text, const char* category, Cycle begin, Cycle end,
             json arguments) {
    events_.push_back({{"ph", "X"},
                       {"name", text},
                       {"cat", category},
                       {"pid", process},
                       {"tid", thread},
                       {"ts", begin},
                       {"dur", end - begin},
                       {"args", std::move(arguments)}});
  }

  void add_place(json& arguments, int32_t place) const {
    if (place < 0) return;
    arguments["source"] = run_.places[static_cast<size_t>(place)].at;
    if (const std::string& code = run_.places[static_cast<size_t>(place)].code; !code.empty()) arguments["code"] = code;
  }

  void add_warp(const RunWarp& warp) {
    const uint32_t process = process_of(warp.block), thread = thread_of(warp);
    name_thread(process, thread, warp.name);
    Cycle from = warp.begin;
    for (const RunWait& wait : warp.waits) {
      if (wait.begin > from) slice(process, thread, "runs", "warp", from, wait.begin, json::object());
      json arguments = json::object();
      add_place(arguments, wait.place);
      if (wait.barrier >= 0) {
        arguments["barrier"] = wait.what;
        arguments["phase"] = wait.phase;
      }
      if (wait.open) arguments["open"] = "nothing has ended this wait";
      slice(process, thread, (wait.open ? "still waits for " : "waits for ") + wait.what, "wait", wait.begin, wait.end,
            std::move(arguments));
      from = wait.end;
    }
    if (warp.end > from) slice(process, thread, "runs", "warp", from, warp.end, json::object());
  }

  void add_track(const RunTrack& track, size_t index) {
    const uint32_t process = process_of(track.block), thread = thread_of(index);
    name_thread(process, thread, track.unit);
    for (const RunTrack::Operation& operation : track.operations) {
      const OperationSpan& span = *operation.span;
      json arguments = json::object();
      add_place(arguments, operation.place);
      if (span.bytes != 0) arguments["bytes"] = span.bytes;
      if (!span.target.empty()) arguments["writes"] = span.target;
      if (span.barrier >= 0) arguments["barrier"] = barrier(span.barrier).name;
      if (span.warp >= 0) arguments["issued by"] = run_.warps[static_cast<size_t>(span.warp)].name;
      slice(process, thread, span.what, "unit", span.begin, span.end, std::move(arguments));
    }
  }

  const LoggedBarrier& barrier(int32_t number) const { return run_.timeline->barriers()[static_cast<size_t>(number)]; }

  void add_counters() {
    for (const BarrierStep& step : run_.timeline->steps()) {
      if (step.kind == BarrierEventKind::wait || step.kind == BarrierEventKind::invalidate) continue;
      const LoggedBarrier& changed = barrier(static_cast<int32_t>(step.barrier));
      events_.push_back(
          {{"ph", "C"},
           {"name", changed.name},
           {"pid", process_of(changed.block)},
           {"tid", 0},
           {"ts", step.at},
           {"args", {{"phase", step.phase}, {"pending arrivals", step.pending}, {"pending bytes", step.bytes}}}});
    }
  }

  void add_flows() {
    uint64_t number = 0;
    for (const RunWarp& warp : run_.warps) {
      for (const RunWait& wait : warp.waits) {
        if (wait.ender.warp < 0) continue;
        ++number;
        const Moment from = moment_of(wait);
        flow("s", number, wait.what, from);
        // The end of a slice is outside of it.
        const double last = static_cast<double>(wait.end) - kWithin;
        flow("f", number, wait.what, {process_of(warp.block), thread_of(warp), std::max(last, from.at)});
      }
    }
  }

  /// A place in the trace, inside of a slice.
  struct Moment {
    uint32_t process, thread;
    double at;
  };

  /// When and where it happened that ended a wait.
  Moment moment_of(const RunWait& wait) const {
    const Ender& ender = wait.ender;
    if (ender.track >= 0) {
      const RunTrack& track = run_.tracks[static_cast<size_t>(ender.track)];
      const Cycle end = track.operations[static_cast<size_t>(ender.operation)].span->end;
      return {process_of(track.block), thread_of(static_cast<size_t>(ender.track)), static_cast<double>(end) - kWithin};
    }
    const RunWarp& warp = run_.warps[static_cast<size_t>(ender.warp)];
    const Cycle at = ender.step >= 0 ? run_.timeline->steps()[static_cast<size_t>(ender.step)].at : wait.end;
    const double last = static_cast<double>(warp.end) - kWithin;
    return {process_of(warp.block), thread_of(warp), std::min(static_cast<double>(at), last)};
  }

  void flow(const char* phase, uint64_t number, const std::string& text, const Moment& moment) {
    json event{{"ph", phase},           {"id", number},         {"name", text},   {"cat", "wakes"},
               {"pid", moment.process}, {"tid", moment.thread}, {"ts", moment.at}};
    if (*phase == 'f') event["bp"] = "e";  // binds to the slice around it
    events_.push_back(std::move(event));
  }

  const Run& run_;
  std::vector<json> events_;
};

}  // namespace

std::string trace_events(const Run& run) { return TraceWriter(run).write(); }

}  // namespace stagecraft::emulator::trace
