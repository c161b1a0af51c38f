#include "emulator/runtime/model/settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <thread>

namespace stagecraft::emulator::runtime {
namespace {

constexpr uint32_t kMostThreads = 1024;
constexpr uint64_t kMostSchedules = 1'000'000'000;

[[noreturn]] void illegal(std::string_view name, std::string_view value) {
  for (const EnvironmentVariable& variable : environment_variables()) {
    if (variable.name == name) {
      throw std::invalid_argument(fmt::format("{} is \"{}\", but must be {}", name, value, variable.legal));
    }
  }
  throw std::logic_error(fmt::format("{} is not in the list of environment variables", name));
}

uint64_t read_seed(std::string_view text) {
  const bool is_hexadecimal = text.starts_with("0x");
  const std::string_view digits = is_hexadecimal ? text.substr(2) : text;
  uint64_t seed = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), seed, is_hexadecimal ? 16 : 10);
  if (error != std::errc{} || end != digits.data() + digits.size()) {
    illegal("STAGECRAFT_SEED", text);
  }
  return seed;
}

uint32_t read_threads(std::string_view text) {
  if (text.empty()) return std::max(1u, std::thread::hardware_concurrency());
  uint32_t threads = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), threads);
  if (error != std::errc{} || end != text.data() + text.size() || threads < 1 || threads > kMostThreads) {
    illegal("STAGECRAFT_THREADS", text);
  }
  return threads;
}

uint64_t read_host_memory(std::string_view text) {
  if (text.empty()) return 0;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  const uint64_t factor = unit.empty() ? 1 : unit == "M" ? 1ull << 20 : unit == "G" ? 1ull << 30 : 0;
  uint64_t bytes = 0;
  if (error != std::errc{} || __builtin_mul_overflow(number, factor, &bytes) || bytes == 0) {
    illegal("STAGECRAFT_HOST_MEMORY", text);
  }
  return bytes;
}

uint64_t read_limit(std::string_view text) {
  uint64_t cycles = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), cycles);
  if (error != std::errc{} || end != text.data() + text.size() || cycles == 0) illegal("STAGECRAFT_LIMIT_CYCLES", text);
  return cycles;
}

void read_explore(std::string_view text, Settings& settings) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), settings.explore);
  const std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
  settings.explore_lanes = rest == ",lanes";
  if (error != std::errc{} || (!rest.empty() && !settings.explore_lanes) || settings.explore == 0 ||
      settings.explore > kMostSchedules) {
    illegal("STAGECRAFT_EXPLORE", text);
  }
}

uint64_t read_exhaust(std::string_view text) {
  uint64_t interleavings = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), interleavings);
  if (error != std::errc{} || end != text.data() + text.size() || interleavings == 0 ||
      interleavings > kMostSchedules) {
    illegal("STAGECRAFT_EXHAUST", text);
  }
  return interleavings;
}

ReplayedLaunch read_schedule(std::string_view text) {
  ReplayedLaunch replayed;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), replayed.launch);
  const std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
  const auto schedule = rest.starts_with(':') ? machine::parse_schedule(rest.substr(1)) : std::nullopt;
  if (error != std::errc{} || replayed.launch == 0 || !schedule) illegal("STAGECRAFT_SCHEDULE", text);
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
  if (text.empty() || text == "none") return checks;
  if (text == "all") return {.race = true};
  for_each_name(text, [&](std::string_view name) {
    if (name == "race" || name == "all") {
      checks.race = true;
    } else if (name == "global") {
      checks.race = checks.global = true;
    } else if (name != "deadlock") {  // deadlocks are always reported
      illegal("STAGECRAFT_CHECKS", name);
    }
  });
  return checks;
}

Counters read_counters(std::string_view text) {
  Counters counters;
  if (text.empty() || text == "none") return counters;
  // There is one counter so far.
  if (text != "all" && text != "bank_conflicts") illegal("STAGECRAFT_COUNTERS", text);
  counters.bank_conflicts = true;
  return counters;
}

std::vector<std::string> read_files(std::string_view text) {
  std::vector<std::string> files;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t colon = rest.find(':');
    files.emplace_back(rest.substr(0, colon));
    if (files.back().empty() || colon == rest.size() - 1) illegal("STAGECRAFT_PTX", text);
    rest.remove_prefix(colon == std::string_view::npos ? rest.size() : colon + 1);
  }
  return files;
}

Timing read_timing(std::string_view text) {
  Timing timing;
  if (text.empty() || text == "off") return timing;
  timing.on = true;
  if (text == "on") return timing;
  for_each_name(text, [&](std::string_view name) {
    if (name == "part") {
      timing.part = true;
    } else if (name == "cold") {
      timing.cold = true;
    } else {
      illegal("STAGECRAFT_TIMING", name);
    }
  });
  return timing;
}

}  // namespace

