// Exceptions for headers that kernel files include.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <exception>

namespace stagecraft {

/// An exception that holds its text itself. The strings of the standard exceptions would cost each kernel file most of
/// a second to compile.
class FormattedError : public std::exception {
 public:
  const char* what() const noexcept override { return text_; }

 protected:
  FormattedError() = default;

  /// Adds to the text. Takes what vprintf takes; what is beyond 511 characters is cut.
  void append(const char* format, va_list values) {
    const int added = std::vsnprintf(text_ + length_, sizeof text_ - length_, format, values);
    if (added > 0) length_ += static_cast<size_t>(added);
    if (length_ >= sizeof text_) length_ = sizeof text_ - 1;
  }
  [[gnu::format(printf, 2, 3)]] void append(const char* format, ...) {
    va_list values;
    va_start(values, format);
    append(format, values);
    va_end(values);
  }

 private:
  size_t length_ = 0;
  char text_[512] = "";
};

/// A problem that a kernel cannot take. The text says what is legal.
class IllegalProblem : public FormattedError {
 public:
  /// Takes what printf takes.
  [[gnu::format(printf, 2, 3)]] explicit IllegalProblem(const char* format, ...) {
    va_list values;
    va_start(values, format);
    append(format, values);
    va_end(values);
  }
};

}  // namespace stagecraft
