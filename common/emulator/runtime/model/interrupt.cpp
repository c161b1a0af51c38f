#include "emulator/runtime/model/interrupt.hpp"

#include <array>
#include <csignal>

namespace stagecraft::emulator::runtime {
namespace {

constexpr std::array<int, 2> kSignals{SIGINT, SIGTERM};

std::atomic<bool> was_interrupted = false;
std::atomic<int> received = 0;
std::array<bool, 2> handled{};

void stop_kernel(int signal) {
  received = signal;
  was_interrupted = true;
  std::signal(signal, SIG_DFL);  // the next one ends the process
}

}  // namespace

InterruptibleKernel::InterruptibleKernel() {
  for (size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction before {};
    handled[i] = sigaction(kSignals[i], nullptr, &before) == 0 && (before.sa_flags & SA_SIGINFO) == 0 &&
                 before.sa_handler == SIG_DFL;
    if (!handled[i]) continue;
    struct sigaction ours {};
    ours.sa_handler = stop_kernel;
    ours.sa_flags = SA_RESTART;
    sigemptyset(&ours.sa_mask);
    sigaction(kSignals[i], &ours, nullptr);
  }
}

InterruptibleKernel::~InterruptibleKernel() {
  for (size_t i = 0; i < kSignals.size(); ++i) {
    if (handled[i]) std::signal(kSignals[i], SIG_DFL);
  }
}

const std::atomic<bool>& InterruptibleKernel::interrupted() { return was_interrupted; }

void InterruptibleKernel::end_process() {
  const int signal = received.exchange(0);
  if (signal == 0) return;
  was_interrupted = false;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace stagecraft::emulator::runtime
