// Writing to a file whose limits and device may refuse it.
#pragma once

#include <csignal>
#include <string>
#include <string_view>

namespace stagecraft::emulator::runtime {

/// As long as this lives, a file that grows beyond the process's limit (ulimit -f) is an error of the call that writes
/// it in this thread, and not a signal that ends the process.
class FileSizeSignalHeldBack {
 public:
  FileSizeSignalHeldBack();
  ~FileSizeSignalHeldBack();
  FileSizeSignalHeldBack(const FileSizeSignalHeldBack&) = delete;
  FileSizeSignalHeldBack& operator=(const FileSizeSignalHeldBack&) = delete;

 private:
  bool was_held_back_ = false;
};

/// Appends `text` to a file, which is made if it does not exist. Returns why not, such as "No space left on device";
/// empty when all of it was written.
std::string append_to_file(const std::string& path, std::string_view text);
/// The same in place of what the file had.
std::string write_file(const std::string& path, std::string_view text);

}  // namespace stagecraft::emulator::runtime
