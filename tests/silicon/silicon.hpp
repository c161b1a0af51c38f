// What all micro-benchmarks share: a main function that runs each benchmark in a process of its own, the statistics,
// and the kernel that times a short piece of code.
#pragma once
#include <cuda_runtime.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace silicon {

// ---- Registration and results
// -----------------------------------------------------------------------------------------

struct Benchmark {
  const char* name;
  void (*run)();
};

inline std::vector<Benchmark>& benchmarks() {
  static std::vector<Benchmark> all;
  return all;
}

struct Registration {
  Registration(const char* name, void (*run)()) { benchmarks().push_back({name, run}); }
};

/// BENCHMARK(name) { ... } defines a benchmark that prints any number of constants.
#define BENCHMARK(NAME)                                          \
  static void NAME();                                            \
  static silicon::Registration registration_##NAME(#NAME, NAME); \
  static void NAME()

/// Ends the benchmark's process with one line of JSON that names the failed call.
inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("{\"error\": \"%s: %s\"}\n", what, cudaGetErrorName(error));
  std::fflush(stdout);
  std::_Exit(1);
}

inline void finish_kernel(const char* what) {
  check(cudaGetLastError(), what);
  check(cudaDeviceSynchronize(), what);
}

/// Prints one constant as a line of JSON: the median of `samples`, and the distance from the 10th to the 90th
/// percentile as its spread. With a `published` figure (0 is none), the ratio of the median to it is printed too.
inline void report(const std::string& name, std::vector<double> samples, const char* unit, const std::string& how,
                   double published = 0) {
  if (samples.empty()) {
    std::printf("{\"name\": \"%s\", \"error\": \"no samples\"}\n", name.c_str());
    return;
  }
  if (std::any_of(samples.begin(), samples.end(), [](double sample) { return !std::isfinite(sample); })) {
    std::printf("{\"name\": \"%s\", \"error\": \"a sample is not a number\"}\n", name.c_str());
    return;
  }
  std::sort(samples.begin(), samples.end());
  const auto quantile = [&](double part) { return samples[std::lround(part * (samples.size() - 1))]; };
  std::printf(
      "{\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\", \"spread\": %.4g, \"low\": %.6g, \"high\": %.6g, "
      "\"repeats\": %zu, \"how\": \"%s\"",
      name.c_str(), quantile(0.5), unit, quantile(0.9) - quantile(0.1), samples.front(), samples.back(), samples.size(),
      how.c_str());
  if (published != 0) std::printf(", \"published\": %.6g, \"ratio\": %.4f", published, quantile(0.5) / published);
  std::printf("}\n");
  std::fflush(stdout);
}

/// Runs the benchmark `name` of this program in a new process and ends that process after `limit`.
inline void run_in_process(const char* program, const char* name, std::chrono::seconds limit) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", program, "--in-process", name, nullptr);
    std::_Exit(127);
  }
  const auto deadline = std::chrono::steady_clock::now() + limit;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      std::printf("{\"benchmark\": \"%s\", \"error\": \"ended after %ld seconds\"}\n", name,
                  static_cast<long>(limit.count()));
      std::fflush(stdout);
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (status != 0) {
    std::printf("{\"benchmark\": \"%s\", \"error\": \"status %d\"}\n", name, status);
    std::fflush(stdout);
  }
}

inline int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--in-process") == 0) {
    for (const Benchmark& benchmark : benchmarks())
      if (std::strcmp(benchmark.name, argv[2]) == 0) {
        benchmark.run();
        check(cudaDeviceSynchronize(), argv[2]);
        return 0;
      }
    return 2;
  }
  // Arguments, if any, are parts of the names of the benchmarks to run.
  for (const Benchmark& benchmark : benchmarks()) {
    bool wanted = argc == 1;
    for (int i = 1; i < argc; ++i) wanted |= std::strstr(benchmark.name, argv[i]) != nullptr;
    if (wanted) run_in_process(argv[0], benchmark.name, std::chrono::seconds(30));
  }
  return 0;
}

