// Boxes of bytes in memory, which copies read and write and fills write.
#pragma once

#include <cstdint>

namespace stagecraft::emulator::runtime {

/// The size of a box: `depth` slices of `rows` rows of `width` bytes.
struct Box {
  uint64_t width = 0, rows = 1, depth = 1;
};
/// How a box is laid out: rows are `pitch` bytes apart, slices `slice` bytes.
struct Layout {
  uint64_t pitch = 0;
  uint64_t slice = 0;
};

}  // namespace stagecraft::emulator::runtime
