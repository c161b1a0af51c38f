// Shows a timeline to people.
#pragma once

#include <cstddef>
#include <string>

#include "emulator/trace/timeline.hpp"

namespace stagecraft::emulator::trace {

/// A row of `width` characters for each warp, for the copies and for the tensor core, and a table of the waits.
std::string draw_text(const Timeline& timeline, size_t width = 96);

/// The same as an SVG image, in which each piece says what it is when the pointer rests on it.
std::string draw_svg(const Timeline& timeline);

}  // namespace stagecraft::emulator::trace
