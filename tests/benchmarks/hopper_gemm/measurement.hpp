// Matrices, time and verdicts: what the benchmark and the tuner have in common.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "checks.hpp"
#include "contenders.hpp"
#include "gpu_state.hpp"
#include "harness/cuda_error.hpp"
#include "harness/device_buffer.hpp"
#include "harness/options.hpp"

namespace stagecraft {

// ---- Matrices -----------------------------------------------------------------------------------------------------

struct Shape {
  OperandType type;
  int64_t m, n, k;
  int64_t element_bytes() const { return type == OperandType::e4m3 ? 1 : 2; }
  double operations() const { return 2. * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
  double bytes() const { return static_cast<double>(element_bytes() * (m + n) * k + 2 * m * n); }
  std::string name() const {
    return (type == OperandType::e4m3 ? "e4m3 " : "") + std::to_string(m) + "x" + std::to_string(n) + "x" +
           std::to_string(k);
  }
};

/// Matrices of one product. Several sets are used in turn, so that none is in the cache from the time before.
struct MatrixSet {
  MatrixSet(const Shape& shape, uint64_t seed)
      : a(shape.m * shape.k * shape.element_bytes(), "A"),
        b(shape.n * shape.k * shape.element_bytes(), "B"),
        c(shape.m * shape.n, "C") {
    fill_normal(shape.type, a.data(), shape.m * shape.k, 2 * seed);
    fill_normal(shape.type, b.data(), shape.n * shape.k, 2 * seed + 1);
  }
  MatrixProduct product(const Shape& shape) const {
    return {shape.type, a.data(), b.data(), const_cast<__nv_bfloat16*>(c.data()), shape.m, shape.n, shape.k};
  }
  harness::DeviceBuffer<unsigned char> a, b;
  harness::DeviceBuffer<__nv_bfloat16> c;
};

// ---- Time ---------------------------------------------------------------------------------------------------------

class Event {
 public:
  Event() { harness::check(cudaEventCreate(&event_), "make an event"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record() const { harness::check(cudaEventRecord(event_), "record an event"); }
  double milliseconds_since(const Event& earlier) const {
    harness::check(cudaEventSynchronize(event_), "finish the kernels");
    float ms = 0;
    harness::check(cudaEventElapsedTime(&ms, earlier.event_, event_), "read the events");
    return ms;
  }

 private:
  cudaEvent_t event_;
};

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// What was found about a result: it is compared with a reference in double, and with cuBLAS's, which is compared with
/// double too. That says which of the two is off where they differ.
struct Verdict {
  Mismatch in_double, there;
  bool right() const { return in_double.wrong == 0; }
};

/// A contender that is ready for a shape: a launch for each set of matrices.
struct Prepared {
  std::string name;
  std::vector<Launch> launches = {};
  std::vector<double> burst = {}, sustained = {}, clock = {}, power = {},
                      energy = {};  // TFLOP/s, TFLOP/s, MHz, W, J a product
  Verdict verdict = {};
  int next = 0;

  void launch() { launches[next++ % launches.size()](nullptr); }
};

/// Milliseconds of one product, from `count` in a row after one that is not timed.
inline double time_launches(Prepared& contender, int count, int pause_ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
  const Event begin, end;
  contender.launch();
  begin.record();
  for (int i = 0; i < count; ++i) contender.launch();
  end.record();
  return end.milliseconds_since(begin) / count;
}

/// The same, with the clock and the power meanwhile and the energy that it took.
inline double time_sustained(Prepared& contender, int count, int pause_ms, const GpuState& gpu) {
  std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
  const Event begin, end;
  const double energy = gpu.energy();
  begin.record();
  for (int i = 0; i < count; ++i) contender.launch();
  end.record();
  std::vector<double> clocks, powers;
  while (cudaStreamQuery(nullptr) == cudaErrorNotReady) {
    clocks.push_back(gpu.clock());
    powers.push_back(gpu.power());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  const double ms = end.milliseconds_since(begin) / count;
  contender.energy.push_back((gpu.energy() - energy) / count);
  if (!clocks.empty()) {
    contender.clock.push_back(median(clocks));
    contender.power.push_back(powers.back());
  }
  return ms;
}

/// Runs a contender on a product, which is that of its first launch, and compares all that is said above.
/// @param cublas_c  what cuBLAS made of the same; nullptr without.
inline Verdict verify(const MatrixProduct& product, Prepared& contender, const __nv_bfloat16* cublas_c) {
  harness::check(cudaMemset(product.c, 0xff, sizeof(__nv_bfloat16) * product.m * product.n), "poison C");
  contender.launches[0](nullptr);
  harness::check(cudaDeviceSynchronize(), ("finish " + contender.name).c_str());
  return {compare_with_double(product, /*most=*/65521),  // a prime number, to hit all columns
          cublas_c != nullptr ? compare_with_product(product, cublas_c) : Mismatch{}};
}

/// Sets of random matrices: as many as it takes that none is still in the cache when its turn comes again.
inline std::vector<std::unique_ptr<MatrixSet>> make_sets(const Shape& shape, int seed) {
  const size_t num_sets = static_cast<size_t>(std::clamp(400e6 / shape.bytes(), 2., 8.));
  std::vector<std::unique_ptr<MatrixSet>> sets;
  for (size_t i = 0; i < num_sets; ++i) sets.push_back(std::make_unique<MatrixSet>(shape, seed * 100 + i));
  return sets;
}

// ---- What was asked for, and where
// -----------------------------------------------------------------------------------

using harness::split;

/// The number that an option was given. Throws std::invalid_argument for what is none, or below `least`.
inline int parse_number(const std::string& option, const std::string& value, int least) {
  char* end = nullptr;
  const long parsed = std::strtol(value.c_str(), &end, 10);
  if (value.empty() || *end != '\0' || parsed < least || parsed > 1000000) {
    throw std::invalid_argument(option + " " + value + ": it must be a number from " + std::to_string(least) + " on");
  }
  return static_cast<int>(parsed);
}

/// Each shape of the second list with each type of the first. Throws std::invalid_argument for what is neither.
inline std::vector<Shape> parse_shapes(const std::string& types, const std::string& shapes) {
  std::vector<Shape> all;
  for (const std::string& type : split(types)) {
    if (type != "bf16" && type != "e4m3") {
      throw std::invalid_argument("\"" + type + "\" is not a type of operands. Legal are bf16 and e4m3.");
    }
    for (const std::string& text : split(shapes)) {
      long long m = 0, n = 0, k = 0;
      int end = 0;
      if (std::sscanf(text.c_str(), "%lldx%lldx%lld%n", &m, &n, &k, &end) != 3 || text[end] != '\0' || m < 1 || n < 1 ||
          k < 1) {
        throw std::invalid_argument("\"" + text + "\" is not a shape. Write MxNxK, three numbers from 1 on.");
      }
      all.push_back({type == "e4m3" ? OperandType::e4m3 : OperandType::bf16, m, n, k});
    }
  }
  return all;
}

/// What a result is worth nothing without.
struct Machine {
  std::string date, device, driver;
  unsigned clock, memory_clock, temperature;  ///< MHz and degrees, at rest
  double power;                               ///< watts at rest

  /// The current device, now.
  explicit Machine(const GpuState& gpu)
      : driver(gpu.driver()),
        clock(gpu.clock()),
        memory_clock(gpu.memory_clock()),
        temperature(gpu.temperature()),
        power(gpu.power()) {
    cudaDeviceProp properties;
    harness::check(cudaGetDeviceProperties(&properties, 0), "ask the device for its properties");
    device = properties.name;
    char text[32];
    const std::time_t now = std::time(nullptr);
    std::strftime(text, sizeof text, "%FT%TZ", std::gmtime(&now));
    date = text;
  }

  /// In one line.
  std::string description() const {
    char text[256];
    std::snprintf(text, sizeof text, "%s, %s, driver %s, at rest: %u MHz (memory %u MHz), %.0f W, %u degrees",
                  date.c_str(), device.c_str(), driver.empty() ? "unknown" : driver.c_str(), clock, memory_clock, power,
                  temperature);
    return text;
  }
};

}  // namespace stagecraft
