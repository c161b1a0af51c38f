#include "emulator/runtime/model/settings.hpp"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <iterator>
#include <string_view>
#include <thread>
#include <utility>

#include "emulator/settings/table.hpp"

namespace stagecraft::emulator::runtime {
namespace {

using settings::illegal;
using settings::Setting;

struct LeadingNumber {
  uint64_t number;
  std::string_view rest;  ///< of the text
};

/// The number in the setting's range that `text` begins with.
LeadingNumber leading_number(Setting setting, std::string_view text) {
  const settings::Row& row = settings::row(setting);
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number < row.least || number > row.most) illegal(setting, text);
  return {number, text.substr(static_cast<size_t>(end - text.data()))};
}

uint64_t whole_number(Setting setting, std::string_view text) {
  const auto [number, rest] = leading_number(setting, text);
  if (!rest.empty()) illegal(setting, text);
  return number;
}

/// What the word stands for, of those that the table has.
template <typename Value>
Value meaning(Setting setting, std::string_view text, std::initializer_list<std::pair<std::string_view, Value>> words) {
  for (const auto& [word, value] : words) {
    if (word == text) return value;
  }
  illegal(setting, text);
}

uint64_t read_seed(std::string_view text) {
  if (!text.starts_with("0x")) return whole_number(Setting::seed, text);
  uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), seed, 16);
  if (error != std::errc{} || end != text.data() + text.size()) illegal(Setting::seed, text);
  return seed;
}

uint64_t read_host_memory(std::string_view text) {
  const auto [number, unit] = leading_number(Setting::host_memory, text);
  const uint64_t factor = unit.empty() ? 1 : unit == "M" ? 1ull << 20 : unit == "G" ? 1ull << 30 : 0;
  uint64_t bytes = 0;
  if (factor == 0 || __builtin_mul_overflow(number, factor, &bytes)) illegal(Setting::host_memory, text);
  return bytes;
}

void read_explore(std::string_view text, Settings& settings) {
  const auto [schedules, rest] = leading_number(Setting::explore, text);
  if (!rest.empty() && rest != ",lanes") illegal(Setting::explore, text);
  settings.explore = schedules;
  settings.explore_lanes = !rest.empty();
}

ReplayedLaunch read_schedule(std::string_view text) {
  ReplayedLaunch replayed;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), replayed.launch);
  const std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
  const auto schedule = rest.starts_with(':') ? machine::parse_schedule(rest.substr(1)) : std::nullopt;
  if (error != std::errc{} || replayed.launch == 0 || !schedule) illegal(Setting::schedule, text);
  replayed.schedule = *schedule;
  return replayed;
}

/// Calls visit(name) for each of the names between commas.
template <typename Visit>
void for_each_name(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const size_t comma = text.find(',');
    visit(text.substr(0, comma));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
}

Checks read_checks(std::string_view text) {
  Checks checks;
  if (text == "none") return checks;
  for_each_name(text, [&](std::string_view name) {
    if (name == "race") {
      checks.race = true;
    } else if (name == "global" || name == "all") {
      checks.race = checks.global = true;
    } else if (name != "deadlock") {  // deadlocks are always reported
      illegal(Setting::checks, name);
    }
  });
  return checks;
}

std::vector<std::string> read_files(std::string_view text) {
  std::vector<std::string> files;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t colon = rest.find(':');
    files.emplace_back(rest.substr(0, colon));
    if (files.back().empty() || colon == rest.size() - 1) illegal(Setting::ptx, text);
    rest.remove_prefix(colon == std::string_view::npos ? rest.size() : colon + 1);
  }
  return files;
}

Timing read_timing(std::string_view text) {
  Timing timing;
  if (text == "off") return timing;
  timing.on = true;
  if (text == "on") return timing;
  for_each_name(text, [&](std::string_view name) {
    if (name == "part") {
      timing.part = true;
    } else if (name == "cold") {
      timing.cold = true;
    } else if (name == "used") {
      timing.used = true;
    } else {
      illegal(Setting::timing, name);
    }
  });
  return timing;
}

void check_timeline(std::string_view text) {
  if (text == "text") return;
  for (const std::string_view ending : {".html", ".json", ".svg", ".txt"}) {
    if (text.ends_with(ending)) return;
  }
  illegal(Setting::timeline, text);
}

void read_setting(Setting setting, std::string_view text, Settings& settings) {
  switch (setting) {
    case Setting::device:
      settings.architecture = machine::find_architecture(text);
      if (settings.architecture == nullptr) illegal(setting, text);
      return;
    case Setting::ptx: settings.ptx = read_files(text); return;
    case Setting::checks: settings.checks = read_checks(text); return;
    case Setting::seed: settings.seed = read_seed(text); return;
    case Setting::explore: read_explore(text, settings); return;
    case Setting::exhaust: settings.exhaust = whole_number(setting, text); return;
    case Setting::schedule: settings.schedule = read_schedule(text); return;
    case Setting::preferred_clusters:
      using machine::PreferredClusters;
      settings.preferred_clusters = meaning<PreferredClusters>(
          setting, text,
          {{"some", PreferredClusters::some}, {"all", PreferredClusters::all}, {"none", PreferredClusters::none}});
      return;
    case Setting::report:
      settings.report_format =
          meaning<ReportFormat>(setting, text, {{"text", ReportFormat::text}, {"json", ReportFormat::json}});
      return;
    case Setting::report_file: settings.report_file = text; return;
    case Setting::findings:
      settings.findings_are_errors = meaning<bool>(setting, text, {{"error", true}, {"report", false}});
      return;
    case Setting::exit_status:
      settings.strict_exit_status = meaning<bool>(setting, text, {{"strict", true}, {"program", false}});
      return;
    case Setting::threads: settings.threads = static_cast<uint32_t>(whole_number(setting, text)); return;
    case Setting::host_memory: settings.host_memory = read_host_memory(text); return;
    case Setting::limit_cycles: settings.limit_cycles = whole_number(setting, text); return;
    case Setting::progress: settings.progress = meaning<bool>(setting, text, {{"line", true}, {"none", false}}); return;
    case Setting::counters:  // there is one so far
      settings.counters.bank_conflicts =
          meaning<bool>(setting, text, {{"all", true}, {"bank_conflicts", true}, {"none", false}});
      return;
    case Setting::timing: settings.timing = read_timing(text); return;
    case Setting::timeline:
      check_timeline(text);
      settings.timeline = text;
      return;
    case Setting::mma_sums:   // engines/tensor_core/panel_kernels.cpp reads it
    case Setting::isa_level:  // host/isa_level.cpp reads it
      settings::check_word(setting, text);
      return;
  }
}

}  // namespace

Settings read_settings(const char* (*get_variable)(const char* name)) {
  Settings settings;
  settings.threads = std::max(1u, std::thread::hardware_concurrency());
  for (const settings::Row& row : settings::kRows) {
    const std::string_view text = settings::value_of(row.setting, get_variable);
    if (!text.empty()) read_setting(row.setting, text, settings);
  }
  return settings;
}

}  // namespace stagecraft::emulator::runtime
