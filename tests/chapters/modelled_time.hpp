// The time that kernels would take on the model of a chip (docs/timing.md), for exercises that set a target. The model
// is a part of the emulated GPU, and says the same in every run.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <regex>
#include <stdexcept>
#include <string>

#include "harness/device.hpp"

namespace stagecraft::chapters {

/// What all launches of a program took on the model.
struct ModelledTime {
  double microseconds = 0;
  int launches = 0;

  /// "11.2 us"
  std::string text() const {
    char words[32];
    std::snprintf(words, sizeof words, "%.1f us", microseconds);
    return words;
  }
};

/// The sum of the times in what a program printed with `--timing --report json`.
/// @throws std::runtime_error  with the model's words, if it has no time for a launch.
inline ModelledTime modelled_time_in(const std::string& output) {
  static const std::regex launch(R"json(\{[^\n]*"kind":"timing"[^\n]*\})json");
  static const std::regex time(R"json("microseconds":([0-9.e+-]+))json"), text(R"json("text":"([^"]*)")json");
  ModelledTime all;
  for (std::sregex_iterator found(output.begin(), output.end(), launch), end; found != end; ++found, ++all.launches) {
    const std::string report = found->str();
    std::smatch match;
    if (!std::regex_search(report, match, time)) {
      throw std::runtime_error(std::regex_search(report, match, text) ? match.str(1)
                                                                      : "the model has no time: " + report);
    }
    all.microseconds += std::stod(match.str(1));
  }
  return all;
}

/// Runs the running test again, in a process of its own and with the model on, where it only calls `launch()`, and
/// returns the time of its launches. Where the model is on already, as by `./stagecraft time`, it calls `launch()`
/// here, for the reports, and returns zero launches.
/// @throws std::runtime_error  if a launch has no modelled time, or if there was none.
template <typename Launch>
ModelledTime modelled_time_of(const Launch& launch) {
  const char* const timing = std::getenv("STAGECRAFT_TIMING");
  if (timing != nullptr && std::string(timing) == "on") {
    launch();
    return {};
  }
  char program[PATH_MAX] = {};
  if (readlink("/proc/self/exe", program, sizeof program - 1) < 0) throw std::runtime_error("/proc/self/exe: no link");
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  // What else the caller wants to see is of this process.
  const std::string command =
      std::string(
          "env -u STAGECRAFT_TIMELINE -u STAGECRAFT_REPORT_FILE -u STAGECRAFT_COUNTERS STAGECRAFT_TIMING=on "
          "STAGECRAFT_CHECKS=none STAGECRAFT_REPORT=json '") +
      program + "' --gtest_filter=" + test.test_suite_name() + "." + test.name() + " 2>&1";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  if (!pipe) throw std::runtime_error("cannot start " + command);
  std::string output;
  char part[4096];
  while (const size_t read = fread(part, 1, sizeof part, pipe.get())) output.append(part, read);
  const ModelledTime took = modelled_time_in(output);
  if (took.launches == 0) throw std::runtime_error("no launch was modelled:\n" + output);
  return took;
}

/// Whether the device is the one that targets are for.
inline bool is_emulated_b200() {
  const std::string name = harness::current_device().name;
  return name.find("B200") != std::string::npos && name.find("emulated") != std::string::npos;
}

}  // namespace stagecraft::chapters
