// A timeline as a page that a browser shows without a network: the viewer, and the run as data inside of it.
#pragma once

#include <string>

#include "emulator/trace/timeline_run.hpp"

namespace stagecraft::emulator::trace {

/// The run as the viewer reads it (viewer/model.js says what each field is).
std::string run_data(const Run& run);

/// An HTML file that needs no other.
std::string timeline_page(const Run& run);

}  // namespace stagecraft::emulator::trace
