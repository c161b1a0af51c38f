#include "side_by_side.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>

namespace {

Work in_a_process(Work (*work)(), const EmulatorSettings& settings) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    setenv("STAGECRAFT_DEVICE", settings.device, 1);
    setenv("STAGECRAFT_CHECKS", settings.checks, 1);
    setenv("STAGECRAFT_THREADS", settings.threads, 1);
    const Work done = work();
    _exit(write(ends[1], &done, sizeof done) == sizeof done ? EXIT_SUCCESS : EXIT_FAILURE);
  }
  close(ends[1]);
  Work done;
  const bool is_read = read(ends[0], &done, sizeof done) == sizeof done;
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return is_read && status == 0 ? done : Work{};
}

/// The best rate of each, which other work on the machine disturbs least.
std::map<std::string, double> best;

template <typename Do>
void measure(benchmark::State& state, const std::string& name, const char* unit, Do work) {
  for (auto iteration : state) {
    const Work done = work();
    if (done.seconds == 0) return state.SkipWithError("it failed");
    state.SetIterationTime(done.seconds);
    best[name] = std::max(best[name], done.amount / done.seconds);
  }
  state.counters[unit] = best[name];
}

}  // namespace

void emulated(const std::string& name, const char* unit, Work (*work)(), EmulatorSettings settings) {
  benchmark::RegisterBenchmark(
      name.c_str(),
      [=](benchmark::State& state) { measure(state, name, unit, [&] { return in_a_process(work, settings); }); })
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

void native(const std::string& name, const char* unit, double amount, void (*work)()) {
  benchmark::RegisterBenchmark(
      name.c_str(),
      [=](benchmark::State& state) {
        measure(state, name, unit, [&] {
          const auto start = std::chrono::steady_clock::now();
          work();
          return Work{amount, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
        });
      })
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

int run_side_by_side(int argc, char** argv, const std::vector<Ratio>& ratios) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return EXIT_FAILURE;
  benchmark::RunSpecifiedBenchmarks();
  for (const Ratio& ratio : ratios) {
    if (!best.contains(ratio.one) || !best.contains(ratio.other)) continue;
    fmt::print("{}: {:.2f}\n", ratio.what, best[ratio.one] / best[ratio.other]);
  }
  return best.empty() ? EXIT_FAILURE : EXIT_SUCCESS;
}
