// What the programs that draw a lesson's pictures share: the picture is printed, or compared with the file in the
// lesson, so that a test notices when the two differ.
#pragma once

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

namespace stagecraft::harness {

/// Prints a picture if `file` is null; else compares it with the file, and says how to draw it again if they differ.
/// @param source  what the picture shows: "the layout functions say".
/// @param redraw  the command that prints the picture.
/// @returns the exit status of the program: 1 if they differ.
inline int print_or_compare(const std::string& picture, const char* file, const std::string& source,
                            const std::string& redraw) {
  if (file == nullptr) {
    std::fputs(picture.c_str(), stdout);
    return 0;
  }
  std::ifstream stream(file, std::ios::binary);
  if (std::string(std::istreambuf_iterator<char>(stream), {}) == picture) return 0;
  std::printf("%s is not what %s; %s > %s redraws it\n", file, source.c_str(), redraw.c_str(), file);
  return 1;
}

}  // namespace stagecraft::harness
