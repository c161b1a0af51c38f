// The logs that a program asks for with options of the translation (CU_JIT_ERROR_LOG_BUFFER and similar ones).
#pragma once

#include <cstddef>
#include <exception>
#include <string_view>

#include "emulator/runtime/model/cuda_headers.hpp"

namespace stagecraft::emulator::runtime {

/// All other options tune the translation, and there is nothing to tune. What `values` points to belongs to the
/// program, and must live as long as this does.
class JitLog {
 public:
  JitLog() = default;
  /// Empties both logs and returns 0 as the time taken.
  JitLog(unsigned count, const CUjit_option* options, void** values);
  /// Writes as much to the log of errors as it has room for, and returns its size.
  void tell_error(std::string_view message);

 private:
  char* errors_ = nullptr;
  size_t room_ = 0;                ///< bytes, with the end of the text
  void** written_size_ = nullptr;  ///< where the number of bytes written goes
};

/// Runs `body`; the log gets the message of what it throws, too.
template <typename Body>
void with_log(JitLog& log, Body&& body) {
  try {
    body();
  } catch (const std::exception& error) {
    log.tell_error(error.what());
    throw;
  }
}

}  // namespace stagecraft::emulator::runtime
