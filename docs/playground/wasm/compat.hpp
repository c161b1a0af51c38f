// What the C++ library of Emscripten 3.1.6 (libc++ 14, Debian's package) lacks of C++20. It is included before every
// source that is compiled to WebAssembly; with a newer Emscripten the parts that are not missing disappear.
#pragma once

#include <bit>
#include <charconv>
#include <cstdlib>
#include <string>
#include <system_error>

#if defined(_LIBCPP_VERSION) && _LIBCPP_VERSION < 15000
namespace std {

#if !defined(__cpp_lib_bit_cast)
template <typename To, typename From>
constexpr To bit_cast(const From& from) noexcept {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}
#endif

// libc++ reads integers only. The locale of a page is always "C", in which strtod reads what from_chars would.
inline from_chars_result from_chars(const char* first, const char* last, double& value) {
  const string text(first, last);
  char* end = nullptr;
  const double read = strtod(text.c_str(), &end);
  if (end == text.c_str()) return {first, errc::invalid_argument};
  value = read;
  return {first + (end - text.c_str()), errc()};
}

}  // namespace std
#endif
