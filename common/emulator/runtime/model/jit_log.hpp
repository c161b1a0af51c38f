// The logs that a program asks for with options of the translation (CU_JIT_ERROR_LOG_BUFFER and its like).
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
  /// Empties both logs and answers that no time was taken.
  JitLog(unsigned count, const CUjit_option* options, void** values);
  /// Writes to the log of errors as much as it has room for, and tells its size.
  void tell_error(std::string_view message);

 private:
  char* errors_ = nullptr;
  size_t room_ = 0;             ///< bytes, with the end of the text
  void** told_size_ = nullptr;  ///< where the bytes written go
};

/// Runs `body`; what it throws is also told to the log.
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
