#include "emulator/ptx/demangling.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>

namespace stagecraft::emulator::ptx {

std::string demangle(const std::string& name) {
  // What is not mangled may look like the code of a type: "a" is that of signed char.
  if (!name.starts_with("_Z")) return name;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 && text != nullptr ? std::string(text.get()) : name;
}

namespace {

/// The position after the last `separator` outside all brackets, 0 when there is none.
size_t after_last(const std::string& text, char separator) {
  int depth = 0;
  for (size_t i = text.size(); i-- > 0;) {
    const char c = text[i];
    if (c == '>' || c == ')' || c == ']' || c == '}') ++depth;
    if (c == '<' || c == '(' || c == '[' || c == '{') --depth;
    if (depth == 0 && c == separator) return i + 1;
  }
  return 0;
}

constexpr size_t kLongName = 120;  // about a line of a report

/// The name with "..." in place of template arguments inside more than `deepest` brackets.
std::string without_inner_arguments(const std::string& name, int deepest) {
  std::string text;
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool arrow = name[i] == '>' && i > 0 && name[i - 1] == '-';
    if (name[i] == '>' && !arrow) --depth;
    if (depth <= deepest) text += name[i];
    if (name[i] == '<' && ++depth == deepest + 1) text += "...";
  }
  return text;
}

/// The beginning of a name that nothing else makes short.
std::string cut(std::string name) {
  if (name.size() > kLongName) name.replace(kLongName - 3, std::string::npos, "...");
  return name;
}

/// The last part of the name of a mangled function, read from the mangled form; the name as it is when it has no parts.
/// The C++ library cannot demangle some kernels of CuTe, although nvcc has mangled them correctly.
std::string name_within(const std::string& mangled) {
  size_t at = mangled.starts_with("_ZN") ? 3 : 2;
  std::string_view last;
  while (at < mangled.size() && mangled[at] >= '1' && mangled[at] <= '9') {
    size_t length = 0;
    for (; at < mangled.size() && mangled[at] >= '0' && mangled[at] <= '9' && length < mangled.size(); ++at) {
      length = length * 10 + static_cast<size_t>(mangled[at] - '0');
    }
    if (length > mangled.size() - at) return mangled;
    last = std::string_view(mangled).substr(at, length);
    at += length;
  }
  if (last.empty()) return mangled;
  return std::string(last) + (at < mangled.size() && mangled[at] == 'I' ? "<...>" : "");
}

}  // namespace

std::string short_function_name(const std::string& mangled) {
  std::string name = demangle(mangled);
  if (name.starts_with("_Z")) return cut(name_within(name));
  if (name.ends_with(" const")) name.resize(name.size() - std::string_view(" const").size());
  // Parameters: the bracket that closes last, opened at depth 0.
  if (!name.empty() && name.back() == ')') {
    int depth = 0;
    for (size_t i = name.size(); i-- > 0;) {
      if (name[i] == ')') ++depth;
      if (name[i] == '(' && --depth == 0) {
        name.resize(i);
        break;
      }
    }
  }
  name.erase(0, after_last(name, ' '));
  name.erase(0, after_last(name, ':'));
  for (int deepest = 1; deepest >= 0 && name.size() > kLongName; --deepest) {
    name = without_inner_arguments(name, deepest);
  }
  return cut(std::move(name));
}

std::string name_in_ptx(const std::string& mangled) {
  return short_function_name(mangled) == mangled ? "" : " (in the PTX: " + mangled + ")";
}

std::string source_name(const std::string& mangled) {
  std::string name = demangle(mangled);
  name.erase(0, after_last(name, ':'));
  // ptxas and nvcc mark clones of function-local variables with a number after a dollar sign.
  if (const size_t dollar = name.rfind('$'); dollar != std::string::npos && dollar > 0) name.resize(dollar);
  return name;
}

std::vector<FilePart> file_parts(std::string_view name) {
  constexpr std::string_view kMarkers[] = {"_GLOBAL__N__", "_INTERNAL_"};
  constexpr size_t kHashDigits = 8;
  std::vector<FilePart> parts;
  for (size_t at = 0; at < name.size();) {
    size_t length = 0;
    const auto [digits_end, error] = std::from_chars(name.data() + at, name.data() + name.size(), length);
    const size_t begin = static_cast<size_t>(digits_end - name.data());
    const std::string_view rest = name.substr(begin);
    const auto marker = std::find_if(std::begin(kMarkers), std::end(kMarkers),
                                     [&](std::string_view each) { return rest.starts_with(each); });
    if (error == std::errc{} && marker != std::end(kMarkers) && length <= rest.size() &&
        length >= marker->size() + kHashDigits) {
      parts.push_back({at, begin - at + length, *marker});
      at = begin + length;
    } else {
      ++at;
    }
  }
  return parts;
}

std::string without_file(std::string_view name) {
  std::string result;
  size_t copied = 0;
  for (const FilePart& part : file_parts(name)) {
    result.append(name.substr(copied, part.begin - copied)).append(part.marker);
    copied = part.begin + part.size;
  }
  return result.append(name.substr(copied));
}

}  // namespace stagecraft::emulator::ptx
