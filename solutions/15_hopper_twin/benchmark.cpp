// Measures the kernels of this folder beside cuBLAS: the same matrices, in turn, in one process. Prints JSON lines.
#include <cuda_bf16.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "checks.hpp"
#include "contenders.hpp"
#include "gpu_state.hpp"
#include "harness/cuda_error.hpp"
#include "harness/device_buffer.hpp"
#if __has_include(<cublasLt.h>)
#include "cublas_product.hpp"
#define STAGECRAFT_HAS_CUBLAS 1
#endif

namespace {

using namespace stagecraft;
using harness::check;
using harness::DeviceBuffer;

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
  DeviceBuffer<unsigned char> a, b;
  DeviceBuffer<__nv_bfloat16> c;
};

// ---- Time ---------------------------------------------------------------------------------------------------------

class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "make an event"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record() const { check(cudaEventRecord(event_), "record an event"); }
  double milliseconds_since(const Event& earlier) const {
    check(cudaEventSynchronize(event_), "finish the kernels");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, earlier.event_, event_), "read the events");
    return ms;
  }

 private:
  cudaEvent_t event_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

struct Options {
  std::vector<Shape> shapes;
  std::vector<std::string> names;  // of contenders; empty: all
  bool with_cublas = true;
  int repeats = 11, launches = 12, sustained_repeats = 3, sustained_launches = 100, pause_ms = 20, seed = 1;
};

/// A contender that is ready for a shape: a launch for each set of matrices.
struct Prepared {
  std::string name;
  std::vector<Launch> launches = {};
  std::vector<double> burst = {}, sustained = {}, clock = {}, power = {},
                      energy = {};  // TFLOP/s, TFLOP/s, MHz, W, J a product
  int next = 0;

  void launch() { launches[next++ % launches.size()](nullptr); }
};

/// Milliseconds of one product, from `count` in a row after one that is not timed.
double time_launches(Prepared& contender, int count, int pause_ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
  const Event begin, end;
  contender.launch();
  begin.record();
  for (int i = 0; i < count; ++i) contender.launch();
  end.record();
  return end.milliseconds_since(begin) / count;
}

