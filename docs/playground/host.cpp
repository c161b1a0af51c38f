// The host's side of the playground: it runs in the page, compiled to WebAssembly together with the emulated GPU. One
// process runs one kernel once; the page starts a new one for each run, so a run leaves no trace for the next.
#include <cuda_runtime_api.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "settings.hpp"

namespace {

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

// ---- Settings ---------------------------------------------------------------------------------------------

/// A number that the page sets by its name, with the values that the kernel can bear.
template <typename Settings>
struct Setting {
  std::string_view name;
  int32_t Settings::*member;
  int32_t least, most;
};

/// Returns the settings that `words` (each NAME=NUMBER) make of the defaults. Throws when one is not known or not
/// legal.
template <typename Settings>
Settings read_settings(std::span<const Setting<Settings>> known, std::span<char* const> words) {
  Settings settings;
  for (const std::string_view word : words) {
    const size_t sign = word.find('=');
    bool found = false;
    for (const Setting<Settings>& setting : known) {
      if (word.substr(0, sign) != setting.name || sign == std::string_view::npos) continue;
      found = true;
      int32_t value = 0;
      const char* const end = word.data() + word.size();
      const auto [last, error] = std::from_chars(word.data() + sign + 1, end, value);
      if (error != std::errc() || last != end || value < setting.least || value > setting.most) {
        throw std::runtime_error(std::string(word) + ": " + std::string(setting.name) + " is a number from " +
                                 std::to_string(setting.least) + " to " + std::to_string(setting.most));
      }
      settings.*setting.member = value;
    }
    if (!found) throw std::runtime_error("this kernel has no setting '" + std::string(word.substr(0, sign)) + "'");
  }
  return settings;
}

// ---- Launches ---------------------------------------------------------------------------------------------

/// Memory of the emulated GPU with a copy of some values. A kernel's pointers have 64 bits, and WebAssembly's have 32.
template <typename T>
class DeviceCopy {
 public:
  explicit DeviceCopy(const std::vector<T>& values) : size_(values.size()) {
    check(cudaMalloc(&memory_, bytes()), "cudaMalloc");
    check(cudaMemcpy(memory_, values.data(), bytes(), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  ~DeviceCopy() { cudaFree(memory_); }
  DeviceCopy(const DeviceCopy&) = delete;
  DeviceCopy& operator=(const DeviceCopy&) = delete;

  uint64_t address() const { return reinterpret_cast<uintptr_t>(memory_); }
  std::vector<T> read() const {
    std::vector<T> values(size_);
    check(cudaMemcpy(values.data(), memory_, bytes(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return values;
  }

 private:
  size_t bytes() const { return size_ * sizeof(T); }

  size_t size_;
  void* memory_ = nullptr;
};

/// Runs kernel `name` of a PTX file with one block, on `in` and the settings, and returns what it wrote over `poison`.
template <typename In, typename Out, typename Settings>
std::vector<Out> run(const char* ptx, const char* name, int threads, const std::vector<In>& in,
                     const std::vector<Out>& poison, const Settings& settings) {
  // From a file, because cudaLibraryLoadData must look up in /proc which memory its image is in.
  cudaLibrary_t library = nullptr;
  check(cudaLibraryLoadFromFile(&library, ptx, nullptr, nullptr, 0, nullptr, nullptr, 0), "cudaLibraryLoadFromFile");
  cudaKernel_t kernel = nullptr;
  check(cudaLibraryGetKernel(&kernel, library, name), "cudaLibraryGetKernel");
  const DeviceCopy<In> device_in(in);
  const DeviceCopy<Out> device_out(poison);
  uint64_t in_address = device_in.address(), out_address = device_out.address();
  Settings parameter = settings;
  void* parameters[] = {&in_address, &out_address, &parameter};
  check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(1), dim3(threads), parameters, 0, nullptr),
        "cudaLaunchKernel");
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  return device_out.read();
}

/// Prints how many results are right, and the first that is not. Returns whether all are.
template <typename T>
bool compare(const char* what, const std::vector<T>& results, const std::vector<T>& expected) {
  size_t right = 0, first_wrong = results.size();
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i] == expected[i]) {
      ++right;
    } else if (first_wrong == results.size()) {
      first_wrong = i;
    }
  }
  if (right == results.size()) {
    std::printf("All %zu results are right.\n", right);
    return true;
  }
  std::printf("%zu of %zu results are wrong. The first: %s[%zu] is %g, and should be %g.\n", results.size() - right,
              results.size(), what, first_wrong, static_cast<double>(results[first_wrong]),
              static_cast<double>(expected[first_wrong]));
  return false;
}

// ---- Kernels ----------------------------------------------------------------------------------------------

constexpr int32_t kMaxCount = 128;  // more arrivals than any of these blocks has threads

bool run_ring(const char* ptx, std::span<char* const> words) {
  using S = RingSettings;
  static constexpr Setting<S> kSettings[] = {
      {"stages", &S::stages, 1, kMaxStages},          {"rows", &S::rows, 1, 64},
      {"full_count", &S::full_count, 1, kMaxCount},   {"empty_count", &S::empty_count, 1, kMaxCount},
      {"bytes", &S::bytes, 0, 2 * kRow * 4},          {"producer_waits", &S::producer_waits, 0, 1},
      {"producer_parity", &S::producer_parity, 0, 1}, {"consumer_parity", &S::consumer_parity, 0, 1},
      {"consumer_flips", &S::consumer_flips, 0, 1},   {"released", &S::released, kByAllLanes, kNever}};
  const S settings = read_settings<S>(kSettings, words);
  std::vector<float> in(static_cast<size_t>(settings.rows * kRow));
  std::vector<float> expected(static_cast<size_t>(settings.rows), 0);
  for (size_t i = 0; i < in.size(); ++i) {
    in[i] = static_cast<float>(i / kRow * 10 + i % 7);  // small integers: the sums are exact in any order
    expected[i / kRow] += in[i];
  }
  const std::vector<float> poison(expected.size(), NAN);
  return compare("sums", run(ptx, "ring", 64, in, poison, settings), expected);
}

bool run_barrier(const char* ptx, std::span<char* const> words) {
  using S = BarrierSettings;
  static constexpr Setting<S> kSettings[] = {{"rounds", &S::rounds, 1, 64},
                                             {"count", &S::count, 1, kMaxCount},
                                             {"arrives", &S::arrives, kAllLanes, kNobody},
                                             {"parity", &S::parity, kOfTheRound, kOfTheRoundBefore},
                                             {"block_barrier", &S::block_barrier, 0, 1}};
  const S settings = read_settings<S>(kSettings, words);
  std::vector<uint32_t> in(static_cast<size_t>(settings.rounds * kWords)), expected(in.size());
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint32_t>(i / kWords * 100 + i % kWords);
  for (size_t i = 0; i < in.size(); ++i) expected[i] = in[i / kWords * kWords + kWords - 1 - i % kWords];
  const std::vector<uint32_t> poison(in.size(), 0xffffffff);
  return compare("out", run(ptx, "barrier", 64, in, poison, settings), expected);
}

/// The bf16 of a small integer, which has no more bits than it can hold.
uint16_t bf16_of(int value) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16); }

