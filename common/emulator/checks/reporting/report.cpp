#include "emulator/checks/reporting/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stagecraft::emulator::checks {
namespace {

/// Appends each line of `text`, indented; nothing for an empty text.
void append_indented(std::string& out, std::string_view text, size_t columns) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    out.append(columns, ' ').append(text.substr(0, end)).push_back('\n');
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

/// "block (2,0,0) warp 1 [lanes 0-3] st.global.f32 at gemm.cu:88", as much as is known; without the
/// instruction when the message names it.
std::string describe_place(const machine::Place& place, const std::string& message) {
  std::vector<std::string> parts;
  if (place.has_block) parts.push_back(fmt::format("block ({},{},{})", place.block_x, place.block_y, place.block_z));
  if (place.has_warp) parts.push_back(fmt::format("warp {}", place.warp));
  if (place.has_warp && place.lanes != 0) parts.push_back(fmt::format("[{}]", describe_lanes(place.lanes)));
  if (!place.instruction.empty() && message.find(place.instruction) == std::string::npos) {
    parts.push_back(place.instruction);
  }
  if (!place.source.empty()) parts.push_back("at " + place.source);
  return fmt::format("{}", fmt::join(parts, " "));
}

}  // namespace

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  return text;
}

std::string describe_lanes(machine::LaneMask lanes) {
  if (lanes == 0) return "no lanes";
  if (lanes == machine::kAllLanes) return "all lanes";
  std::vector<std::string> runs;
  for (uint32_t lane = 0; lane < machine::kWarpSize;) {
    if ((lanes >> lane & 1) == 0) {
      ++lane;
      continue;
    }
    uint32_t end = lane;
    while (end < machine::kWarpSize && (lanes >> end & 1) != 0) ++end;
    runs.push_back(end - lane == 1 ? fmt::format("{}", lane) : fmt::format("{}-{}", lane, end - 1));
    lane = end;
  }
  return fmt::format("{} {}", std::has_single_bit(lanes) ? "lane" : "lanes", fmt::join(runs, ", "));
}

std::string render_text(const machine::Diagnostic& diagnostic) {
  std::string out = "stagecraft: " + diagnostic.kind;
  if (!diagnostic.place.kernel.empty()) out += " in kernel " + diagnostic.place.kernel;
  if (!diagnostic.place.source_file.empty()) out += fmt::format(" ({})", diagnostic.place.source_file);
  out += '\n';

  const std::string place = describe_place(diagnostic.place, diagnostic.message);
  if (place.empty()) {
    append_indented(out, diagnostic.message, 2);
  } else {
    append_indented(out, diagnostic.message.empty() ? place : place + ": " + diagnostic.message, 2);
  }
  if (!diagnostic.place.calls.empty()) {
    append_indented(out, fmt::format("called through {}", fmt::join(diagnostic.place.calls, ", ")), 4);
  }
  for (const std::string& detail : diagnostic.details) append_indented(out, detail, 4);
  if (!diagnostic.likely_cause.empty()) append_indented(out, "likely cause: " + diagnostic.likely_cause, 2);
  if (!diagnostic.tolerated.empty()) {
    append_indented(out, "not promised by PTX, though the chip seems to tolerate it: " + diagnostic.tolerated, 2);
  }
  std::vector<std::string> following;
  for (const machine::Diagnostic& each : diagnostic.consequences) {
    const std::string line = each.place.source.substr(0, each.place.source.find(' '));
    std::string text = line.empty() ? each.kind : fmt::format("{} at {}", each.kind, line);
    if (std::find(following.begin(), following.end(), text) == following.end()) following.push_back(std::move(text));
  }
  if (const size_t count = following.size(); count != 0) {
    append_indented(out,
                    fmt::format("{} more report{} from this one: {}", count, count == 1 ? " follows" : "s follow",
                                fmt::join(following, ", ")),
                    2);
  }
  return out;
}

nlohmann::json render_json(const machine::Diagnostic& diagnostic) {
  const machine::Place& place = diagnostic.place;
  nlohmann::json json = {{"kind", diagnostic.kind}, {"message", diagnostic.message}};
  if (!place.kernel.empty()) json["kernel"] = place.kernel;
  if (!place.source_file.empty()) json["file"] = place.source_file;
  if (place.has_block) json["block"] = {place.block_x, place.block_y, place.block_z};
  if (place.has_warp) {
    json["warp"] = place.warp;
    std::vector<uint32_t> lanes;
    machine::for_each_lane(place.lanes, [&](uint32_t lane) { lanes.push_back(lane); });
    json["lanes"] = lanes;
  }
  if (!place.source.empty()) json["source"] = place.source;
  if (!place.instruction.empty()) json["instruction"] = place.instruction;
  if (!place.calls.empty()) json["calls"] = place.calls;
  if (!diagnostic.details.empty()) json["details"] = diagnostic.details;
  if (!diagnostic.likely_cause.empty()) json["likely_cause"] = diagnostic.likely_cause;
  if (!diagnostic.tolerated.empty()) json["tolerated"] = diagnostic.tolerated;
  for (const machine::Diagnostic& each : diagnostic.consequences) json["consequences"].push_back(render_json(each));
  return json;
}

}  // namespace stagecraft::emulator::checks
