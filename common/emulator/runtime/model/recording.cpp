#include "emulator/runtime/model/recording.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/checks/reporting/report.hpp"
#include "emulator/runtime/model/report_file.hpp"
#include "emulator/settings/table.hpp"
#include "emulator/timing/replay.hpp"
#include "emulator/timing/report.hpp"
#include "emulator/trace/timeline_drawing.hpp"
#include "emulator/trace/timeline_page.hpp"
#include "emulator/trace/timeline_run.hpp"
#include "emulator/trace/timeline_trace.hpp"

namespace stagecraft::emulator::runtime {

void Recording::join(std::vector<machine::Observer*>& observers) {
  if (settings_.counters.bank_conflicts) observers.push_back(&bank_conflicts_);
  if (!settings_.timeline.empty()) observers.push_back(&timeline_);
}

void Recording::join_part(std::vector<std::unique_ptr<machine::Observer>>& observers) {
  if (settings_.timing.on) observers.push_back(std::make_unique<trace::LaunchRecorder>(launch_));
}

std::function<bool(uint64_t)> Recording::needed_clusters(bool checks_memory) {
  if (!settings_.timing.part || checks_memory) return {};
  return [this](uint64_t number) { return launch_.needs(number); };
}

void Recording::tell_time(Reporter& reporter, const machine::Architecture& architecture, uint32_t blocks,
                          std::optional<timing::L2Contents>& l2) {
  if (!settings_.timing.on || launch_.kernel() == nullptr) return;
  const machine::Kernel& kernel = *launch_.kernel();
  const timing::ChipModel* chip = timing::find_chip_model(architecture);
  timing::LaunchTrace trace = launch_.take();
  if (chip == nullptr) {
    std::vector<std::string> modelled = timing::chip_model_names();
    for (std::string& name : modelled) name.insert(0, "the ");
    const std::string text = fmt::format("not modelled: there is no model of time for the {}, only for {}",
                                         architecture.name, checks::join(modelled));
    return reporter.tell(fmt::format("stagecraft: {}\n{}\n", kernel.display_name, text),
                         {{"kind", "timing"}, {"kernel", kernel.display_name}, {"text", text}});
  }
  trace.order = order_;
  trace.blocks_per_multiprocessor = std::max(blocks, 1u);
  if (settings_.timing.cold) {
    l2.reset();
    trace.order = {.alone = true};
  }
  if (settings_.timing.used) l2 = timing::used_l2(trace, *chip);
  const timing::Result result = timing::replay(trace, *chip, l2);
  const auto source = [&](uint32_t pc) { return kernel.describe_source(pc); };
  reporter.tell(timing::text_of(result, *chip, kernel.display_name, source),
                timing::json_of(result, *chip, kernel.display_name, source));
}

namespace {

/// The timeline in the form that the name of its file asks for.
std::string draw(const trace::Timeline& timeline, std::string_view name, const std::string& report) {
  if (name.ends_with(".svg")) return trace::draw_svg(timeline);
  if (name.ends_with(".json")) return trace::trace_events(trace::prepare_run(timeline, report));
  if (name.ends_with(".html")) return trace::timeline_page(trace::prepare_run(timeline, report));
  return trace::draw_text(timeline);
}

}  // namespace

void Recording::tell(Reporter& reporter, uint64_t launch, const std::string& report) const {
  if (settings_.counters.bank_conflicts) {
    if (const std::string text = bank_conflicts_.text(); !text.empty()) reporter.tell(text, bank_conflicts_.json());
  }
  if (settings_.timeline.empty()) return;
  if (settings_.timeline == "text") {
    const std::string text = trace::draw_text(timeline_);
    return reporter.tell(text, {{"kind", "timeline"}, {"text", text}});
  }
  const std::string name = timeline_file(settings_.timeline, launch);
  const std::string problem = write_file(name, draw(timeline_, name, report));
  if (problem.empty()) return;
  reporter.tell_unwritten(settings::row(settings::Setting::timeline).name, "timeline",
                          fmt::format("the timeline cannot be written to {}: {}", name, problem));
}

std::string timeline_file(const std::string& name, uint64_t launch) {
  if (launch == 0) return name;
  const std::filesystem::path path(name);
  return (path.parent_path() / fmt::format("{}.{}{}", path.stem().string(), launch + 1, path.extension().string()))
      .string();
}

}  // namespace stagecraft::emulator::runtime
