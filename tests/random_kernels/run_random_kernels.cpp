// Runs random kernels on the emulated GPU with all checks, and in the naive interpreter, and compares their results.
//
//     run_random_kernels [--seed FIRST] [--kernels N | --seconds T] [--show SEED]
//
// A kernel that differs, or in which a check finds something, is shrunk and printed; its seed repeats it. The exit
// status is 1 then.
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "comparison.hpp"
#include "random_kernel.hpp"

namespace {

using namespace stagecraft::random_kernels;

volatile uint64_t seed_now = 0;

/// Says which kernel it was when the process ends in the middle of it.
extern "C" void say_seed(int signal) {
  std::fprintf(stderr, "signal %d in the kernel of seed %llu\n", signal, static_cast<unsigned long long>(seed_now));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

struct Options {
  uint64_t seed = 1, kernels = 0;
  double seconds = 0;
  std::optional<uint64_t> show;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--seed") {
      options.seed = std::strtoull(argv[i + 1], nullptr, 10);
    } else if (name == "--kernels") {
      options.kernels = std::strtoull(argv[i + 1], nullptr, 10);
    } else if (name == "--seconds") {
      options.seconds = std::strtod(argv[i + 1], nullptr);
    } else if (name == "--show") {
      options.show = std::strtoull(argv[i + 1], nullptr, 10);
    } else {
      argc = 0;
    }
  }
  if (argc % 2 == 0) {
    fmt::print(stderr, "usage: run_random_kernels [--seed FIRST] [--kernels N | --seconds T] [--show SEED]\n");
    std::exit(2);
  }
  if (options.kernels == 0 && options.seconds == 0) options.kernels = 1000;
  return options;
}

std::string describe(const RandomKernel& kernel) {
  return fmt::format("{} blocks of {} threads, in clusters of {}", kernel.blocks, kernel.threads, kernel.cluster);
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  if (options.show) {
    const RandomKernel kernel = make_kernel(*options.show);
    fmt::print("// {}\n{}", describe(kernel), kernel.ptx());
    return 0;
  }
  for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGILL}) std::signal(signal, say_seed);
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  Comparison comparison;
  uint64_t done = 0;
  for (; options.kernels != 0 ? done < options.kernels : seconds() < options.seconds; ++done) {
    seed_now = options.seed + done;
    const RandomKernel kernel = make_kernel(seed_now);
    const std::string difference = comparison.run(kernel);
    if (difference.empty()) continue;
    const RandomKernel smallest =
        shrink(kernel, [&](const RandomKernel& smaller) { return !comparison.run(smaller).empty(); });
    fmt::print("the kernel of seed {}, {}, shrunk:\n{}\n{}\n", kernel.seed, describe(kernel), smallest.ptx(),
               comparison.run(smallest));
    return 1;
  }
  fmt::print("{} random kernels, from seed {} on, in {:.0f} s: no difference, and no check reports anything\n", done,
             options.seed, seconds());
}
