#include "emulator/instructions/device_printf.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace stagecraft::emulator::machine {
namespace {

constexpr int kLongestField = 4096;

/// Takes the promoted arguments in order.
class Arguments {
 public:
  explicit Arguments(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  std::optional<T> next() {
    const size_t begin = (position_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    if (begin > bytes_.size() || bytes_.size() - begin < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, bytes_.data() + begin, sizeof value);
    position_ = begin + sizeof(T);
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  size_t position_ = 0;
};

enum class Length { none, hh, h, wide };

/// One conversion of the format, from `%` to its letter.
struct Conversion {
  std::string flags;
  int width = -1;  ///< -1: not given
  int precision = -1;
  bool width_from_argument = false;
  bool precision_from_argument = false;
  Length length = Length::none;
  char letter = 0;  ///< 0: the format ended too early
  size_t size = 0;  ///< characters in the format
};

Conversion read_conversion(std::string_view text) {
  Conversion result;
  size_t at = 1;
  const auto peek = [&] { return at < text.size() ? text[at] : '\0'; };
  const auto number = [&] {
    int value = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at) value = std::min(value * 10 + (peek() - '0'), kLongestField);
    return value;
  };
  for (; peek() != '\0' && std::string_view("#0- +").find(peek()) != std::string_view::npos; ++at) {
    if (result.flags.find(peek()) == std::string::npos) result.flags += peek();
  }
  if (peek() == '*') {
    result.width_from_argument = true;
    ++at;
  } else if (peek() >= '1' && peek() <= '9') {
    result.width = number();
  }
  if (peek() == '.') {
    ++at;
    if (peek() == '*') {
      result.precision_from_argument = true;
      ++at;
    } else {
      result.precision = number();
    }
  }
  if (text.substr(at).starts_with("hh")) {
    result.length = Length::hh;
    at += 2;
  } else if (peek() == 'h') {
    result.length = Length::h;
    ++at;
  } else {
    // The programming guide has no `z`. An H200 prints the number and then misreads what follows it; here it does not.
    for (; peek() == 'l' || peek() == 'z'; ++at) result.length = Length::wide;
  }
  result.letter = peek();
  result.size = std::min(at + 1, text.size());
  return result;
}

/// The conversion as the host's printf takes it, with `modifier` in front of the letter.
std::string host_format(const Conversion& conversion, const char* modifier) {
  std::string format = "%" + conversion.flags;
  if (conversion.width >= 0) format += std::to_string(conversion.width);
  if (conversion.precision >= 0) format += "." + std::to_string(conversion.precision);
  return format + modifier + conversion.letter;
}

template <typename T>
std::string print_on_host(const std::string& format, T value) {
  const int size = std::snprintf(nullptr, 0, format.c_str(), value);
  if (size < 0) return {};
  std::string text(static_cast<size_t>(size) + 1, '\0');
  std::snprintf(text.data(), text.size(), format.c_str(), value);
  text.pop_back();
  return text;
}

std::optional<std::string> print_integer(const Conversion& conversion, Arguments& arguments) {
  const bool is_signed = conversion.letter == 'd' || conversion.letter == 'i';
  uint64_t bits = 0;
  if (conversion.length == Length::wide) {
    const auto value = arguments.next<uint64_t>();
    if (!value) return std::nullopt;
    bits = *value;
  } else {
    const auto value = arguments.next<uint32_t>();
    if (!value) return std::nullopt;
    switch (conversion.length) {
      case Length::hh:
        bits = is_signed ? static_cast<uint64_t>(int64_t{static_cast<int8_t>(*value)}) : *value & 0xff;
        break;
      case Length::h:
        bits = is_signed ? static_cast<uint64_t>(int64_t{static_cast<int16_t>(*value)}) : *value & 0xffff;
        break;
      default: bits = is_signed ? static_cast<uint64_t>(int64_t{static_cast<int32_t>(*value)}) : *value; break;
    }
  }
  return print_on_host(host_format(conversion, "ll"), static_cast<unsigned long long>(bits));
}

std::optional<std::string> print_string(const Conversion& conversion, Arguments& arguments,
                                        const ReadDeviceString& read_string) {
  const auto address = arguments.next<uint64_t>();
  if (!address) return std::nullopt;
  std::optional<std::string> text = *address == 0 ? "(null)" : read_string(*address);
  if (!text) text = fmt::format("(no string at 0x{:x})", *address);
  return print_on_host(host_format(conversion, ""), text->c_str());
}

std::optional<std::string> print_conversion(Conversion conversion, Arguments& arguments,
                                            const ReadDeviceString& read_string) {
  if (conversion.width_from_argument) {
    const auto width = arguments.next<int32_t>();
    if (!width) return std::nullopt;
    if (*width < 0) conversion.flags += '-';
    conversion.width = static_cast<int>(std::min<int64_t>(std::abs(int64_t{*width}), kLongestField));
  }
  if (conversion.precision_from_argument) {
    const auto precision = arguments.next<int32_t>();
    if (!precision) return std::nullopt;
    conversion.precision = *precision < 0 ? -1 : std::min(*precision, kLongestField);
  }
  switch (conversion.letter) {
    case 'd':
    case 'i':
    case 'u':
    case 'o':
    case 'x':
    case 'X': return print_integer(conversion, arguments);
    case 'c': {
      const auto value = arguments.next<int32_t>();
      if (!value) return std::nullopt;
      return print_on_host(host_format(conversion, ""), static_cast<int>(static_cast<unsigned char>(*value)));
    }
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
    case 'a':
    case 'A': {
      const auto value = arguments.next<double>();
      if (!value) return std::nullopt;
      return print_on_host(host_format(conversion, ""), *value);
    }
    case 'p': {
      const auto value = arguments.next<uint64_t>();
      if (!value) return std::nullopt;
      return print_on_host(host_format(conversion, ""), reinterpret_cast<void*>(*value));
    }
    case 's': return print_string(conversion, arguments, read_string);
    default: return std::nullopt;
  }
}

}  // namespace

std::string format_device_printf(std::string_view format, std::span<const std::byte> argument_bytes,
                                 const ReadDeviceString& read_string) {
  Arguments arguments(argument_bytes);
  std::string out;
  while (!format.empty()) {
    const size_t percent = format.find('%');
    out += format.substr(0, percent);
    if (percent == std::string_view::npos) break;
    format.remove_prefix(percent);
    if (format.starts_with("%%")) {
      out += '%';
      format.remove_prefix(2);
      continue;
    }
    const Conversion conversion = read_conversion(format);
    if (const auto text = print_conversion(conversion, arguments, read_string)) {
      out += *text;
    } else {
      out += format.substr(0, conversion.size);
    }
    format.remove_prefix(conversion.size);
  }
  return out;
}

}  // namespace stagecraft::emulator::machine
