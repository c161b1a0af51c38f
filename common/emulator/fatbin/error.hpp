// Errors of fat binaries.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace stagecraft::emulator::fatbin {

enum class ErrorKind {
  corrupt,            ///< the bytes contradict themselves
  no_suitable_image,  ///< well formed, but holds no PTX that the chip can run
};

/// `what()` is the complete sentence: what is wrong, where, and what to do.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, std::string message) : std::runtime_error(std::move(message)), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace stagecraft::emulator::fatbin
