#include "emulator/runtime/model/interrupt.hpp"

#include <array>
#include <csignal>
#include <cstdlib>
#include <thread>

namespace stagecraft::emulator::runtime {
namespace {

constexpr std::array<int, 2> kSignals{SIGINT, SIGTERM};

std::atomic<bool> was_interrupted = false;
std::atomic<int> received = 0;
std::array<bool, 2> handled{};
std::atomic<std::thread::id> ends{}, runs_kernel{};  // the thread that ends the program, and the one that runs a kernel

void stop_kernel(int signal) {
  received = signal;
  was_interrupted = true;
  std::signal(signal, SIG_DFL);  // the next one ends the process
}

/// A kernel that another thread runs would keep the lock, and what the program destroys at its end would wait for it.
void stop_if_program_ended() {
  const std::thread::id ending = ends, running = runs_kernel;
  if (ending != std::thread::id{} && running != std::thread::id{} && ending != running) was_interrupted = true;
}

}  // namespace

InterruptibleKernel::InterruptibleKernel() {
  // It runs before the destructors of what was made before, among them the program's registration of its kernels.
  [[maybe_unused]] static const int registered = std::atexit([] {
    ends = std::this_thread::get_id();
    stop_if_program_ended();
  });
  runs_kernel = std::this_thread::get_id();
  stop_if_program_ended();
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
  runs_kernel = std::thread::id{};
  for (size_t i = 0; i < kSignals.size(); ++i) {
    if (handled[i]) std::signal(kSignals[i], SIG_DFL);
  }
}

const std::atomic<bool>& InterruptibleKernel::interrupted() { return was_interrupted; }

bool InterruptibleKernel::program_ended() {
  const std::thread::id ending = ends;
  if (ending == std::thread::id{} || ending == std::this_thread::get_id()) return false;
  was_interrupted = false;
  return true;
}

void InterruptibleKernel::end_process() {
  const int signal = received.exchange(0);
  if (signal == 0) return;
  was_interrupted = false;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace stagecraft::emulator::runtime
