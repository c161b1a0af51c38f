#include "emulator/exploration/launch_copy.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__linux__) && !defined(__EMSCRIPTEN__)
#include <sys/prctl.h>
#endif

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

namespace stagecraft::emulator::exploration {
namespace {

using nlohmann::json;

/// Follows both parts of a report that is complete, the JSON and the steps: neither has such a byte, and how a copy
/// ended is not always known (SIGCHLD ignored).
constexpr char kEndMark = '\0';

json to_json(const machine::Diagnostic& report) {
  const machine::Place& place = report.place;
  return {report.kind,
          report.message,
          report.details,
          report.likely_cause,
          report.tolerated,
          report.identity,
          {place.kernel, place.source_file, place.has_block, place.block_x, place.block_y, place.block_z,
           place.has_warp, place.warp, place.lanes, place.source, place.instruction, place.calls},
          report.subject,
          report.between};
}

machine::Diagnostic diagnostic_of(const json& from) {
  machine::Diagnostic report;
  report.kind = from.at(0);
  report.message = from.at(1);
  report.details = from.at(2).get<std::vector<std::string>>();
  report.likely_cause = from.at(3);
  report.tolerated = from.at(4);
  report.identity = from.at(5);
  const json& place = from.at(6);
  report.place = {place.at(0), place.at(1), place.at(2), place.at(3), place.at(4),  place.at(5),
                  place.at(6), place.at(7), place.at(8), place.at(9), place.at(10), place.at(11)};
  report.subject = from.at(7);
  report.between = from.at(8).get<std::vector<uint32_t>>();
  return report;
}

std::string text_of(const CopyOutcome& outcome) {
  json diagnostics = json::array();
  for (const machine::Diagnostic& each : outcome.diagnostics) diagnostics.push_back(to_json(each));
  const json all{outcome.stopped,
                 outcome.interrupted,
                 outcome.cut_off,
                 std::move(diagnostics),
                 machine::text_of(outcome.switches),
                 outcome.sentences,
                 outcome.points,
                 outcome.cycles,
                 outcome.is_redundant,
                 outcome.has_diverged,
                 outcome.parts_lanes,
                 outcome.tries_once};
  return all.dump(-1, ' ', false, json::error_handler_t::replace) + kEndMark + outcome.steps;
}

CopyOutcome outcome_of(const std::string& text) {
  const size_t end = text.find(kEndMark);
  const json all = json::parse(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end));
  CopyOutcome outcome;
  outcome.steps = text.substr(end + 1);
  outcome.stopped = all.at(0);
  outcome.interrupted = all.at(1);
  outcome.cut_off = all.at(2);
  for (const json& each : all.at(3)) outcome.diagnostics.push_back(diagnostic_of(each));
  outcome.switches = machine::parse_schedule(all.at(4).get<std::string>()).value();
  outcome.sentences = all.at(5).get<std::vector<std::string>>();
  outcome.points = all.at(6);
  outcome.cycles = all.at(7);
  outcome.is_redundant = all.at(8);
  outcome.has_diverged = all.at(9);
  outcome.parts_lanes = all.at(10);
  outcome.tries_once = all.at(11);
  return outcome;
}

void write_all(int file, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = write(file, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    done += static_cast<size_t>(written);
  }
}

std::string read_all(int file) {
  std::string text;
  std::array<char, 1 << 16> buffer;
  for (;;) {
    const ssize_t count = read(file, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(buffer.data(), static_cast<size_t>(count));
  }
}

/// Ends this copy when the process that it is a copy of has ended: nobody would read its report.
void end_with([[maybe_unused]] pid_t parent) {
#if defined(__linux__) && !defined(__EMSCRIPTEN__)
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it ended before
#endif
}

}  // namespace

LaunchCopy::LaunchCopy(const std::function<CopyOutcome()>& run) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  const pid_t parent = getpid();
  process_ = fork();
  if (process_ < 0) {
    const int error = errno;
    close(ends[0]);
    close(ends[1]);
    throw std::system_error(error, std::generic_category(), "fork");
  }
  if (process_ == 0) {
    // Nothing that the program registered for its end may happen here, nor may its buffered text be written twice.
    end_with(parent);
    close(ends[0]);
    try {
      write_all(ends[1], text_of(run()) + kEndMark);
    } catch (...) {
      _exit(1);
    }
    _exit(0);
  }
  close(ends[1]);
  pipe_ = ends[0];
}

LaunchCopy::LaunchCopy(LaunchCopy&& other) noexcept
    : process_(std::exchange(other.process_, -1)), pipe_(std::exchange(other.pipe_, -1)) {}

LaunchCopy::~LaunchCopy() {
  if (process_ <= 0) return;
  kill(process_, SIGKILL);  // nobody wants its report
  wait();
}

std::string LaunchCopy::wait() {
  std::string text = read_all(pipe_);
  close(pipe_);
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
  if (text.empty() || text.back() != kEndMark || text.find(kEndMark) == text.size() - 1) return {};
  text.pop_back();
  return text;
}

CopyOutcome LaunchCopy::outcome(const std::atomic<bool>* interrupted) {
  constexpr int kMilliseconds = 100;
  const auto is_interrupted = [&] { return interrupted != nullptr && *interrupted; };
  pollfd report{.fd = pipe_, .events = POLLIN, .revents = 0};
  while (!is_interrupted() && poll(&report, 1, kMilliseconds) <= 0) {
  }
  if (is_interrupted()) {
    kill(process_, SIGKILL);
    wait();
    return {.stopped = true, .interrupted = true};
  }
  const std::string text = wait();
  if (text.empty()) throw std::system_error(ECHILD, std::generic_category(), "a copy of the process crashed");
  return outcome_of(text);
}

}  // namespace stagecraft::emulator::exploration
