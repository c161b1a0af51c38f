// Work that was refused: does the program know?
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "emulator/runtime/model/cuda_headers.hpp"

namespace stagecraft::emulator::runtime {

/// Launches that were refused, until the program looks at an error: what they should have computed is missing. Whether
/// a program uses what a function returns, nobody sees; so it looks where it asks for the last error, or for the name
/// or text of the refusal. docs/reports/refused-call.md says so. Any thread may call these, without the lock of State.
class RefusedWork {
 public:
  void add(CUresult error) {
    // The program gets the errors of a capture from cudaStreamEndCapture, too; or it has ended.
    if (error == CUDA_ERROR_DEINITIALIZED) return;
    if (error >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && error <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD) return;
    const std::lock_guard lock(mutex_);
    unknown_.push_back({error, std::this_thread::get_id(), getpid()});
  }

  /// This thread has got an error from cudaGetLastError or cudaPeekAtLastError.
  void read_last_error() {
    const std::lock_guard lock(mutex_);
    std::erase_if(unknown_, [](const Refusal& refusal) { return refusal.thread == std::this_thread::get_id(); });
  }

  /// The program has asked what this error is called. Those of the runtime have the numbers of driver_error().
  void asked_about(CUresult error) {
    const std::lock_guard lock(mutex_);
    std::erase_if(unknown_, [error](const Refusal& refusal) { return refusal.error == error; });
  }

  /// A sentence about those that the program does not know of; empty if there are none.
  std::string text() {
    const std::lock_guard lock(mutex_);
    std::erase_if(unknown_, [](const Refusal& refusal) { return refusal.process != getpid(); });
    if (unknown_.empty()) return {};
    return fmt::format(
        "the program did not look at the error of {} refused: what should have been computed is missing; ask "
        "cudaGetLastError() after each launch",
        unknown_.size() == 1 ? "a launch that was" : fmt::format("{} launches that were", unknown_.size()));
  }

 private:
  struct Refusal {
    CUresult error;
    std::thread::id thread;
    pid_t process;  ///< a fork copies them
  };

  std::mutex mutex_;
  std::vector<Refusal> unknown_;
};

}  // namespace stagecraft::emulator::runtime
