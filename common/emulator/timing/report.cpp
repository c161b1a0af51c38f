#include "emulator/timing/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace stagecraft::emulator::timing {
namespace {

constexpr std::array<const char*, kSpent> kNames = {"running", "waiting to issue", "mbarriers",        "barriers",
                                                    "loads",   "the products",     "groups of copies", "shared memory",
                                                    "fences",  "the launch before"};
constexpr double kShown = 0.01;  ///< the least part of a warp's time that is shown
constexpr size_t kMostLines = 8;

double share_of(const WarpTime& warp, size_t on) { return warp.all == 0 ? 0 : warp.cycles[on] / warp.all; }

bool alike(const WarpTime& a, const WarpTime& b) {
  constexpr double kAlike = 0.04;
  for (size_t on = 0; on < kSpent; ++on) {
    if (std::abs(share_of(a, on) - share_of(b, on)) > kAlike) return false;
  }
  return true;
}

std::string describe(const WarpTime& warp) {
  std::vector<std::pair<double, std::string>> parts;
  for (size_t on = 2; on < kSpent; ++on) {
    if (const double share = share_of(warp, on); share >= kShown) {
      parts.emplace_back(share, fmt::format("{:.0f}% {}", 100 * share, kNames[on]));
    }
  }
  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text = fmt::format("{:3.0f}% running", 100 * share_of(warp, 0));
  if (share_of(warp, 1) >= kShown) text += fmt::format(", {:.0f}% waiting to issue", 100 * share_of(warp, 1));
  for (size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "; waits: " : ", ") + parts[i].second;
  return text;
}

std::string time_text(double us) {
  return us < 1000 ? fmt::format("{:.1f} us", us) : fmt::format("{:.2f} ms", us / 1000);
}

/// Source lines by the time that warps waited there, and that time as a part of all warps' time.
std::vector<std::pair<double, std::string>> stalled_lines(const Result& result, const DescribeSource& source) {
  double all = 0;
  for (const WarpTime& warp : result.warps) all += warp.all;
  std::map<std::string, double> by_line;
  for (const auto& [pc, cycles] : result.stalls) {
    if (const std::string line = source(pc); !line.empty()) by_line[line] += cycles;
  }
  std::vector<std::pair<double, std::string>> lines;
  for (const auto& [line, cycles] : by_line) {
    if (all > 0 && cycles / all >= kShown) lines.emplace_back(cycles / all, line);
  }
  std::sort(lines.begin(), lines.end(), std::greater<>());
  if (lines.size() > kMostLines) lines.resize(kMostLines);
  return lines;
}

}  // namespace

std::vector<UnitUse> unit_uses(const Result& result, const ChipModel& chip) {
  const double all = result.cycles * result.multiprocessors, seconds = result.microseconds() * 1e-6;
  const double hertz = result.megahertz * 1e6, giga = 1e-9;
  if (all == 0 || seconds == 0) return {};
  std::vector<UnitUse> units;
  if (const double share = result.tensor_busy / all; share > 0) {
    const double achieved = result.operations / seconds * 1e-12;
    if (achieved > 0) {
      units.push_back({"tensor cores", share, achieved, achieved / share, "TFLOP/s"});
    } else {  // the operations of mma.sync are not counted
      units.push_back({"tensor cores", share, 100 * share, 100, "% of the cycles"});
    }
  }
  const auto add = [&](const char* name, double share, double peak_bytes) {
    if (share > 0) units.push_back({name, share, share * peak_bytes * giga, peak_bytes * giga, "GB/s"});
  };
  const double places = result.multiprocessors * hertz;
  add("shared memory", result.shared_busy / all, chip.shared_bytes * places);
  add("copies into shared memory", result.copy_in_busy / all, chip.copy_bytes * places);
  add("copies out of shared memory", result.copy_out_busy / all, chip.store_bytes * places);
  add("L2", result.l2_busy / result.cycles, chip.l2_rate / giga);
  add("L2 to the GPCs", result.paths_busy / result.cycles,
      chip.group_rate * static_cast<double>(chip.groups.size()) / giga);
  add("DRAM", result.dram_busy / result.cycles, chip.dram_rate / giga);
  if (const double share = result.issue_busy / all; share > 0) {
    units.push_back({"schedulers", share, 4 * share, 4, "instructions a cycle"});
  }
  std::stable_sort(units.begin(), units.end(), [](const UnitUse& a, const UnitUse& b) { return a.share > b.share; });
  return units;
}

