// Helpers that wrap a few lines of PTX into a module and catch the errors that the parser throws.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>

#include "emulator/ptx/parser.hpp"

namespace stagecraft::emulator::ptx::testing {

/// The header is on one line, so that the text under test begins in line 2.
inline constexpr std::string_view kHeader = ".version 9.0 .target sm_100a .address_size 64\n";

inline Module parse_module(std::string_view text) { return parse(std::string(kHeader) + std::string(text)); }

/// Parses the body of one kernel, which begins in line 3.
inline std::string kernel(std::string_view body) {
  return std::string(kHeader) + ".visible .entry kernel(.param .u64 pointer, .param .align 8 .b8 block[24]) {\n" +
         std::string(body) + "\n}\n";
}

inline Function parse_kernel(std::string_view body) { return parse(kernel(body)).functions.back(); }

/// Returns the error that parsing throws; fails the test when it throws none.
inline std::optional<Error> failure(const std::string& text) {
  try {
    parse(text);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "parsed without an error:\n" << text;
  return std::nullopt;
}

inline std::string module_failure(std::string_view text) {
  const std::optional<Error> error = failure(std::string(kHeader) + std::string(text));
  return error ? error->what() : "";
}

inline std::string kernel_failure(std::string_view body) {
  const std::optional<Error> error = failure(kernel(body));
  return error ? error->what() : "";
}

}  // namespace stagecraft::emulator::ptx::testing
