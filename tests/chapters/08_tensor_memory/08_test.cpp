// Tests of chapter 08, in the order of its TODOs.
#include <cuda_bf16.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "harness/comparison.hpp"
#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "harness/random.hpp"
#include "harness/reference_product.hpp"
#include "launches.hpp"
#include "tcgen05_test.hpp"

using stagecraft::harness::Comparison;
using stagecraft::harness::DeviceBuffer;
using stagecraft::harness::finish_kernel;
using stagecraft::harness::Random;
using stagecraft::harness::random_values;
using stagecraft::harness::reference_product;

namespace {

using Element = __nv_bfloat16;
using Chapter08 = stagecraft::chapters::Tcgen05Test;

/// The seed differs in each run; a failing test prints it.
uint64_t fresh_seed() {
  static const uint64_t seed = std::random_device{}();
  return seed;
}

TEST_F(Chapter08, Todo1To3TensorMemoryKeepsWhatIsPutThere) {
  for (const int blocks : {1, 3}) {
    Random random(fresh_seed());
    std::vector<uint32_t> words(blocks * kLanes * kWords);
    for (uint32_t& word : words) word = static_cast<uint32_t>(random.bits());
    const DeviceBuffer<uint32_t> in(words, "the rows");
    DeviceBuffer<uint32_t> out(words.size(), "what was found");
    out.poison();
    launch_remember(in.data(), out.data(), blocks);
    finish_kernel("remember");
    const std::vector<uint32_t> got = out.to_host();
    for (size_t i = 0; i < words.size(); ++i) {
      ASSERT_EQ(got[i], words[i]) << "word " << i % kWords << " of row " << i / kWords % kLanes << ", block "
                                  << i / kWords / kLanes << " of " << blocks;
    }
  }
}

TEST_F(Chapter08, Todo4TheDescriptorSaysWhereTheTileIs) {
  DeviceBuffer<Described> there(1, "the descriptor");
  there.poison();
  launch_describe(there.data());
  finish_kernel("describe_tile_of_a");
  const auto [descriptor, address] = there.to_host()[0];
  const auto bytes = [descriptor = descriptor](int first_bit) { return (descriptor >> first_bit & 0x3fff) * 16; };
  ASSERT_EQ(bytes(0), address) << "bits 13:0 of the descriptor, where the tile begins (times 16)";
  ASSERT_EQ(bytes(32), 1024u)
      << "bits 45:32 of the descriptor, the bytes from eight rows to the next eight (times 16): "
         "a row of this tile is 128 bytes";
  ASSERT_EQ(descriptor >> 46 & 7, 1u) << "bits 48:46 of the descriptor, which are always 1";
  ASSERT_EQ(descriptor >> 49 & 7, 0u) << "bits 51:49 of the descriptor, the base offset: the tile begins where the "
                                         "pattern of its swizzle does";
}

/// A times B transposed, of `columns` columns from `first` on only, times `factor`.
std::vector<double> product_of(const std::vector<Element>& a, const std::vector<Element>& b, int first, int columns,
                               double factor) {
  std::vector<double> product(kM * kN);
  for (int row = 0; row < kM; ++row) {
    for (int column = 0; column < kN; ++column) {
      double sum = 0;
      for (int i = first; i < first + columns; ++i) {
        sum += double{static_cast<float>(a[row * kK + i])} * double{static_cast<float>(b[column * kK + i])};
      }
      product[row * kN + column] = factor * sum;
    }
  }
  return product;
}

/// Checks every element of a product; mistakes that affect all of them are named.
void check_product(const std::vector<float>& got, const std::vector<Element>& a, const std::vector<Element>& b) {
  const auto compare_with = [&](const std::vector<double>& reference) {
    return stagecraft::harness::compare<float>(got, reference, {.k = kK, .output_epsilon = 0x1p-24});
  };
  const std::vector<double> expected = reference_product<Element>(a, b, kM, kN, kK);
  const Comparison found = compare_with(expected);
  if (found.wrong == 0) return;
  constexpr int kSlice = 16, kSlices = kK / kSlice;
  std::vector<double> in_steps_of_half_a_slice(kM * kN), first_columns_repeated = expected;
  for (int slice = 0; slice < kSlices; ++slice) {
    const std::vector<double> part = product_of(a, b, slice * kSlice / 2, kSlice, 1);
    for (size_t i = 0; i < part.size(); ++i) in_steps_of_half_a_slice[i] += part[i];
  }
  for (size_t i = 0; i < expected.size(); ++i) first_columns_repeated[i] = expected[i / kN * kN + i % kN % 32];
  const struct {
    const char* what;
    std::vector<double> product;
  } guesses[] = {
      {"D is the product of the first 16 columns, four times over. Every MMA has read the same slice of K",
       product_of(a, b, 0, kSlice, kSlices)},
      {"D is the product of the last 16 columns. Every MMA has overwritten what the one before it made",
       product_of(a, b, kK - kSlice, kSlice, 1)},
      {"D is the product of the first 16 columns alone. One MMA takes 16 of the 64 columns of a tile",
       product_of(a, b, 0, kSlice, 1)},
      {"each MMA has begun 16 bytes after the one before it. A slice is 16 columns of two bytes",
       in_steps_of_half_a_slice},
      {"columns 0 to 31 of D are repeated. Does each load begin at a column of its own?", first_columns_repeated},
  };
  std::string hint;
  for (const auto& [what, product] : guesses) {
    if (hint.empty() && compare_with(product).wrong == 0) hint = std::string(": ") + what;
  }
  FAIL() << found.wrong << " of " << got.size() << " elements of D are wrong" << hint << "\nthe worst is D["
         << found.worst / kN << "][" << found.worst % kN << "] = " << got[found.worst] << ", which should be "
         << expected[found.worst] << " (seed " << fresh_seed() << ")";
}

TEST_F(Chapter08, Todo4To6ATileOnTheTensorCore) {
  const auto a = random_values<Element>(kM * kK, fresh_seed()), b = random_values<Element>(kN * kK, fresh_seed() + 1);
  const DeviceBuffer<Element> a_there(a, "A"), b_there(b, "B");
  DeviceBuffer<float> d(kM * kN, "D");
  d.poison();
  launch_multiply_tile(a_there.data(), b_there.data(), d.data());
  finish_kernel("multiply_tile");
  check_product(d.to_host(), a, b);
}

TEST_F(Chapter08, Todo7AnOperandThatThreadsWrite) {
  const auto a = random_values<float>(kM * kK, fresh_seed() + 2);
  const auto b = random_values<Element>(kN * kK, fresh_seed() + 3);
  const DeviceBuffer<float> a_there(a, "A");
  const DeviceBuffer<Element> b_there(b, "B");
  DeviceBuffer<float> d(kM * kN, "D");
  d.poison();
  launch_multiply_rounded(a_there.data(), b_there.data(), d.data());
  finish_kernel("multiply_rounded");
  std::vector<Element> rounded(a.size());
  for (size_t i = 0; i < a.size(); ++i) rounded[i] = Element(a[i]);
  check_product(d.to_host(), rounded, b);
}

}  // namespace
