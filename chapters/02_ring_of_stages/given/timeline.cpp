// Draws which role holds each stage of the ring at which time, for rings of one, two and four stages. With a number of
// rows, it only adds them up, by the same rings and without delays: `./stagecraft time build/ring_timeline 64`.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "launches.hpp"

using stagecraft::harness::DeviceBuffer;
using stagecraft::harness::finish_kernel;

namespace {

constexpr int kRows = 8;
constexpr int kWork = 600;  // cycles that the consumer spends on a row, about what a copy takes
constexpr int kCyclesPerColumn = 150;

void draw(int stages) {
  const DeviceBuffer<uint32_t> in(std::vector<uint32_t>(kRows * kRow, 1), "the rows");
  DeviceBuffer<uint32_t> sums(kRows, "the sums"), left(size_t{kRow} * stages, "what is left");
  DeviceBuffer<RowTimes> times(kRows, "the times");
  launch_sum_rows(stages, in.data(), kRows, sums.data(), left.data(), kWork, times.data());
  finish_kernel("sum_rows");

  const std::vector<RowTimes> rows = times.to_host();
  const long long start = rows.front().asked;
  const auto column = [&](long long cycle) { return static_cast<size_t>((cycle - start) / kCyclesPerColumn); };
  std::printf("%d stage%s: %lld cycles\n", stages, stages == 1 ? "" : "s", rows.back().freed - start);
  for (int stage = 0; stage < stages; ++stage) {
    std::string line(column(rows.back().freed) + 1, ' ');
    for (int row = stage; row < kRows; row += stages) {
      std::fill(line.begin() + column(rows[row].asked), line.begin() + column(rows[row].taken), '.');
      std::fill(line.begin() + column(rows[row].taken), line.begin() + column(rows[row].freed), '0' + row);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::printf("  stage %d  %s\n", stage, line.c_str());
  }
}

/// Whether a ring of so many stages brings every row.
bool adds_up(int stages, int rows) {
  const DeviceBuffer<uint32_t> in(std::vector<uint32_t>(size_t(rows) * kRow, 3), "the rows");
  DeviceBuffer<uint32_t> sums(rows, "the sums");
  sums.poison();
  launch_sum_rows(stages, in.data(), rows, sums.data(), nullptr);
  finish_kernel("sum_rows");
  const std::vector<uint32_t> got = sums.to_host();
  return std::all_of(got.begin(), got.end(), [](uint32_t sum) { return sum == 3 * kRow; });
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc > 2 || (argc == 2 && std::atoi(argv[1]) < 1)) {
    std::fprintf(stderr, "usage: ring_timeline [ROWS]\n");
    return 2;
  }
  if (argc == 2) {
    for (const int stages : {1, 2, 4}) {
      if (!adds_up(stages, std::atoi(argv[1]))) throw std::runtime_error("a sum is wrong");
    }
    return 0;
  }
  std::printf("one column is %d cycles; . the row is on its way or waits, 0 to 7 the consumer adds up that row\n",
              kCyclesPerColumn);
  for (const int stages : {1, 2, 4}) draw(stages);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