std::string last_line(const Result& result) {
  if (!result.not_modelled.empty()) return "not modelled: " + result.not_modelled;
  const double us = result.microseconds(), gigahertz = result.megahertz / 1000;
  const std::string time = time_text(us);
  if (result.operations > 0) {
    return fmt::format("modelled: {}, {:.0f} TFLOP/s at {:.2f} GHz, tensor cores {:.0f}% busy", time,
                       result.operations / us * 1e-6, gigahertz, 100 * result.tensor_share());
  }
  return fmt::format("modelled: {}, {:.0f} GB/s at {:.2f} GHz", time, us == 0 ? 0 : result.bytes / us * 1e-3,
                     gigahertz);
}

std::string text_of(const Result& result, const ChipModel& chip, const std::string& kernel,
                    const DescribeSource& source) {
  std::string text = fmt::format("stagecraft: {} on the model of the {}\n", kernel, chip.name);
  if (!result.not_modelled.empty()) return text + last_line(result) + "\n";
  for (size_t first = 0; first < result.warps.size();) {
    size_t end = first + 1;
    while (end < result.warps.size() && alike(result.warps[first], result.warps[end])) ++end;
    const std::string numbers =
        end == first + 1 ? fmt::format("warp {}", first) : fmt::format("warps {}-{}", first, end - 1);
    text += fmt::format("  {:<12} {}\n", numbers, describe(result.warps[first]));
    first = end;
  }
  for (const UnitUse& unit : unit_uses(result, chip)) {
    text += fmt::format("  {:<28} {:3.0f}%  {:.4g} of {:.4g} {}\n", unit.name, 100 * unit.share, unit.achieved,
                        unit.peak, unit.unit);
  }
  for (const auto& [share, line] : stalled_lines(result, source)) {
    text += fmt::format("  {:3.0f}% of the warps' time at {}\n", 100 * share, line);
  }
  if (!result.extrapolated.empty()) text += fmt::format("  extrapolated from {}\n", result.extrapolated);
  if (result.incomplete) text += "  the other blocks did not run: WHAT THIS LAUNCH COMPUTES IS INCOMPLETE\n";
  if (result.sustained_microseconds != 0) {
    text += fmt::format("  when such launches go on for long: {}, at {:.2f} GHz\n",
                        time_text(result.sustained_microseconds), result.sustained_megahertz / 1000);
  }
  return text + last_line(result) + "\n";
}

nlohmann::json json_of(const Result& result, const ChipModel& chip, const std::string& kernel,
                       const DescribeSource& source) {
  if (!result.not_modelled.empty()) {
    return {{"kind", "timing"}, {"kernel", kernel}, {"chip", std::string(chip.name)}, {"text", last_line(result)}};
  }
  nlohmann::json warps = nlohmann::json::array(), units = nlohmann::json::array(), lines = nlohmann::json::array();
  for (const WarpTime& warp : result.warps) {
    nlohmann::json shares;
    for (size_t on = 0; on < kSpent; ++on) shares[kNames[on]] = share_of(warp, on);
    warps.push_back(std::move(shares));
  }
  for (const UnitUse& unit : unit_uses(result, chip)) {
    units.push_back({{"name", unit.name},
                     {"share", unit.share},
                     {"achieved", unit.achieved},
                     {"peak", unit.peak},
                     {"unit", unit.unit}});
  }
  for (const auto& [share, line] : stalled_lines(result, source)) lines.push_back({{"source", line}, {"share", share}});
  return {{"kind", "timing"},
          {"kernel", kernel},
          {"chip", std::string(chip.name)},
          {"microseconds", result.microseconds()},
          {"cycles", result.cycles},
          {"megahertz", result.megahertz},
          {"sustained_microseconds", result.sustained_microseconds},
          {"sustained_megahertz", result.sustained_megahertz},
          {"operations", result.operations},
          {"bytes", result.bytes},
          {"warps", warps},
          {"units", units},
          {"stalls", lines},
          {"extrapolated_from", result.extrapolated},
          {"incomplete", result.incomplete},
          {"text", last_line(result)}};
}

}  // namespace stagecraft::emulator::timing
