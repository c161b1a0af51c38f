// Errors of the GEMM's host side, as values.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace stagecraft {

/// What sort of thing went wrong.
enum class GemmFailure {
  bad_problem,        ///< a size, stride, type or address that no GEMM here takes
  no_kernel,          ///< the problem is legal, but no kernel was compiled for what is asked of it
  bad_configuration,  ///< no kernel can be compiled for such options
  no_compiler,        ///< no kernel can be compiled here: there is no nvcc, or nowhere to keep what it makes
  bad_workspace,      ///< the workspace is missing or too small
  bad_device,         ///< the device cannot run the kernels, or there is none
  launch_failed,      ///< CUDA refused the launch
};

/// What went wrong, and what is legal. Nothing was launched.
struct GemmError {
  GemmFailure failure;  ///< for programs
  std::string message;  ///< "K = 0 is too small. Legal are 1 to 8388480."
};

/// A value, or the error that there is in its place. The names are those of std::expected of C++23.
template <typename Value>
class [[nodiscard]] GemmExpected {
 public:
  /// A value.
  GemmExpected(Value value) : held_(std::move(value)) {}
  /// An error in its place.
  GemmExpected(GemmError error) : held_(std::move(error)) {}

  /// Whether there is a value.
  bool has_value() const { return std::holds_alternative<Value>(held_); }
  /// The same as has_value().
  explicit operator bool() const { return has_value(); }
  /// The value; only where there is one.
  const Value& operator*() const { return std::get<Value>(held_); }
  /// A member of the value; only where there is one.
  const Value* operator->() const { return &std::get<Value>(held_); }
  /// The error; only where there is no value.
  const GemmError& error() const { return std::get<GemmError>(held_); }

 private:
  std::variant<Value, GemmError> held_;
};

}  // namespace stagecraft
