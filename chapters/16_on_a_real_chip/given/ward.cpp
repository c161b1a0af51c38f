// Runs one of the five kernels of chapter 16 on whatever GPU there is, several times, and counts what is wrong.
//   ward NUMBER [RUNS]
// A kernel that hangs keeps it waiting, so that a debugger can look at it.
#include "ward.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

namespace {

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", cudaGetErrorName(error), cudaGetErrorString(error));
  std::exit(1);
}

template <typename Value>
Value* to_device(const std::vector<Value>& values) {
  Value* there = nullptr;
  check(cudaMalloc(reinterpret_cast<void**>(&there), values.size() * sizeof(Value)));
  check(cudaMemcpy(there, values.data(), values.size() * sizeof(Value), cudaMemcpyHostToDevice));
  return there;
}

std::vector<float> random_floats(size_t count) {
  const unsigned seed = std::random_device{}();
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<int>(noise(seed + static_cast<unsigned>(i))) * 0x1p-31f;
  return values;
}

/// Launches, waits and compares, `runs` times; prints how many results were wrong, where the first was, and the time.
/// @return  whether all were right.
template <typename Value>
bool run(int runs, size_t bytes, const std::vector<Value>& expected, const std::function<void(Value*)>& launch,
         const std::function<bool(Value, Value)>& is_right) {
  Value* out = to_device(expected);
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  bool all_right = true;
  for (int i = 0; i < runs; ++i) {
    check(cudaMemset(out, 0xff, expected.size() * sizeof(Value)));
    check(cudaEventRecord(begin));
    launch(out);
    check(cudaEventRecord(end));
    check(cudaDeviceSynchronize());
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end));
    std::vector<Value> got(expected.size());
    check(cudaMemcpy(got.data(), out, got.size() * sizeof(Value), cudaMemcpyDeviceToHost));
    size_t wrong = 0, first = 0;
    for (size_t at = 0; at < got.size(); ++at) {
      if (is_right(got[at], expected[at])) continue;
      if (wrong++ == 0) first = at;
    }
    all_right = all_right && wrong == 0;
    std::printf("run %d: %zu of %zu wrong", i, wrong, got.size());
    if (wrong > 0) std::printf(", the first at %zu", first);
    std::printf("; %.1f us, %.0f GB/s\n", milliseconds * 1e3, bytes / milliseconds / 1e6);
  }
  return all_right;
}

bool is_close(float got, float expected) { return std::abs(got - expected) <= 1e-3f * (1 + std::abs(expected)); }

}  // namespace

int main(int count, char** arguments) {
  const int number = count > 1 ? std::atoi(arguments[1]) : 0;
  const int runs = count > 2 ? std::atoi(arguments[2]) : 5;
  const int kBlocks = number == 5 ? 132 : 264;
  bool is_right = false;
  switch (number) {
    case 1: {
      constexpr int kCount = 20 * kTile + 512;
      const auto in = random_floats(static_cast<size_t>(kBlocks) * kCount);
      std::vector<float> expected;
      for (int block = 0; block < kBlocks; ++block) {
        double sum = 0;
        for (int i = 0; i < kCount; ++i) sum += in[static_cast<size_t>(block) * kCount + i];
        expected.push_back(static_cast<float>(sum));
      }
      const float* there = to_device(in);
      is_right = run<float>(
          runs, in.size() * sizeof(float), expected, [&](float* out) { launch_sums(there, out, kBlocks, kCount); },
          is_close);
      break;
    }
    case 2: {
      constexpr int kGroups = 8, kMostRows = 20;
      const std::vector<int> rows = {16, 8, 20, 10, 16, 13, 20, 9};
      const auto in = random_floats(static_cast<size_t>(kGroups) * kMostRows * kRow);
      std::vector<float> expected(kGroups * kMostRows, NAN);
      for (int group = 0; group < kGroups; ++group) {
        for (int row = 0; row < rows[group]; ++row) {
          double sum = 0;
          for (int i = 0; i < kRow; ++i) sum += in[static_cast<size_t>(group * kMostRows + row) * kRow + i];
          expected[group * kMostRows + row] = static_cast<float>(sum);
        }
      }
      const float* there = to_device(in);
      const int* rows_there = to_device(rows);
      is_right = run<float>(
          runs, in.size() * sizeof(float), expected,
          [&](float* out) { launch_row_sums(there, rows_there, out, kGroups, kMostRows); },
          [](float got, float wanted) { return std::isnan(wanted) ? std::isnan(got) : is_close(got, wanted); });
      break;
    }
    case 3: {
      constexpr int kRows = 20000;
      const auto in = random_floats(static_cast<size_t>(kRows) * kTile);
      std::vector<float> expected;
      for (int row = 0; row < kRows; ++row) {
        double sum = 0;
        for (int i = 0; i < kTile; ++i) sum += std::exp(static_cast<double>(in[static_cast<size_t>(row) * kTile + i]));
        expected.push_back(static_cast<float>(std::log(sum)));
      }
      const float* there = to_device(in);
      is_right = run<float>(
          runs, in.size() * sizeof(float), expected, [&](float* out) { launch_log_sums(there, out, kRows, kBlocks); },
          [](float got, float wanted) { return std::abs(got - wanted) <= 1e-5f * std::abs(wanted); });
      break;
    }
    case 4: {
      constexpr int kNumbers = 10000 * kPiece;
      std::vector<unsigned> expected(kNumbers);
      for (unsigned i = 0; i < expected.size(); ++i) expected[i] = noise(i);
      is_right = run<unsigned>(
          runs, expected.size() * sizeof(unsigned), expected,
          [&](unsigned* out) { launch_noise(out, kNumbers / kPiece, kBlocks); },
          [](unsigned got, unsigned wanted) { return got == wanted; });
      break;
    }
    case 5: {
      constexpr int kTiles = 100;
      const auto in = random_floats(static_cast<size_t>(kBlocks) * kTiles * kTile);
      std::vector<float> expected;
      for (int block = 0; block < kBlocks; ++block) {
        float maximum = -2;
        for (int i = 0; i < kTiles * kTile; ++i)
          maximum = std::max(maximum, in[static_cast<size_t>(block) * kTiles * kTile + i]);
        expected.push_back(maximum);
      }
      const float* there = to_device(in);
      is_right = run<float>(
          runs, in.size() * sizeof(float), expected, [&](float* out) { launch_maxima(there, out, kBlocks, kTiles); },
          [](float got, float wanted) { return got == wanted; });
      break;
    }
    default: std::fprintf(stderr, "usage: ward 1..5 [RUNS]\n"); return 2;
  }
  return is_right ? 0 : 1;
}
