// Errors about a PTX text that help its reader to correct it: what is wrong, where, and what is legal.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/ptx/module.hpp"

namespace stagecraft::emulator::ptx {

/// Base of all errors of reading or decoding PTX. `what()` is the complete sentence, with the place.
class Error : public std::runtime_error {
 public:
  /// @param legal what would be legal there instead; may be empty.
  Error(std::string message, TextPosition position, std::string legal = {});

  /// Returns what is wrong, without the place and without the legal alternatives.
  const std::string& message() const { return message_; }
  const std::string& legal() const { return legal_; }
  TextPosition position() const { return position_; }
  const char* what() const noexcept override { return text_.c_str(); }

  /// Names the line of the source that the place in the PTX comes from: "gemm.cu:88". Does nothing when that is empty.
  void add_source(const std::string& line);

 private:
  std::string text_;
  std::string message_;
  std::string legal_;
  TextPosition position_;
};

/// The text is not PTX, or names something that does not exist.
class SyntaxError : public Error {
 public:
  using Error::Error;
};

/// The text may well be PTX, but this emulator does not execute it.
class UnsupportedInstruction : public Error {
 public:
  using Error::Error;
};

/// Returns the candidate that is closest to a misspelt name; empty when none is close enough.
std::string_view closest_name(std::string_view name, const std::vector<std::string_view>& candidates);

}  // namespace stagecraft::emulator::ptx
