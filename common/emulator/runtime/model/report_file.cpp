#include "emulator/runtime/model/report_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <system_error>

namespace stagecraft::emulator::runtime {
namespace {

sigset_t file_size_signal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGXFSZ);
  return set;
}

std::string reason() { return std::generic_category().message(errno); }

std::string write_to_file(const std::string& path, std::string_view text, int how) {
  const FileSizeSignalHeldBack held_back;
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, 0666);
  if (file < 0) return reason();
  std::string problem;
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      problem = reason();
      break;
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
  if (close(file) != 0 && problem.empty()) problem = reason();
  return problem;
}

}  // namespace

FileSizeSignalHeldBack::FileSizeSignalHeldBack() {
  const sigset_t set = file_size_signal();
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &set, &before);
  was_held_back_ = sigismember(&before, SIGXFSZ) == 1;
}

FileSizeSignalHeldBack::~FileSizeSignalHeldBack() {
  if (was_held_back_) return;
  const int error = errno;
  const sigset_t set = file_size_signal();
  const timespec at_once{};
  while (sigtimedwait(&set, nullptr, &at_once) > 0) {
  }
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  errno = error;
}

std::string append_to_file(const std::string& path, std::string_view text) {
  return write_to_file(path, text, O_APPEND);
}

std::string write_file(const std::string& path, std::string_view text) { return write_to_file(path, text, O_TRUNC); }

}  // namespace stagecraft::emulator::runtime
