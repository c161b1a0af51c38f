#include "emulator/scheduling/findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <utility>

namespace stagecraft::emulator::machine {

std::vector<Diagnostic> merge_findings(std::vector<std::vector<Finding>> found_by_part,
                                       std::optional<StoppedAt> stopped) {
  const auto counts = [&](size_t part, Cycle at) {
    return !stopped || part == stopped->part || std::tie(at, part) < std::tie(stopped->time, stopped->part);
  };
  std::vector<Finding> all;
  for (size_t part = 0; part < found_by_part.size(); ++part) {
    for (Finding& finding : found_by_part[part]) {
      if (!counts(part, finding.at)) continue;
      for (Finding::Detail& detail : finding.later) {
        if (counts(part, detail.at)) finding.diagnostic.details.push_back(std::move(detail.text));
      }
      all.push_back(std::move(finding));
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Finding& a, const Finding& b) { return a.at < b.at; });
  std::vector<Diagnostic> reported;
  std::set<std::string> identities;
  for (Finding& finding : all) {
    if (reported.size() == kMostFindings) break;
    if (identities.insert(finding.diagnostic.identity).second) reported.push_back(std::move(finding.diagnostic));
  }
  return reported;
}

bool add_consequence(std::vector<Diagnostic>& findings, const Diagnostic& stop) {
  if (stop.place.source.empty()) return false;
  const std::string place = " at " + stop.place.source + " ";
  const auto names_it = [&](const Diagnostic& finding) {
    // What PTX does not promise, and chips do, is no reason for a kernel to stop.
    if (!finding.tolerated.empty()) return false;
    return finding.place.source == stop.place.source ||
           std::any_of(finding.details.begin(), finding.details.end(),
                       [&](const std::string& detail) { return (detail + ' ').find(place) != std::string::npos; });
  };
  const auto found = std::find_if(findings.begin(), findings.end(), names_it);
  if (found == findings.end()) return false;
  found->details.push_back(fmt::format("this is what stops the kernel: {}", stop.message));
  return true;
}

}  // namespace stagecraft::emulator::machine
