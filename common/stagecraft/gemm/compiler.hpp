// GEMM kernels that are compiled while the program runs: those that nobody compiled before.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "stagecraft/gemm/config.hpp"
#include "stagecraft/gemm/error.hpp"
#include "stagecraft/gemm/kernel_table.hpp"

namespace stagecraft {

/// Kernels that have been compiled and loaded, and what that took.
struct CompiledGemms {
  std::vector<const GemmKernel*> kernels;  ///< in the order of the configurations; they stay until the process ends
  double seconds = 0;                      ///< spent in nvcc; 0 where the kernels had been kept
};

/// Compiles kernels with nvcc, keeps them in a folder for the next time, and loads them into the process.
///
/// A kept kernel is used only if everything it was made from is as it was: the configurations, the arguments, nvcc's
/// version, and the contents of each header. Several processes may use one folder at the same time. It may be deleted
/// at any time.
class GemmCompiler {
 public:
  /// @param nvcc       the compiler's path.
  /// @param arguments  of nvcc, such that `#include "stagecraft/gemm/launch.cuh"` is found, and which architecture the
  ///                   kernels are for: "-std=c++20", "-I/usr/include", "-gencode",
  ///                   "arch=compute_100a,code=compute_100a".
  /// @param folder     where kernels are kept; it is created.
  GemmCompiler(std::string nvcc, std::vector<std::string> arguments, std::string folder)
      : nvcc_(std::move(nvcc)), arguments_(std::move(arguments)), folder_(std::move(folder)) {}

  /// Compiles one source with a kernel for each configuration, or takes those that were kept. Any thread may call it.
  /// @returns the kernels; bad_configuration with the rule of rules.inc that one breaks; no_compiler where there is no
  /// nvcc, or
  ///          where what it made cannot be kept or loaded.
  GemmExpected<CompiledGemms> compile(std::span<const GemmConfig> configs) const;

 private:
  std::string nvcc_;
  std::vector<std::string> arguments_;
  std::string folder_;
};

}  // namespace stagecraft
