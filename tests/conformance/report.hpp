// What a conformance program prints, and the comparison with what a real GPU printed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/cuda_error.hpp"
#include "harness/device_buffer.hpp"
#include "harness/random.hpp"

namespace stagecraft::conformance {

using harness::check;
using harness::DeviceBuffer;
using harness::Random;

/// The output of one program: sections of numbers in hexadecimal.
///
/// A section shows its first values, and a checksum of each 32 values, so that a difference is narrowed down without
/// megabytes of text. With `all_values`, for a search of what differs, it shows them all.
class Report {
 public:
  explicit Report(uint64_t seed, bool all_values = false) : seed_(seed), all_values_(all_values) {}

  uint64_t seed() const { return seed_; }

  /// A section of plain values, which must agree in every bit.
  template <typename T>
  void section(const std::string& name, const std::vector<T>& values) {
    section(name, values.data(), values.size(), sizeof(T));
  }

  /// The same for `count` values of `size` bytes each.
  void section(const std::string& name, const void* values, size_t count, size_t size);

  const std::vector<std::string>& lines() const { return lines_; }

 private:
  uint64_t seed_;
  bool all_values_;
  std::vector<std::string> lines_;
};

/// Waits for the kernel just launched and reports its errors.
inline void finish_kernel(const std::string& name) {
  check(cudaGetLastError(), ("launch " + name).c_str());
  check(cudaDeviceSynchronize(), ("finish " + name).c_str());
}

/// The body of `main`: runs the sections and prints them, or with `--compare FILE` prints only where they differ from
/// the file. `--seed N` chooses the input, 1 by default; `--all` prints all values in place of checksums. Returns the
/// exit status: 1 for differences and CUDA errors.
int run(int argc, char** argv, const std::function<void(Report&)>& sections);

}  // namespace stagecraft::conformance
