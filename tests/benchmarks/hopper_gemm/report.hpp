// What a benchmark prints: a table for people, and every figure as JSON lines or CSV for programs.
#pragma once

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "measurement.hpp"

namespace stagecraft {

/// How the benchmark was asked to measure.
struct Routine {
  int repeats, launches, pause_ms, sustained_launches;
  std::string command;
};

/// The table on standard output, and the files that were asked for.
class Report {
 public:
  /// @param json, csv  files; empty: none. Throws std::runtime_error for one that cannot be written.
  Report(Machine machine, const std::string& json, const std::string& csv)
      : machine_(std::move(machine)), json_(open(json)), csv_(open(csv)) {}

  /// Begins with the machine, without which no figure means anything.
  void begin(const Routine& routine) {
    std::printf("%s\n", machine_.description().c_str());
    std::printf("TFLOP/s, medians: a burst is %d products after %d ms of rest, sustained %d in a row\n\n",
                routine.launches, routine.pause_ms, routine.sustained_launches);
    std::printf("%-24s %-14s %8s %8s %10s %8s %6s %6s  %s\n", "M x N x K", "kernel", "burst", "ratio", "sustained",
                "ratio", "MHz", "W", "compared, wrong");
    if (json_) {
      std::fprintf(
          json_.get(),
          "{\"date\": \"%s\", \"device\": \"%s\", \"driver\": \"%s\", \"memory MHz\": %u, \"MHz at rest\": %u, "
          "\"W at rest\": %.0f, \"degrees\": %u, \"repeats\": %d, \"launches in a burst\": %d, \"pause ms\": %d, "
          "\"sustained launches\": %d, \"command\": \"%s\"}\n",
          machine_.date.c_str(), machine_.device.c_str(), machine_.driver.c_str(), machine_.memory_clock,
          machine_.clock, machine_.power, machine_.temperature, routine.repeats, routine.launches, routine.pause_ms,
          routine.sustained_launches, routine.command.c_str());
    }
    if (csv_) {
      std::fprintf(csv_.get(), "# %s\n# %s\n", machine_.description().c_str(), routine.command.c_str());
      std::fprintf(
          csv_.get(),
          "type,m,n,k,kernel,burst TFLOP/s,burst ratio,sustained TFLOP/s,sustained ratio,MHz,W,compared,wrong\n");
    }
  }

  /// Which of cuBLAS's algorithms is measured.
  void note_cublas(const Shape& shape, int algorithms, int chosen, size_t sets) {
    if (!json_) return;
    std::fprintf(json_.get(), "{\"shape\": \"%s\", \"cublas algorithms\": %d, \"chosen\": %d, \"sets\": %zu}\n",
                 shape.name().c_str(), algorithms, chosen, sets);
  }

  /// What the comparison of a result has found.
  void note_verdict(const Shape& shape, const Prepared& contender) {
    if (!json_) return;
    const auto& [in_double, there] = contender.verdict;
    std::fprintf(
        json_.get(),
        "{\"shape\": \"%s\", \"contender\": \"%s\", \"compared with double\": %lld, \"wrong\": %lld, \"worst\": "
        "%.3g, \"compared with cuBLAS\": %lld, \"wrong there\": %lld, \"worst there\": %.3g}\n",
        shape.name().c_str(), contender.name.c_str(), static_cast<long long>(in_double.compared),
        static_cast<long long>(in_double.wrong), in_double.worst, static_cast<long long>(there.compared),
        static_cast<long long>(there.wrong), there.worst);
  }

  /// How fast a contender was, beside the first one, if that is cuBLAS.
  void note_rates(const Shape& shape, const Prepared& contender, const Prepared& first) {
    const auto ratio = [&](const std::vector<double> Prepared::*rates) {
      return first.name == "cublas" && !(contender.*rates).empty() ? median(contender.*rates) / median(first.*rates)
                                                                   : 0.;
    };
    const bool sustains = !contender.sustained.empty();
    const double burst = median(contender.burst), sustained = sustains ? median(contender.sustained) : 0;
    const double burst_ratio = ratio(&Prepared::burst), sustained_ratio = ratio(&Prepared::sustained);
    const double clock = contender.clock.empty() ? 0 : median(contender.clock);
    const double power = contender.power.empty() ? 0 : median(contender.power);
    const Mismatch& found = contender.verdict.in_double;

    std::printf("%-24s %-14s %8s %8s %10s %8s %6s %6s  %lld, %lld\n", shape.name().c_str(), contender.name.c_str(),
                text(burst, "%.1f").c_str(), text(burst_ratio, "%.3f").c_str(), text(sustained, "%.1f").c_str(),
                text(sustained_ratio, "%.3f").c_str(), text(clock, "%.0f").c_str(), text(power, "%.0f").c_str(),
                static_cast<long long>(found.compared), static_cast<long long>(found.wrong));
    std::fflush(stdout);
    if (csv_) {
      std::fprintf(csv_.get(), "%s,%lld,%lld,%lld,%s,%s,%s,%s,%s,%s,%s,%lld,%lld\n",
                   shape.type == OperandType::e4m3 ? "e4m3" : "bf16", static_cast<long long>(shape.m),
                   static_cast<long long>(shape.n), static_cast<long long>(shape.k), contender.name.c_str(),
                   text(burst, "%.1f").c_str(), text(burst_ratio, "%.4f").c_str(), text(sustained, "%.1f").c_str(),
                   text(sustained_ratio, "%.4f").c_str(), text(clock, "%.0f").c_str(), text(power, "%.0f").c_str(),
                   static_cast<long long>(found.compared), static_cast<long long>(found.wrong));
      std::fflush(csv_.get());
    }
    if (!json_) return;
    std::fprintf(
        json_.get(), "{\"shape\": \"%s\", \"contender\": \"%s\", \"burst\": %.1f, \"ratio\": %.4f, \"bursts\": %s",
        shape.name().c_str(), contender.name.c_str(), burst, burst_ratio, list(contender.burst, "%.1f").c_str());
    if (sustains) {
      std::fprintf(json_.get(),
                   ", \"sustained\": %.1f, \"sustained ratio\": %.4f, \"all sustained\": %s, \"MHz\": %s, \"W\": %s, "
                   "\"J\": %s",
                   sustained, sustained_ratio, list(contender.sustained, "%.1f").c_str(),
                   list(contender.clock, "%.0f").c_str(), list(contender.power, "%.0f").c_str(),
                   list(contender.energy, "%.4f").c_str());
    }
    std::fprintf(json_.get(), "}\n");
    std::fflush(json_.get());
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using File = std::unique_ptr<std::FILE, Close>;

  static File open(const std::string& name) {
    if (name.empty()) return nullptr;
    File file(std::fopen(name.c_str(), "w"));
    if (!file) throw std::runtime_error("cannot write " + name);
    return file;
  }
  /// A number; nothing in place of 0, which means that there is none.
  static std::string text(double value, const char* format) {
    char number[32] = "";
    if (value != 0) std::snprintf(number, sizeof number, format, value);
    return number;
  }
  static std::string list(const std::vector<double>& values, const char* format) {
    std::string all = "[";
    for (const double value : values) {
      char number[32];
      std::snprintf(number, sizeof number, format, value);
      all += (all.size() > 1 ? ", " : "") + std::string(number);
    }
    return all + "]";
  }

  Machine machine_;
  File json_, csv_;
};

}  // namespace stagecraft
