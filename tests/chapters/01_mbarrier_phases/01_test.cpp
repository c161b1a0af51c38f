// Tests of chapter 01, in the order of its TODOs.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "harness/random.hpp"
#include "launches.hpp"

using stagecraft::harness::DeviceBuffer;
using stagecraft::harness::finish_kernel;
using stagecraft::harness::Random;

namespace {

std::vector<uint32_t> random_words(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<uint32_t> words(count);
  for (uint32_t& word : words) word = static_cast<uint32_t>(random.bits());
  return words;
}

uint32_t sum_of_row(const std::vector<uint32_t>& words, int row) {
  return std::accumulate(words.begin() + row * kRow, words.begin() + (row + 1) * kRow, uint32_t{0});
}

TEST(Chapter01, Todo1To3TheReaderSeesWhatEveryWriterWrote) {
  const std::vector<uint32_t> words = random_words(32, 1);
  const DeviceBuffer<uint32_t> in(words, "the input");
  DeviceBuffer<uint32_t> out(32, "the output");
  out.poison();
  launch_mirror(in.data(), out.data());
  finish_kernel("mirror");
  const std::vector<uint32_t> got = out.to_host();
  for (int i = 0; i < 32; ++i) {
    ASSERT_EQ(got[i], words[31 - i]) << "out[" << i << "] must be in[" << 31 - i << "]: was it read before lane "
                                     << 31 - i << " had written it?";
  }
}

TEST(Chapter01, Todo4And5TheWarpAddsUpWhatTmaBrought) {
  for (uint64_t seed = 2; seed < 5; ++seed) {
    const std::vector<uint32_t> words = random_words(kRow, seed);
    const DeviceBuffer<uint32_t> in(words, "the row");
    DeviceBuffer<uint32_t> sum(1, "the sum");
    sum.poison();
    launch_sum_row(in.data(), sum.data());
    finish_kernel("sum_row");
    const uint32_t got = sum.to_host()[0];
    ASSERT_EQ(got, sum_of_row(words, 0))
        << (got == 0
                ? "nothing has come to the tile: was a copy asked for?"
                : "was the tile added up before the row had come, or did only a part of it come (sizes are in bytes)?");
  }
}

TEST(Chapter01, Todo6EachRowIsWaitedFor) {
  for (const int rows : {1, 2, 3, 8, 37}) {
    const std::vector<uint32_t> words = random_words(size_t{kRow} * rows, 10 + rows);
    const DeviceBuffer<uint32_t> in(words, "the rows");
    DeviceBuffer<uint32_t> sums(rows, "the sums");
    sums.poison();
    launch_sum_rows(in.data(), rows, sums.data());
    finish_kernel("sum_rows");
    const std::vector<uint32_t> got = sums.to_host();
    for (int row = 0; row < rows; ++row) {
      ASSERT_EQ(got[row], sum_of_row(words, row))
          << "row " << row << " of " << rows
          << (row > 0 && got[row] == sum_of_row(words, row - 1) ? ": this is the sum of the row before it" : "");
    }
  }
}

}  // namespace
