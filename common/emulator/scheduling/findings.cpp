#include "emulator/scheduling/findings.hpp"

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

}  // namespace stagecraft::emulator::machine
