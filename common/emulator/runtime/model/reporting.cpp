#include "emulator/runtime/model/reporting.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "emulator/checks/reporting/report.hpp"
#include "emulator/runtime/model/report_file.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// One line; text that is not UTF-8 (names come from the program) is repaired.
std::string line_of(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
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
  write(format_ == ReportFormat::json ? line_of(checks::render_json(diagnostic)) : checks::render_text(diagnostic));
}

void Reporter::tell_repetitions() {
  if (repeated_ == 0) return;
  tell(fmt::format("stagecraft: findings that were reported once were repeated in later launches, {} times\n",
                   repeated_),
       {{"kind", "repeated findings"}, {"count", repeated_}});
}

void Reporter::tell(const std::string& text, const nlohmann::json& json) {
  write(format_ == ReportFormat::json ? line_of(json) : text);
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
    const std::string message = fmt::format("the next report cannot be written to {}: {}", file_, problem);
    const std::string line = format_ == ReportFormat::json
                                 ? line_of({{"kind", "report file"}, {"message", message}})
                                 : fmt::format("stagecraft: STAGECRAFT_REPORT_FILE: {}\n", message);
    std::fwrite(line.data(), 1, line.size(), stderr);
  }
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace stagecraft::emulator::runtime
