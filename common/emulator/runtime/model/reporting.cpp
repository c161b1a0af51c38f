#include "emulator/runtime/model/reporting.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "emulator/checks/reporting/report.hpp"
#include "emulator/runtime/model/report_file.hpp"
#include "emulator/settings/table.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// One line; text that is not UTF-8 (names come from the program) is repaired.
std::string line_of(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

/// "3 findings count (deadlock 1, race 2)", "no finding counts"
/// @param one, more  what one of them does, and what several do
std::string spell_counts(const std::map<std::string, uint64_t>& by_kind, const char* one, const char* more) {
  uint64_t all = 0;
  std::vector<std::string> kinds;
  for (const auto& [kind, count] : by_kind) {
    all += count;
    kinds.push_back(fmt::format("{} {}", kind, count));
  }
  if (all == 0) return "no finding counts";
  return fmt::format("{} {} ({})", all, all == 1 ? fmt::format("finding {}", one) : fmt::format("findings {}", more),
                     fmt::join(kinds, ", "));
}

}  // namespace

void Reporter::configure(const Settings& settings) {
  if (const std::string problem = settings.report_file.empty() ? "" : append_to_file(settings.report_file, "");
      !problem.empty()) {
    throw std::invalid_argument(
        fmt::format("STAGECRAFT_REPORT_FILE is \"{}\", which cannot be written: {}", settings.report_file, problem));
  }
  format_ = settings.report_format;
  file_ = settings.report_file;
  tolerant_ = !settings.findings_are_errors;
}

void Reporter::report(const machine::Diagnostic& diagnostic) {
  if (!tolerant_ || diagnostic.tolerated.empty()) ++diagnosed_;
  if (tolerant_ && !diagnostic.identity.empty() &&
      !reported_.emplace(diagnostic.place.kernel, diagnostic.identity).second) {
    ++repeated_;
    return;
  }
  if (tolerant_ && diagnostic.tolerated.empty()) ++counted_[diagnostic.kind];
  if (tolerant_ && !diagnostic.tolerated.empty()) {
    Tolerated& rule = tolerated_[{diagnostic.kind, diagnostic.tolerated}];
    if (++rule.count > 1) {
      const machine::Place& place = diagnostic.place;
      const std::string where = place.source.empty() ? "kernel " + place.kernel : place.source;
      if (std::find(rule.places.begin(), rule.places.end(), where) == rule.places.end()) rule.places.push_back(where);
      if (format_ == ReportFormat::text) return;
    }
  }
  write(format_ == ReportFormat::json ? line_of(checks::render_json(diagnostic)) : checks::render_text(diagnostic));
}

void Reporter::tell_summary() {
  if (repeated_ != 0) {
    tell(fmt::format("stagecraft: findings that were reported once were repeated in later launches, {} times\n",
                     repeated_),
         {{"kind", "repeated findings"}, {"count", repeated_}});
  }
  if (tolerated_.empty()) return;
  std::map<std::string, uint64_t> tolerated;
  std::string others;
  for (const auto& [rule, found] : tolerated_) {
    tolerated[rule.first] += found.count;
    if (!found.places.empty()) {
      others += fmt::format("  another {} like the one reported ({}) at {}\n", rule.first, rule.second,
                            fmt::join(found.places, ", "));
    }
  }
  tell(fmt::format("stagecraft: {}; {}, because the chip seems to tolerate it\n{}",
                   spell_counts(counted_, "counts", "count"), spell_counts(tolerated, "does not", "do not"), others),
       {{"kind", "summary"}, {"counted", counted_}, {"tolerated", tolerated}});
}

void Reporter::tell(const std::string& text, const nlohmann::json& json) {
  write(format_ == ReportFormat::json ? line_of(json) : text);
}

void Reporter::tell_unwritten(std::string_view variable, std::string_view kind, std::string_view message) {
  has_unwritten_ = true;
  write(line_about_unwritten(variable, kind, message));
}

std::string Reporter::line_about_unwritten(std::string_view variable, std::string_view kind,
                                           std::string_view message) const {
  if (format_ == ReportFormat::json) return line_of({{"kind", kind}, {"message", message}});
  return fmt::format("stagecraft: {}: {}\n", variable, message);
}

void Reporter::refuse(std::string_view function, std::string_view message, std::string_view error) {
  if (format_ == ReportFormat::json) {
    write(line_of({{"kind", "refused call"}, {"function", function}, {"message", message}, {"error", error}}));
  } else {
    write(fmt::format("stagecraft: {}: {} [{}]\n", function, message, error));
  }
}

void Reporter::write(const std::string& text) {
  const FileSizeSignalHeldBack held_back;
  // The text that the kernel printed comes before its report.
  std::fflush(stdout);
  if (!file_.empty()) {
    // The file is opened for each report, so that it is complete however the process ends, and a fork does not share
    // it.
    const std::string problem = append_to_file(file_, text);
    if (problem.empty()) return;
    has_unwritten_ = true;
    const std::string line =
        line_about_unwritten(settings::row(settings::Setting::report_file).name, "report file",
                             fmt::format("the next report cannot be written to {}: {}", file_, problem));
    std::fwrite(line.data(), 1, line.size(), stderr);
  }
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace stagecraft::emulator::runtime
