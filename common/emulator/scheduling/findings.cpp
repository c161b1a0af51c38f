#include "emulator/scheduling/findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
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

std::vector<std::string> merge_unread(const std::vector<std::vector<WrittenResult>>& written_by_part) {
  std::set<std::string> read;
  std::vector<std::string> unread;
  for (const auto& part : written_by_part) {
    for (const WrittenResult& each : part) {
      if (each.was_read) read.insert(each.identity);
    }
  }
  for (const auto& part : written_by_part) {
    for (const WrittenResult& each : part) {
      if (!each.was_read && read.insert(each.identity).second) unread.push_back(each.what);
    }
  }
  return unread;
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

namespace {

/// "ring.cu:30" of "ring.cu:30 (bulk_copy.hpp:19)".
std::string own_line(const Diagnostic& report) { return report.place.source.substr(0, report.place.source.find(' ')); }

bool names(const std::string& text, const std::string& line) {
  const size_t at = text.find(line);
  return at != std::string::npos && (at + line.size() == text.size() || std::isdigit(text[at + line.size()]) == 0);
}

/// Whether a report is about memory or barriers that a block's threads share.
bool is_about_order(const Diagnostic& report) { return !report.subject.empty(); }

/// Whether a load was found to read what nothing has written: mostly a sign that it came too early.
bool is_symptom(const Diagnostic& report) { return report.identity.starts_with("unwritten:"); }

/// A stale parity is itself the mistake, but is found only by its consequences; a symptom is never the mistake.
int rank(const Diagnostic& report) {
  return report.message.starts_with("stale parity") ? 0 : is_symptom(report) ? 2 : 1;
}

/// All that a report says.
std::string text_of(const Diagnostic& report) {
  std::string text = report.message + '\n' + report.likely_cause;
  for (const std::string& detail : report.details) text += '\n' + detail;
  return text;
}

/// Whether a race is about a barrier, or a line, at which threads wait in a deadlock.
bool shares_barrier(const Diagnostic& deadlock, const Diagnostic& race) {
  const std::string waits = text_of(deadlock), raced = text_of(race);
  const std::string line = own_line(race), waiting_line = own_line(deadlock);
  if ((!line.empty() && names(waits, line)) || (!waiting_line.empty() && names(raced, waiting_line))) return true;
  const std::string beginning = "waits for ";
  for (size_t at = waits.find(beginning); at != std::string::npos; at = waits.find(beginning, at + 1)) {
    const size_t from = at + beginning.size();
    const std::string variable = waits.substr(from, waits.find_first_of("[ ", from) - from);
    if (raced.find(" for " + variable) != std::string::npos || raced.find(" on " + variable) != std::string::npos ||
        raced.find(" at " + variable) != std::string::npos || race.subject == variable) {
      return true;
    }
  }
  return false;
}

bool follows(const Diagnostic& later, const Diagnostic& first) {
  // What PTX does not promise, and chips do, is no reason for anything else.
  if (!first.tolerated.empty()) return false;
  if (!later.likely_cause.empty() && later.likely_cause == first.likely_cause) return true;
  if (is_symptom(later) && first.kind == "deadlock") return true;
  if (!is_about_order(first)) return false;
  // A kernel that was stopped leaves operations behind.
  if (later.kind == "tensor memory leak" && later.message.find("still in flight") != std::string::npos) return true;
  const bool stops = later.identity.empty();
  if (later.kind == "deadlock" && first.kind == "race") return shares_barrier(later, first);
  if (stops) return true;
  if (!is_about_order(later)) return false;
  const std::string line = own_line(first), later_line = own_line(later);
  // Order that is missing between these threads is not that which is missing between others.
  const bool same_threads = first.between.empty() || later.between.empty() || first.between == later.between;
  return (later.subject == first.subject && same_threads) || (!line.empty() && names(later.likely_cause, line)) ||
         (!later_line.empty() && names(first.likely_cause, later_line));
}

}  // namespace

void fold_consequences(std::vector<Diagnostic>& reports) {
  std::vector<Diagnostic> kept;
  std::stable_sort(reports.begin(), reports.end(),
                   [](const Diagnostic& one, const Diagnostic& other) { return rank(one) < rank(other); });
  for (Diagnostic& report : reports) {
    const auto first = std::find_if(kept.begin(), kept.end(), [&](const Diagnostic& each) {
      return follows(report, each) || std::any_of(each.consequences.begin(), each.consequences.end(),
                                                  [&](const Diagnostic& other) { return follows(report, other); });
    });
    (first == kept.end() ? kept : first->consequences).push_back(std::move(report));
  }
  reports = std::move(kept);
}

}  // namespace stagecraft::emulator::machine
