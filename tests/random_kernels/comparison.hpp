// A random kernel on the emulated GPU with all checks, beside the naive interpreter.
#pragma once

#include <functional>
#include <string>

#include "emulator/checks/global_memory/global_history.hpp"
#include "emulator/machine/machine.hpp"
#include "random_kernel.hpp"

namespace stagecraft::random_kernels {

class Comparison {
 public:
  Comparison();
  /// Runs a kernel in both. Returns what is wrong: words that differ, a finding of a check, or an error; empty if
  /// nothing is.
  std::string run(const RandomKernel& kernel);
  /// The same with another text for the emulated GPU, for tests of the comparison.
  std::string run(const RandomKernel& kernel, const std::string& emulated_text);

 private:
  emulator::machine::Machine machine_;
  emulator::checks::GlobalHistory history_;
};

/// Drops statements as long as what is left still fails.
RandomKernel shrink(RandomKernel kernel, const std::function<bool(const RandomKernel&)>& fails);

}  // namespace stagecraft::random_kernels
