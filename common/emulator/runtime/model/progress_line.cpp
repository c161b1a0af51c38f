#include "emulator/runtime/model/progress_line.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace stagecraft::emulator::runtime {
namespace {

constexpr std::chrono::milliseconds kBetweenLines{500};
/// Blocks that have ended, for each one that runs, before the rest of the time is estimated.
constexpr uint64_t kDoneForEachRunning = 4;
constexpr size_t kUsualWidth = 80;
/// Bytes of PTX that take about a second and a half to be read and translated (two cores of an AMD EPYC).
constexpr uint64_t kSlowBytes = 8'000'000;

/// What a VT100 understands, and every terminal since: one line down, which scrolls the screen at its end and keeps the
/// column; the cursor's place kept and restored; the line emptied; one line up.
constexpr std::string_view kDown = "\033D", kKeep = "\0337", kRestore = "\0338", kEmpty = "\033[2K", kUp = "\033[A";

size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col != 0 ? size.ws_col : kUsualWidth;
}

bool has_terminal() {
  const char* kind = std::getenv("TERM");
  if (isatty(STDERR_FILENO) != 1 || kind == nullptr || *kind == '\0' || std::string_view(kind) == "dumb") return false;
  // In the background of its terminal something else has the screen.
  const pid_t foreground = tcgetpgrp(STDERR_FILENO);
  return foreground == -1 || foreground == getpgrp();
}

std::string text_of(std::chrono::seconds time) {
  const auto seconds = time.count();
  if (seconds < 60) return fmt::format("{} s", seconds);
  if (seconds < 3600) return fmt::format("{} min {:02} s", seconds / 60, seconds % 60);
  return fmt::format("{} h {:02} min", seconds / 3600, seconds / 60 % 60);
}

void put(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

}  // namespace

std::string describe_progress(std::string_view kernel, uint64_t blocks, uint64_t blocks_done, uint64_t blocks_running,
                              std::chrono::seconds elapsed, const std::string& place, size_t width) {
  constexpr std::string_view kBefore = "stagecraft: kernel ", kShortened = "...";
  std::string after = fmt::format(": {} of {} blocks done, {}", blocks_done, blocks, text_of(elapsed));
  if (blocks_done == 0) {
    if (!place.empty()) after += ", " + place;
  } else if (blocks_done >= kDoneForEachRunning * blocks_running) {
    const double each = static_cast<double>(elapsed.count()) / static_cast<double>(blocks_done);
    const double left = each * static_cast<double>(blocks - blocks_done);
    after += fmt::format(", about {} left", text_of(std::chrono::seconds(static_cast<int64_t>(left) + 1)));
  }
  const size_t taken = kBefore.size() + after.size();
  std::string name(kernel);
  if (taken + name.size() > width) {
    name.resize(width > taken + kShortened.size() ? width - taken - kShortened.size() : 0);
    name += kShortened;
  }
  std::string line = fmt::format("{}{}{}", kBefore, name, after);
  if (line.size() > width) line.resize(width);
  return line;
}

bool ProgressLine::is_due() {
  const Clock::time_point now = Clock::now();
  Clock::time_point next = next_.load(std::memory_order_relaxed);
  return now >= next && next_.compare_exchange_strong(next, now + kBetweenLines);
}

void ProgressLine::show(uint64_t blocks_done, uint64_t blocks_running, const std::string& place) {
  if (!has_terminal()) return;
  const auto elapsed = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begin_);
  // A line as wide as the terminal would move some terminals to the next.
  const std::string text =
      describe_progress(kernel_, blocks_, blocks_done, blocks_running, elapsed, place, terminal_width() - 1);
  const std::scoped_lock lock(mutex_);
  put(fmt::format("{}{}\r{}{}{}{}", kDown, kKeep, kEmpty, text, kRestore, kUp));
  is_shown_ = true;
}

void ProgressLine::erase() {
  const std::scoped_lock lock(mutex_);
  if (!is_shown_) return;
  put(fmt::format("{}{}{}", kDown, kEmpty, kUp));
  is_shown_ = false;
}

void tell_reading(uint64_t bytes) {
  static std::atomic<bool> has_said = false;
  if (bytes < kSlowBytes || !has_terminal() || has_said.exchange(true)) return;
  put(fmt::format("stagecraft: reading {} MB of PTX, which takes a while\n", bytes / 1'000'000));
}

}  // namespace stagecraft::emulator::runtime
