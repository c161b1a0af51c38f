// Ctrl-C, a request to terminate, and the end of the program, while a kernel runs.
#pragma once

#include <atomic>

namespace stagecraft::emulator::runtime {

/// While one exists, SIGINT and SIGTERM do not end the process at once, but ask the kernel to stop; a second signal
/// ends it. A program's own handler of a signal, and a signal that it ignores, stay as they are. One exists at a time:
/// the calls of the API are executed one after another.
class InterruptibleKernel {
 public:
  InterruptibleKernel();
  ~InterruptibleKernel();
  InterruptibleKernel(const InterruptibleKernel&) = delete;
  InterruptibleKernel& operator=(const InterruptibleKernel&) = delete;

  /// Becomes true when a signal comes.
  static const std::atomic<bool>& interrupted();
  /// Does what the signal would have done without this, which normally ends the process.
  static void end_process();

  /// Whether the program has ended in another thread (exit, or the return of main), which waits for this kernel to
  /// stop. The next call of interrupted() is false again.
  static bool program_ended();
};

}  // namespace stagecraft::emulator::runtime