/// Writes a tile of `rows` x kProductK as the tensor core reads it without a swizzle: 16 bytes of each row, one below
/// the other, then the next 16 bytes.
void append_tile(std::vector<uint16_t>& to, int rows, const std::function<int(int, int)>& element) {
  constexpr int kChunk = 8;  // elements in 16 bytes
  for (int first = 0; first < kProductK; first += kChunk) {
    for (int row = 0; row < rows; ++row) {
      for (int column = first; column < first + kChunk; ++column) to.push_back(bf16_of(element(row, column)));
    }
  }
}

bool run_product(const char* ptx, std::span<char* const> words) {
  using S = ProductSettings;
  static constexpr Setting<S> kSettings[] = {{"steps", &S::steps, 1, 32},
                                             {"stages", &S::stages, 1, kMaxStages},
                                             {"tile_awaited", &S::tile_awaited, 0, 1},
                                             {"overwritten", &S::overwritten, kByTheFirst, kByAll},
                                             {"freed", &S::freed, kByTensorCore, kByNobody},
                                             {"committed", &S::committed, 0, 1},
                                             {"done_parity", &S::done_parity, 0, 1},
                                             {"fence", &S::fence, 0, 1},
                                             {"deallocated", &S::deallocated, 0, 1}};
  const S settings = read_settings<S>(kSettings, words);
  const auto a = [](int row, int k) { return (row + 3 * k) % 7 - 3; };
  const auto b = [](int column, int k) { return (2 * column + k) % 5 - 1; };
  std::vector<uint16_t> in;
  for (int step = 0; step < settings.steps; ++step) {
    const int first = step * kProductK;
    append_tile(in, kProductM, [&](int row, int k) { return a(row, first + k); });
    append_tile(in, kProductN, [&](int column, int k) { return b(column, first + k); });
  }
  std::vector<float> expected;
  for (int i = 0; i < kProductM * kProductN; ++i) {
    int sum = 0;  // small integers: exact in any order
    for (int k = 0; k < settings.steps * kProductK; ++k) sum += a(i / kProductN, k) * b(i % kProductN, k);
    expected.push_back(static_cast<float>(sum));
  }
  const std::vector<float> poison(expected.size(), NAN);
  return compare("d", run(ptx, "product", 192, in, poison, settings), expected);
}

}  // namespace

/// playground KERNEL PTX [NAME=NUMBER ...]: exits with 0 when all results are right.
int main(int count, char** arguments) {
  try {
    const std::span<char* const> words(arguments, static_cast<size_t>(count));
    if (words.size() < 3) throw std::runtime_error("usage: playground KERNEL PTX [NAME=NUMBER ...]");
    const std::string_view kernel = words[1];
    if (kernel == "ring") return run_ring(words[2], words.subspan(3)) ? 0 : 1;
    if (kernel == "product") return run_product(words[2], words.subspan(3)) ? 0 : 1;
    if (kernel == "barrier") return run_barrier(words[2], words.subspan(3)) ? 0 : 1;
    throw std::runtime_error("there is no kernel '" + std::string(kernel) + "'");
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
