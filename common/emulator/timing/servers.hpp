// A unit that serves one request after the other.
#pragma once

#include <algorithm>

namespace stagecraft::emulator::timing {

class Server {
 public:
  /// Serves a request of so many cycles, not before `at`. Returns when it is done.
  double serve(double at, double cycles) {
    free_at_ = std::max(free_at_, at) + cycles;
    busy_ += cycles;
    return free_at_;
  }
  /// Takes cycles from requests that come later, without waiting for those before.
  void take(double at, double cycles) {
    free_at_ = std::max(free_at_, at) + cycles;
    busy_ += cycles;
  }
  double free_at() const { return free_at_; }
  double busy() const { return busy_; }

 private:
  double free_at_ = 0, busy_ = 0;
};

}  // namespace stagecraft::emulator::timing
