// Writes findings and refused calls where the settings say.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emulator/runtime/model/settings.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::runtime {

/// Writes reports as the settings ask: text for people, or one JSON object per line for tools; to stderr or to a file.
class Reporter {
 public:
  /// Until this is called, reports go to stderr as text. Throws std::invalid_argument when the report file cannot be
  /// opened.
  void configure(const Settings& settings);

  /// Writes the diagnostic. Where findings are no errors, one that an earlier launch of the kernel had is only counted,
  /// and of those that the chip tolerates by one rule, text has the first in full and the summary the places of the
  /// others.
  void report(const machine::Diagnostic& diagnostic);
  /// At the end: how often findings were repeated, and where findings are no errors, how many count and how many do
  /// not.
  void tell_summary();
  /// Reports a call of the API that was refused: `stagecraft: cudaMalloc: <message> [cudaErrorInvalidValue]`.
  void refuse(std::string_view function, std::string_view message, std::string_view error);

  /// Writes something that is no diagnostic, such as counters, in the format of the reports.
  void tell(const std::string& text, const nlohmann::json& json);

  /// Reports that a file that a setting names could not be written.
  void tell_unwritten(std::string_view variable, std::string_view kind, std::string_view message);
  bool has_unwritten() const { return has_unwritten_; }

  /// Diagnostics of kernels so far; where findings are no errors, without those that the chip tolerates.
  uint64_t diagnosed() const { return diagnosed_; }

 private:
  void write(const std::string& text);
  std::string line_about_unwritten(std::string_view variable, std::string_view kind, std::string_view message) const;

  ReportFormat format_ = ReportFormat::text;
  std::string file_;
  bool tolerant_ = false;
  bool has_unwritten_ = false;
  uint64_t diagnosed_ = 0;
  std::set<std::pair<std::string, std::string>> reported_;  ///< findings, by kernel and identity
  uint64_t repeated_ = 0;
  std::map<std::string, uint64_t> counted_;  ///< findings that count, by kind
  struct Tolerated {
    uint64_t count = 0;
    std::vector<std::string> places{};  ///< of all but the first
  };
  std::map<std::pair<std::string, std::string>, Tolerated> tolerated_;  ///< by kind and what is tolerated
};

}  // namespace stagecraft::emulator::runtime
