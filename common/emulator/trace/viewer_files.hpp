// The files of the viewer, which are part of the library so that a timeline can be written anywhere.
#pragma once

#include <string_view>

namespace stagecraft::emulator::trace {

/// The text of a file of viewer/, such as "style.css". The build makes it (common/tools/embed_files.py); a name that
/// it was not given is empty.
std::string_view viewer_file(std::string_view name);

}  // namespace stagecraft::emulator::trace
