// What the terminal shows while something takes long: how far a launch has come, and that PTX is read.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "emulator/machine/machine.hpp"

namespace stagecraft::emulator::runtime {

/// What the line says: `stagecraft: kernel sum_rows: 120 of 512 blocks done, 14 s, about 45 s left`. As long as no
/// block has ended, it ends with the place. The time that is left is only estimated when at least four times as many
/// blocks have ended as run, because nobody knows how much of those is done. A kernel's name that is too long for
/// `width` characters is shortened.
std::string describe_progress(std::string_view kernel, uint64_t blocks, uint64_t blocks_done, uint64_t blocks_running,
                              std::chrono::seconds elapsed, const std::string& place, size_t width);

/// Shows the progress of one launch, from three seconds after its construction on, if stderr is a terminal that moves
/// its cursor when told to (TERM is not "dumb"), and the process not in its background.
///
/// The line is the one below the cursor, and the cursor stays where it is, so that a line which the program has begun
/// and not ended is left alone.
class ProgressLine : public machine::ProgressWatcher {
 public:
  /// @param kernel  must live as long as this.
  ProgressLine(std::string_view kernel, uint64_t blocks) : kernel_(kernel), blocks_(blocks) {}
  ~ProgressLine() override { erase(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  bool is_due() override;
  void show(uint64_t blocks_done, uint64_t blocks_running, const std::string& place) override;
  /// Removes the line, if it is there: before anything else is printed, and when the launch has ended.
  void erase();

 private:
  using Clock = std::chrono::steady_clock;

  const std::string_view kernel_;
  const uint64_t blocks_;
  const Clock::time_point begin_ = Clock::now();
  std::atomic<Clock::time_point> next_ = begin_ + std::chrono::seconds(3);
  std::mutex mutex_;  ///< of what follows, and of the terminal
  bool is_shown_ = false;
};

/// Says once in a process, on a terminal as above, that PTX of so many bytes is read, where that takes longer than
/// about a second. The line stays, because nobody could remove it where Ctrl-C ends the program.
void tell_reading(uint64_t bytes);

}  // namespace stagecraft::emulator::runtime
