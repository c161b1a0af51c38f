// Benchmarks of which some run on the emulated GPU and some on the host, and the ratios of their rates. Each piece of
// emulated work has a process of its own, because a process has one chip and one set of checks.
#pragma once

#include <string>
#include <vector>

/// The amount of work done, without its preparation.
struct Work {
  double amount = 0;   ///< floating-point operations, bytes, or runs
  double seconds = 0;  ///< of the host's clock, in kernels
};

struct EmulatorSettings {
  const char* device = "b200";
  const char* checks = "none";
  const char* threads = "1";
};

/// Registers a benchmark of emulated work. `work` may end its process when a result is wrong: then the benchmark fails.
void emulated(const std::string& name, const char* unit, Work (*work)(), EmulatorSettings settings);
/// Registers a benchmark that does `amount` in each call.
void native(const std::string& name, const char* unit, double amount, void (*work)());

/// To be printed as "what: 0.50", when `one` had half of the rate of `other`.
struct Ratio {
  std::string what, one, other;
};

/// Runs what is registered and prints the ratios of the best rates, which other work on the machine disturbs least.
/// @return for main().
int run_side_by_side(int argc, char** argv, const std::vector<Ratio>& ratios);