/// The same, with the clock and the power meanwhile and the energy that it took.
double time_sustained(Prepared& contender, int count, const Options& options, const GpuState& gpu) {
  std::this_thread::sleep_for(std::chrono::milliseconds(options.pause_ms));
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

std::string list(const std::vector<double>& values, const char* format) {
  std::string text = "[";
  for (const double value : values) {
    char number[32];
    std::snprintf(number, sizeof number, format, value);
    text += (text.size() > 1 ? ", " : "") + std::string(number);
  }
  return text + "]";
}

/// Whether C agrees with a reference in double. Prints what was found, and how it compares with cuBLAS: that says which
/// of the two is off where they differ, because cuBLAS is compared with double too.
bool verify(const Shape& shape, const MatrixSet& set, Prepared& contender, const __nv_bfloat16* cublas_c) {
  check(cudaMemset(const_cast<__nv_bfloat16*>(set.c.data()), 0xff, set.c.bytes()), "poison C");
  contender.launches[0](nullptr);
  check(cudaDeviceSynchronize(), "finish " + contender.name);
  const MatrixProduct product = set.product(shape);
  const Mismatch in_double = compare_with_double(product, /*most=*/65521);  // a prime number, to hit all columns
  const Mismatch there = cublas_c != nullptr ? compare_with_product(product, cublas_c) : Mismatch{};
  std::printf(
      "{\"shape\": \"%s\", \"contender\": \"%s\", \"compared with double\": %lld, \"wrong\": %lld, \"worst\": %.3g, "
      "\"compared with cuBLAS\": %lld, \"wrong there\": %lld, \"worst there\": %.3g}\n",
      shape.name().c_str(), contender.name.c_str(), static_cast<long long>(in_double.compared),
      static_cast<long long>(in_double.wrong), in_double.worst, static_cast<long long>(there.compared),
      static_cast<long long>(there.wrong), there.worst);
  return in_double.wrong == 0;
}

bool measure(const Shape& shape, const Options& options, const GpuState& gpu) {
  const size_t num_sets = static_cast<size_t>(std::clamp(400e6 / shape.bytes(), 2., 8.));
  std::vector<std::unique_ptr<MatrixSet>> sets;
  for (size_t i = 0; i < num_sets; ++i) sets.push_back(std::make_unique<MatrixSet>(shape, options.seed * 100 + i));
  const auto wanted = [&](const std::string& name) {
    return options.names.empty() || std::find(options.names.begin(), options.names.end(), name) != options.names.end();
  };

  std::vector<Prepared> all;
  std::unique_ptr<DeviceBuffer<__nv_bfloat16>> cublas_c;
#ifdef STAGECRAFT_HAS_CUBLAS
  if (options.with_cublas) {
    static const CublasLt cublas;
    static const cublasLtHandle_t handle = [] {
      cublasLtHandle_t made;
      CublasLt::check(cublas.create(&made), "start");
      return made;
    }();
    static const DeviceBuffer<char> workspace(CublasProduct::kWorkspaceBytes, "cuBLAS's workspace");
    auto product =
        std::make_shared<CublasProduct>(cublas, handle, workspace.data(), shape.type, shape.m, shape.n, shape.k);
    Prepared prepared{.name = "cublas"};
    for (const auto& set : sets) {
      prepared.launches.push_back(
          [product, p = set->product(shape)](cudaStream_t stream) { (*product)(p.a, p.b, p.c, stream); });
    }
    // The fastest algorithm: a first look at each, then the best four again and again in turn.
    std::vector<std::pair<double, int>> times;
    const int look = shape.operations() > 4e12 ? 3 : 8;
    for (int i = 0; i < product->num_algorithms(); ++i) {
      product->choose(i);
      times.emplace_back(time_launches(prepared, look, 5), i);
    }
    std::sort(times.begin(), times.end());
    times.resize(std::min<size_t>(times.size(), 4));
    std::vector<std::vector<double>> again(times.size());
    for (int repeat = 0; repeat < 5; ++repeat) {
      for (size_t i = 0; i < times.size(); ++i) {
        product->choose(times[i].second);
        again[i].push_back(time_launches(prepared, look, 5));
      }
    }
    size_t best = 0;
    for (size_t i = 1; i < again.size(); ++i) {
      if (median(again[i]) < median(again[best])) best = i;
    }
    product->choose(times[best].second);
    std::printf("{\"shape\": \"%s\", \"cublas algorithms\": %d, \"chosen\": %d, \"sets\": %zu}\n", shape.name().c_str(),
                product->num_algorithms(), product->chosen(), num_sets);
    prepared.launches[0](nullptr);
    cublas_c = std::make_unique<DeviceBuffer<__nv_bfloat16>>(shape.m * shape.n, "cuBLAS's C");
    check(cudaMemcpy(cublas_c->data(), sets[0]->c.data(), cublas_c->bytes(), cudaMemcpyDeviceToDevice), "keep C");
    all.push_back(std::move(prepared));
  }
#endif
  for (const Contender& contender : contenders()) {
    if (!wanted(contender.name) || !contender.takes(sets[0]->product(shape))) continue;
    Prepared prepared{.name = contender.name};
    for (const auto& set : sets) prepared.launches.push_back(contender.prepare(set->product(shape)));
    all.push_back(std::move(prepared));
  }

  bool right = true;
  for (Prepared& contender : all) {
    const bool agrees = verify(shape, *sets[0], contender, cublas_c ? cublas_c->data() : nullptr);
    if (contender.name != "cublas") right = right && agrees;
  }
  const double tera = shape.operations() * 1e-9;  // TFLOP/s of a product that takes a millisecond
  const int launches = shape.operations() > 4e12 ? 8 : options.launches;
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    for (size_t i = 0; i < all.size(); ++i) {  // each is once after each other
      Prepared& contender = all[(i + repeat) % all.size()];
      contender.burst.push_back(tera / time_launches(contender, launches, options.pause_ms));
    }
  }
  for (int repeat = 0; repeat < options.sustained_repeats; ++repeat) {
    for (size_t i = 0; i < all.size(); ++i) {
      Prepared& contender = all[(i + repeat) % all.size()];
      contender.sustained.push_back(tera / time_sustained(contender, options.sustained_launches, options, gpu));
    }
  }
  for (const Prepared& contender : all) {
    const auto ratio = [&](const std::vector<double> Prepared::*rates) {
      return all[0].name == "cublas" && !(contender.*rates).empty() ? median(contender.*rates) / median(all[0].*rates)
                                                                    : 0.;
    };
    std::printf("{\"shape\": \"%s\", \"contender\": \"%s\", \"burst\": %.1f, \"ratio\": %.4f, \"bursts\": %s",
                shape.name().c_str(), contender.name.c_str(), median(contender.burst), ratio(&Prepared::burst),
                list(contender.burst, "%.1f").c_str());
    if (!contender.sustained.empty()) {
      std::printf(
          ", \"sustained\": %.1f, \"sustained ratio\": %.4f, \"all sustained\": %s, \"MHz\": %s, \"W\": %s, "
          "\"J\": %s",
          median(contender.sustained), ratio(&Prepared::sustained), list(contender.sustained, "%.1f").c_str(),
          list(contender.clock, "%.0f").c_str(), list(contender.power, "%.0f").c_str(),
          list(contender.energy, "%.4f").c_str());
    }
    std::printf("}\n");
  }
  std::fflush(stdout);
  return right;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

Options parse(int argc, char** argv) {
  Options options;
  OperandType type = OperandType::bf16;
  std::string shapes =
      "2048x2048x2048,4096x4096x4096,6144x6144x6144,8192x8192x8192,16384x16384x16384,8192x4096x4096,4096x14336x4096,"
      "4096x4096x14336,8192x8192x1024,1024x8192x8192,128x8192x8192,8191x8189x8184";
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--shapes")
      shapes = value;
    else if (name == "--type" && (value == "bf16" || value == "e4m3"))
      type = value == "e4m3" ? OperandType::e4m3 : OperandType::bf16;
    else if (name == "--contenders")
      options.names = split(value);
    else if (name == "--repeats")
      options.repeats = std::stoi(value);
    else if (name == "--launches")
      options.launches = std::stoi(value);
    else if (name == "--sustained")
      options.sustained_repeats = std::stoi(value);
    else if (name == "--sustained-launches")
      options.sustained_launches = std::stoi(value);
    else if (name == "--pause")
      options.pause_ms = std::stoi(value);
    else if (name == "--cublas")
      options.with_cublas = value != "no";
    else if (name == "--seed")
      options.seed = std::stoi(value);
    else
      throw std::invalid_argument("unknown option " + name + " " + value);
  }
  for (const std::string& text : split(shapes)) {
    long long m, n, k;
    if (std::sscanf(text.c_str(), "%lldx%lldx%lld", &m, &n, &k) != 3) {
      throw std::invalid_argument("\"" + text + "\" is not a shape. Write MxNxK.");
    }
    options.shapes.push_back({type, m, n, k});
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse(argc, argv);
    const GpuState gpu;
    cudaDeviceProp device;
    check(cudaGetDeviceProperties(&device, 0), "ask the device for its properties");
    char date[32];
    const std::time_t now = std::time(nullptr);
    std::strftime(date, sizeof date, "%FT%TZ", std::gmtime(&now));
    std::string command;
    for (int i = 0; i < argc; ++i) command += (i > 0 ? " " : "") + std::string(argv[i]);
    std::printf(
        "{\"date\": \"%s\", \"device\": \"%s\", \"driver\": \"%s\", \"memory MHz\": %u, \"MHz at rest\": %u, \"W at "
        "rest\": %.0f, \"degrees\": %u, \"repeats\": %d, \"launches in a burst\": %d, \"pause ms\": %d, "
        "\"sustained launches\": %d, \"command\": \"%s\"}\n",
        date, device.name, gpu.driver().c_str(), gpu.memory_clock(), gpu.clock(), gpu.power(), gpu.temperature(),
        options.repeats, options.launches, options.pause_ms, options.sustained_launches, command.c_str());
    bool right = true;
    for (const Shape& shape : options.shapes) right = measure(shape, options, gpu) && right;
    return right ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "benchmark: %s\n", error.what());
    return 2;
  }
}