const std::vector<EnvironmentVariable>& environment_variables() {
  static const std::vector<EnvironmentVariable> all = {
      {"STAGECRAFT_DEVICE", fmt::format("{}", fmt::join(machine::architecture_names(), " or "))},
      {"STAGECRAFT_SEED", "a number from 0 to 18446744073709551615, decimal or with 0x"},
      {"STAGECRAFT_EXPLORE",
       fmt::format("a number of schedules from 1 to {}, or one followed by ,lanes", kMostSchedules)},
      {"STAGECRAFT_EXHAUST", fmt::format("a number of interleavings from 1 to {}", kMostSchedules)},
      {"STAGECRAFT_SCHEDULE", "the number of a launch, a colon and switches, as a report of an exploration names them"},
      {"STAGECRAFT_PREFERRED_CLUSTERS", "some, all or none"},
      {"STAGECRAFT_THREADS", fmt::format("a number from 1 to {}", kMostThreads)},
      {"STAGECRAFT_HOST_MEMORY", "a number of bytes, at least 1, or one followed by M or G"},
      {"STAGECRAFT_LIMIT_CYCLES", "a number of cycles from 1 to 18446744073709551615"},
      {"STAGECRAFT_PROGRESS", "line or none"},
      {"STAGECRAFT_PTX", "names of files, with colons between them"},
      {"STAGECRAFT_CHECKS", "all, none, or a list of: deadlock, race, global"},
      {"STAGECRAFT_COUNTERS", "all, none, or bank_conflicts"},
      {"STAGECRAFT_TIMELINE", "text, or the name of a file that ends in .html, .json, .svg or .txt"},
      {"STAGECRAFT_TIMING", "on, off, or a list of: part, cold"},
      {"STAGECRAFT_REPORT", "text or json"},
      {"STAGECRAFT_REPORT_FILE", "the name of a file in a folder that exists"},
      {"STAGECRAFT_FINDINGS", "error or report"},
      {"STAGECRAFT_EXIT_STATUS", "strict or program"},
      // Checked here, and read by host/isa_level.cpp.
      {"STAGECRAFT_ISA_LEVEL", "1, 3 or 4", /*is_setting=*/false},
      // The same, by engines/tensor_core/panel_kernels.cpp.
      {"STAGECRAFT_MMA_SUMS", "plain or fused", /*is_setting=*/false},
  };
  return all;
}

Settings read_settings(const char* (*get_variable)(const char* name)) {
  const auto variable = [&](const char* name) {
    const char* value = get_variable(name);
    return std::string_view(value == nullptr ? "" : value);
  };
  Settings settings;
  const std::string_view device = variable("STAGECRAFT_DEVICE");
  settings.architecture = machine::find_architecture(device);
  if (settings.architecture == nullptr && !device.empty()) illegal("STAGECRAFT_DEVICE", device);
  if (const std::string_view seed = variable("STAGECRAFT_SEED"); !seed.empty()) settings.seed = read_seed(seed);

  if (const std::string_view explore = variable("STAGECRAFT_EXPLORE"); !explore.empty()) {
    read_explore(explore, settings);
  }
  if (const std::string_view exhaust = variable("STAGECRAFT_EXHAUST"); !exhaust.empty()) {
    settings.exhaust = read_exhaust(exhaust);
  }
  if (const std::string_view schedule = variable("STAGECRAFT_SCHEDULE"); !schedule.empty()) {
    settings.schedule = read_schedule(schedule);
  }

  const std::string_view preferred = variable("STAGECRAFT_PREFERRED_CLUSTERS");
  if (preferred == "all") {
    settings.preferred_clusters = machine::PreferredClusters::all;
  } else if (preferred == "none") {
    settings.preferred_clusters = machine::PreferredClusters::none;
  } else if (!preferred.empty() && preferred != "some") {
    illegal("STAGECRAFT_PREFERRED_CLUSTERS", preferred);
  }
  settings.threads = read_threads(variable("STAGECRAFT_THREADS"));
  settings.host_memory = read_host_memory(variable("STAGECRAFT_HOST_MEMORY"));
  if (const std::string_view limit = variable("STAGECRAFT_LIMIT_CYCLES"); !limit.empty()) {
    settings.limit_cycles = read_limit(limit);
  }
  const std::string_view progress = variable("STAGECRAFT_PROGRESS");
  if (progress == "none") {
    settings.progress = false;
  } else if (!progress.empty() && progress != "line") {
    illegal("STAGECRAFT_PROGRESS", progress);
  }
  settings.ptx = read_files(variable("STAGECRAFT_PTX"));
  settings.checks = read_checks(variable("STAGECRAFT_CHECKS"));

  settings.counters = read_counters(variable("STAGECRAFT_COUNTERS"));
  settings.timeline = variable("STAGECRAFT_TIMELINE");
  const std::string_view timeline = settings.timeline;
  const auto has_ending = [&](std::string_view ending) { return timeline.ends_with(ending); };
  const std::string_view endings[] = {".html", ".json", ".svg", ".txt"};
  if (!timeline.empty() && timeline != "text" && std::none_of(std::begin(endings), std::end(endings), has_ending)) {
    illegal("STAGECRAFT_TIMELINE", timeline);
  }

  settings.timing = read_timing(variable("STAGECRAFT_TIMING"));

  const std::string_view format = variable("STAGECRAFT_REPORT");
  if (format == "json") {
    settings.report_format = ReportFormat::json;
  } else if (!format.empty() && format != "text") {
    illegal("STAGECRAFT_REPORT", format);
  }
  settings.report_file = variable("STAGECRAFT_REPORT_FILE");

  const std::string_view exit_status = variable("STAGECRAFT_EXIT_STATUS");
  if (exit_status == "program") {
    settings.strict_exit_status = false;
  } else if (!exit_status.empty() && exit_status != "strict") {
    illegal("STAGECRAFT_EXIT_STATUS", exit_status);
  }

  const std::string_view findings = variable("STAGECRAFT_FINDINGS");
  if (findings == "report") {
    settings.findings_are_errors = false;
  } else if (!findings.empty() && findings != "error") {
    illegal("STAGECRAFT_FINDINGS", findings);
  }

  const std::string_view level = variable("STAGECRAFT_ISA_LEVEL");
  if (!level.empty() && level != "1" && level != "3" && level != "4") illegal("STAGECRAFT_ISA_LEVEL", level);
  const std::string_view sums = variable("STAGECRAFT_MMA_SUMS");
  if (!sums.empty() && sums != "plain" && sums != "fused") illegal("STAGECRAFT_MMA_SUMS", sums);
  return settings;
}

}  // namespace stagecraft::emulator::runtime