// ---- On the device
// ----------------------------------------------------------------------------------------------------

__device__ inline uint64_t cycles() {
  uint64_t value;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(value)::"memory");
  return value;
}

/// Reads the clock not before `value` is there: a volatile store needs it, and instructions issue in order.
__device__ inline uint64_t cycles_after(uint32_t value) {
  __shared__ volatile uint32_t settled[32];
  settled[threadIdx.x & 31] = value;
  return cycles();
}

__device__ inline uint64_t nanoseconds() {
  uint64_t value;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value)::"memory");
  return value;
}

__device__ inline uint32_t multiprocessor() {
  uint32_t value;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(value));
  return value;
}

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ inline uint32_t lane() { return threadIdx.x & 31; }

/// When a warp began and ended, in cycles of its multiprocessor.
struct Span {
  uint64_t start, stop;
};

/// A device buffer of `count` values of T, filled with zeros.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count) : count_(count) {
    check(cudaMalloc(&data_, count * sizeof(T)), "cudaMalloc");
    check(cudaMemset(data_, 0, count * sizeof(T)), "cudaMemset");
  }
  DeviceArray(DeviceArray&& other) noexcept : data_(std::exchange(other.data_, nullptr)), count_(other.count_) {}
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }
  T* data() const { return data_; }
  size_t size() const { return count_; }
  std::vector<T> to_host() const {
    std::vector<T> host(count_);
    check(cudaMemcpy(host.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return host;
  }
  void from_host(const std::vector<T>& host) {
    check(cudaMemcpy(data_, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
  }

 private:
  T* data_ = nullptr;
  size_t count_;
};

/// Executes a Body's step `Unroll` times in a loop of `iterations`. A first pass fills the instruction cache; the
/// second is timed.
template <typename Body, int Unroll>
__global__ void __launch_bounds__(1024) timed_loop(Span* spans, uint32_t* sink, int iterations, uint32_t seed) {
  extern __shared__ __align__(1024) uint8_t shared[];
  Body body(seed, shared);
  uint64_t start = 0, stop = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    __syncthreads();
    start = cycles();
#pragma unroll 1
    for (int i = 0; i < iterations; ++i) {
#pragma unroll
      for (int step = 0; step < Unroll; ++step) body.step(step);
    }
    stop = cycles();
  }
  if (lane() == 0) spans[threadIdx.x / 32] = {start, stop};
  const uint32_t result = body.result();
  if (result == 0x12345678) sink[threadIdx.x] = result;  // never taken; it keeps the results alive
}

/// Cycles from the first warp's start to the last warp's stop.
inline double span_cycles(const std::vector<Span>& spans, int warps) {
  uint64_t start = spans[0].start, stop = spans[0].stop;
  for (int warp = 1; warp < warps; ++warp) {
    start = std::min(start, spans[warp].start);
    stop = std::max(stop, spans[warp].stop);
  }
  return static_cast<double>(stop - start);
}

/// Cycles that one more step costs: a loop of `Long` steps less a loop of `Short` steps, so that the clock and the loop
/// itself cancel. One block runs alone.
template <typename Body, int Short = 32, int Long = 96>
std::vector<double> cycles_per_step(int threads, int shared_bytes = 0, int repeats = 31, int iterations = 32) {
  DeviceArray<Span> spans(32);
  DeviceArray<uint32_t> sink(1024);
  const auto time = [&](auto kernel) {
    kernel<<<1, threads, shared_bytes>>>(spans.data(), sink.data(), iterations, 1);
    finish_kernel("timed_loop");
    return span_cycles(spans.to_host(), (threads + 31) / 32);
  };
  if (shared_bytes > 48 * 1024) {
    check(cudaFuncSetAttribute(timed_loop<Body, Short>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes),
          "cudaFuncSetAttribute");
    check(cudaFuncSetAttribute(timed_loop<Body, Long>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes),
          "cudaFuncSetAttribute");
  }
  std::vector<double> samples;
  for (int i = -1; i < repeats; ++i) {
    const double shorter = time(timed_loop<Body, Short>), longer = time(timed_loop<Body, Long>);
    if (i >= 0) samples.push_back((longer - shorter) / (static_cast<double>(iterations) * (Long - Short)));
  }
  return samples;
}

/// Executes a Body's step `Unroll` times in a loop that ends by the clock, so that all warps are at work until the end.
template <typename Body, int Unroll>
__global__ void __launch_bounds__(1024)
    timed_window(Span* spans, uint32_t* counts, uint32_t* sink, uint32_t duration, uint32_t seed) {
  extern __shared__ __align__(1024) uint8_t shared[];
  Body body(seed, shared);
  uint64_t start = 0, stop = 0;
  uint32_t count = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    __syncthreads();
    start = cycles();
    count = 0;
#pragma unroll 1
    do {
#pragma unroll
      for (int step = 0; step < Unroll; ++step) body.step(step);
      ++count;
      stop = cycles();
    } while (stop - start < duration);
  }
  if (lane() == 0) {
    spans[threadIdx.x / 32] = {start, stop};
    counts[threadIdx.x / 32] = count;
  }
  const uint32_t result = body.result();
  if (result == 0x12345678) sink[threadIdx.x] = result;  // never taken; it keeps the results alive
}

/// Cycles of the multiprocessor for one more step of one warp, while all warps of the block are at work: the inverse of
/// the sum of the warps' rates. As above, a loop of `Long` steps less a loop of `Short` steps.
template <typename Body, int Short = 32, int Long = 96>
std::vector<double> sm_cycles_per_step(int threads, int shared_bytes = 0, int repeats = 21, uint32_t duration = 30000) {
  DeviceArray<Span> spans(32);
  DeviceArray<uint32_t> counts(32), sink(1024);
  const auto cycles_per_iteration = [&](auto kernel) {
    kernel<<<1, threads, shared_bytes>>>(spans.data(), counts.data(), sink.data(), duration, 1);
    finish_kernel("timed_window");
    const auto span = spans.to_host();
    const auto count = counts.to_host();
    double rate = 0;
    for (int warp = 0; warp < (threads + 31) / 32; ++warp)
      rate += count[warp] / static_cast<double>(span[warp].stop - span[warp].start);
    return 1 / rate;
  };
  std::vector<double> samples;
  for (int i = -1; i < repeats; ++i) {
    const double shorter = cycles_per_iteration(timed_window<Body, Short>);
    const double longer = cycles_per_iteration(timed_window<Body, Long>);
    if (i >= 0) samples.push_back((longer - shorter) / (Long - Short));
  }
  return samples;
}

inline std::vector<double> scaled(std::vector<double> samples, double factor) {
  for (double& sample : samples) sample *= factor;
  return samples;
}

inline int multiprocessors() {
  int count = 0;
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0), "cudaDeviceGetAttribute");
  return count;
}

/// Milliseconds between two events around `launch`, `repeats` times, after one launch that is not timed.
inline std::vector<double> event_milliseconds(const std::function<void()>& launch, int repeats) {
  cudaEvent_t start, stop;
  check(cudaEventCreate(&start), "cudaEventCreate");
  check(cudaEventCreate(&stop), "cudaEventCreate");
  std::vector<double> samples;
  for (int i = -1; i < repeats; ++i) {
    check(cudaEventRecord(start), "cudaEventRecord");
    launch();
    check(cudaGetLastError(), "launch");
    check(cudaEventRecord(stop), "cudaEventRecord");
    check(cudaEventSynchronize(stop), "cudaEventSynchronize");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start, stop), "cudaEventElapsedTime");
    if (i >= 0) samples.push_back(milliseconds);
  }
  return samples;
}

}  // namespace silicon
