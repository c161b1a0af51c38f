// Tests of chapter 08, in the order of its TODOs.
#include <cuda_bf16.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "harness/comparison.hpp"
#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "harness/product_mistakes.hpp"
#include "harness/random.hpp"
#include "harness/reference_product.hpp"
#include "launches.hpp"
#include "tcgen05_test.hpp"

using namespace stagecraft::harness;

namespace {

using Element = __nv_bfloat16;
using Chapter08 = stagecraft::chapters::Tcgen05Test;

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

/// Checks every element of a product.
/// @param also  mistakes, as for `likely_mistake`.
void check_product(const std::vector<float>& got, const std::vector<Element>& a, const std::vector<Element>& b,
                   const std::vector<WrongEpilogue>& also = {}) {
  const ProductTolerance tolerance{.k = kK, .output_epsilon = 0x1p-24};
  const std::vector<double> expected = reference_product<Element>(a, b, kM, kN, kK);
  const Comparison found = stagecraft::harness::compare<float>(got, expected, tolerance);
  if (found.wrong == 0) return;
  FAIL() << found.wrong << " of " << got.size() << " elements of D are wrong"
         << likely_mistake<float, Element>(
                got, expected, a, b,
                {.m = kM, .n = kN, .k = kK, .tile_m = kM, .tile_n = kN, .tile_k = kK, .result = 'D'}, tolerance,
                TheSum{}, also)
         << "\nthe worst is D[" << found.worst / kN << "][" << found.worst % kN << "] = " << got[found.worst]
         << ", which should be " << expected[found.worst] << " (seed " << fresh_seed() << ")";
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
  std::vector<Element> rounded(a.size()), cut_off(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    rounded[i] = Element(a[i]);
    cut_off[i] = __float2bfloat16_rz(a[i]);
  }
  const auto from_cut_off = [&](const Guess&, int row, int column) {
    double sum = 0;
    for (int k = 0; k < kK; ++k) {
      sum += double{static_cast<float>(cut_off[row * kK + k])} * static_cast<float>(b[column * kK + k]);
    }
    return sum;
  };
  check_product(d.to_host(), rounded, b,
                {{"the elements of A are cut off towards zero, and should be rounded to nearest", from_cut_off}});
}

}  // namespace
