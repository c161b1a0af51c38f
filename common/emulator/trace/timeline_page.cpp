#include "emulator/trace/timeline_page.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "emulator/trace/viewer_files.hpp"

namespace stagecraft::emulator::trace {

using machine::BarrierEventKind;
using nlohmann::json;

namespace {

const char* name_of(BarrierEventKind kind) {
  switch (kind) {
    case BarrierEventKind::init: return "init";
    case BarrierEventKind::reinitialise: break;
    case BarrierEventKind::invalidate: return "invalidate";
    case BarrierEventKind::arrive: return "arrive";
    case BarrierEventKind::expect_tx: return "expect";
    case BarrierEventKind::complete_tx: return "deliver";
    case BarrierEventKind::phase_complete: return "end";
    case BarrierEventKind::wait: return "pass";
  }
  return "";
}

json wait_data(const RunWait& wait) {
  json data{{"begin", wait.begin}, {"end", wait.end}, {"what", wait.what}, {"place", wait.place}};
  if (wait.barrier >= 0) {
    data["barrier"] = wait.barrier;
    data["phase"] = wait.phase;
  }
  if (wait.open) data["open"] = true;
  if (wait.ender.warp >= 0 || wait.ender.step >= 0) {
    json ender{{"warp", wait.ender.warp}, {"place", wait.ender.place}};
    if (wait.ender.step >= 0) ender["step"] = wait.ender.step;
    if (wait.ender.track >= 0) {
      ender["track"] = wait.ender.track;
      ender["operation"] = wait.ender.operation;
    }
    if (!wait.ender.what.empty()) ender["what"] = wait.ender.what;
    data["ender"] = ender;
  }
  return data;
}

json operation_data(const RunTrack::Operation& operation) {
  const OperationSpan& span = *operation.span;
  json data{{"number", span.number}, {"begin", span.begin}, {"end", span.end},
            {"what", span.what},     {"warp", span.warp},   {"place", operation.place}};
  if (span.barrier >= 0) data["barrier"] = span.barrier;
  if (span.bytes != 0) data["bytes"] = span.bytes;
  if (!span.target.empty()) data["target"] = span.target;
  return data;
}

/// What a block's shared memory is divided into: its variables, the dynamic part as one, and what the system reserves.
json shared_data(const Timeline& timeline) {
  json variables = json::array();
  for (const machine::SharedVariable& variable : timeline.kernel()->shared_variables) {
    variables.push_back({{"name", variable.name}, {"offset", variable.offset}, {"bytes", variable.size}});
  }
  return {{"reserved", machine::kSharedReservedBytes},
          {"static", timeline.kernel()->static_shared_bytes},
          {"dynamic", timeline.dynamic_shared_bytes()},
          {"variables", std::move(variables)}};
}

/// `text` with every place where `mark` is replaced.
std::string with(std::string text, std::string_view mark, std::string_view replacement) {
  for (size_t at = 0; (at = text.find(mark, at)) != std::string::npos; at += replacement.size()) {
    text.replace(at, mark.size(), replacement);
  }
  return text;
}

std::string escape(std::string text) {
  return with(with(with(std::move(text), "&", "&amp;"), "<", "&lt;"), ">", "&gt;");
}

}  // namespace

std::string run_data(const Run& run) {
  const Timeline& timeline = *run.timeline;
  const machine::Extent3 first = timeline.first_block();
  json data{{"kernel", timeline.kernel()->display_name},
            {"source", timeline.kernel()->source_file()},
            {"cycles", timeline.end()},
            {"blocks", timeline.blocks()},
            {"first_block", {first.x, first.y, first.z}},
            {"report", run.report}};
  data["shared"] = shared_data(timeline);
  for (const char* list : {"places", "warps", "tracks", "barriers", "steps"}) data[list] = json::array();
  for (const SourcePlace& place : run.places) data["places"].push_back({{"at", place.at}, {"code", place.code}});
  for (const RunWarp& warp : run.warps) {
    json waits = json::array();
    for (const RunWait& wait : warp.waits) waits.push_back(wait_data(wait));
    data["warps"].push_back({{"block", warp.block},
                             {"warp", warp.warp},
                             {"name", warp.name},
                             {"begin", warp.begin},
                             {"end", warp.end},
                             {"waits", std::move(waits)}});
  }
  for (const RunTrack& track : run.tracks) {
    json operations = json::array();
    for (const RunTrack::Operation& each : track.operations) operations.push_back(operation_data(each));
    data["tracks"].push_back({{"block", track.block}, {"unit", track.unit}, {"operations", std::move(operations)}});
  }
  data["arrivals"] = json::array();
  for (size_t i = 0; i < timeline.arrivals().size(); ++i) {
    const OperationSpan& arrival = timeline.arrivals()[i];
    data["arrivals"].push_back({{"number", arrival.number},
                                {"begin", arrival.begin},
                                {"end", arrival.end},
                                {"what", arrival.what},
                                {"warp", arrival.warp},
                                {"place", run.arrival_places[i]}});
  }
  for (const LoggedBarrier& barrier : timeline.barriers()) {
    data["barriers"].push_back({{"block", barrier.block}, {"name", barrier.name}});
  }
  // There are many of these: arrays are half as long as objects.
  for (size_t i = 0; i < timeline.steps().size(); ++i) {
    const BarrierStep& step = timeline.steps()[i];
    data["steps"].push_back({name_of(step.kind), step.at, step.barrier, step.amount, step.warp, run.step_places[i],
                             step.operation, step.phase, step.pending, step.bytes});
  }
  // Source lines may have bytes that are no UTF-8.
  return data.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string timeline_page(const Run& run) {
  // A < could begin a comment or end the element.
  const std::string data = with(run_data(run), "<", "\\u003c");
  std::string page(viewer_file("page.html"));
  page = with(std::move(page), "@TITLE@", escape(run.timeline->kernel()->display_name));
  page = with(std::move(page), "@STYLE@", viewer_file("style.css"));
  std::string script;
  for (const char* name : {"model.js", "story.js", "lanes.js", "viewer.js"}) script += viewer_file(name);
  page = with(std::move(page), "@SCRIPT@", script);
  return with(std::move(page), "@RUN@", data);
}

}  // namespace stagecraft::emulator::trace
