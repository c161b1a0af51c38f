// What the programs of the gallery share: arrays on the device, and a main function that runs one of their variants.
//
// A base (ring.cu, ...) is a small right program. tests/mistakes/mistakes.py repeats it in a namespace for each of its
// mistakes, with the changed lines in place, and adds `main`.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

namespace gallery {

/// What a run has come to, and the exit status for it.
enum Outcome { right = 0, wrong_result = 1, error = 2 };

/// Prints the error of a call and ends the program, if there is one.
inline void must(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  std::printf("%s: %s\n", what, cudaGetErrorName(result));
  std::exit(error);
}

/// Elements in the memory of the device. They are random multiples of 1/8 between 0 and 8, so that sums are exact, or a
/// pattern that no result has.
template <typename T>
class Array {
 public:
  /// Random ones, the same in every run.
  static Array random(size_t count) {
    Array array(count);
    uint32_t state = 12345;
    for (T& value : array.host_) {
      state = state * 1664525u + 1013904223u;
      value = static_cast<T>(static_cast<float>(state >> 26) / 8);
    }
    array.send();
    return array;
  }
  /// For results.
  static Array poisoned(size_t count) {
    Array array(count);
    std::memset(static_cast<void*>(array.host_.data()), 0x7b, count * sizeof(T));
    array.send();
    return array;
  }
  Array(Array&& other) noexcept : host_(std::move(other.host_)), device_(std::exchange(other.device_, nullptr)) {}
  ~Array() { cudaFree(device_); }

  T* device() const { return device_; }
  /// The element as it was sent, or as `fetch` has found it.
  const T& operator[](size_t index) const { return host_[index]; }
  size_t size() const { return host_.size(); }
  /// Waits for the kernels, and copies what the device has.
  void fetch() {
    must(cudaGetLastError(), "launch");
    must(cudaDeviceSynchronize(), "kernel");
    must(cudaMemcpy(host_.data(), device_, host_.size() * sizeof(T), cudaMemcpyDeviceToHost), "copy");
  }

 private:
  explicit Array(size_t count) : host_(count) { must(cudaMalloc(&device_, count * sizeof(T)), "cudaMalloc"); }
  void send() { must(cudaMemcpy(device_, host_.data(), host_.size() * sizeof(T), cudaMemcpyHostToDevice), "copy"); }

  std::vector<T> host_;
  T* device_ = nullptr;
};

/// One variant of the base: the right one, or one with a bug.
struct Variant {
  const char* name;
  bool (*run)();  ///< launches the kernel; says whether the result is right
};

/// Runs the variant that the command line names, and prints what it has come to.
template <size_t Count>
int run_variant(const Variant (&variants)[Count], int argc, char** argv) {
  for (const Variant& variant : variants) {
    if (argc != 2 || std::strcmp(argv[1], variant.name) != 0) continue;
    const bool is_right = variant.run();
    std::puts(is_right ? "right result" : "wrong result");
    return is_right ? right : wrong_result;
  }
  std::fprintf(stderr, "usage: %s VARIANT\n", argv[0]);
  for (const Variant& variant : variants) std::fprintf(stderr, "  %s\n", variant.name);
  return error;
}

}  // namespace gallery
