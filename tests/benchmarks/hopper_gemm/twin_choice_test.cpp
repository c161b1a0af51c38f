// The chooser: what was tuned comes before the rule, for the device and the product that were tuned.
#include <gtest/gtest.h>

#include <string>

#include "stagecraft/hopper_gemm/twin.hpp"

namespace stagecraft {
namespace {

/// A line of the table, as it is written there.
struct Line {
  std::string device;
  OperandType type;
  int64_t m, n, k;
  TwinChoice choice;
};
const Line kLines[] = {
#include "stagecraft/hopper_gemm/tuned.inc"
};

TEST(TwinChoiceTest, AProductThatWasTunedGetsWhatWasFound) {
  for (const auto& [device, type, m, n, k, choice] : kLines) {
    EXPECT_EQ(find_tuned(device, type, m, n, k), choice) << device << ": " << m << "x" << n << "x" << k;
  }
}

TEST(TwinChoiceTest, EveryChoiceOfTheTableCanComputeItsProduct) {
  for (const auto& [device, type, m, n, k, choice] : kLines) {
    EXPECT_TRUE(takes(choice.kind, {type, nullptr, nullptr, nullptr, m, n, k})) << m << "x" << n << "x" << k;
  }
}

TEST(TwinChoiceTest, WhatWasFoundOnOneDeviceIsNotUsedOnAnother) {
  EXPECT_FALSE(find_tuned("NVIDIA H100", OperandType::bf16, 8192, 8192, 8192));
}

TEST(TwinChoiceTest, OtherProductsGetWhatIsExpectedToBeTheFastest) {
  EXPECT_FALSE(find_tuned("NVIDIA H200", OperandType::bf16, 8200, 8192, 8192));
  EXPECT_EQ(choose_twin(8200, 8191, 128, 132), TwinKind::by_threads);
  EXPECT_EQ(choose_twin(300, 1001, 128, 132), TwinKind::flat_by_threads);
  EXPECT_EQ(choose_twin(1000, 1999, 128, 132), TwinKind::thin_by_threads);
  EXPECT_EQ(choose_twin(8, 8192, 128, 132), TwinKind::swapped_16);
  EXPECT_EQ(choose_twin(64, 8192, 128, 132), TwinKind::split);
  EXPECT_EQ(choose_twin(64, 4096, 64, 132), TwinKind::split_64);
  EXPECT_EQ(choose_twin(96, 5120, 80, 132), TwinKind::split_tall_80);
  EXPECT_EQ(choose_twin(96, 8192, 128, 132), TwinKind::flat);
  EXPECT_EQ(choose_twin(128, 8192, 128, 132), TwinKind::low);
  EXPECT_EQ(choose_twin(128, 1024, 128, 132), TwinKind::low_64);
  EXPECT_EQ(choose_twin(136, 4096, 64, 132), TwinKind::swapped_72);
  EXPECT_EQ(choose_twin(192, 4096, 64, 132), TwinKind::swapped_192);
  EXPECT_EQ(choose_twin(200, 5120, 80, 132), TwinKind::split_high_80);
  EXPECT_EQ(choose_twin(200, 8192, 128, 132), TwinKind::swapped_104);
  EXPECT_EQ(choose_twin(520, 4096, 64, 132), TwinKind::swapped_136);
  EXPECT_EQ(choose_twin(512, 1024, 64, 132), TwinKind::split_tall_64);
  EXPECT_EQ(choose_twin(512, 2048, 32, 132), TwinKind::flat);
  EXPECT_EQ(choose_twin(256, 5120, 80, 132), TwinKind::split_high_80);
  EXPECT_EQ(choose_twin(512, 4096, 64, 132), TwinKind::thin_rows);
  EXPECT_EQ(choose_twin(1024, 1024, 16, 132), TwinKind::flat);
  EXPECT_EQ(choose_twin(1280, 1280, 64, 132), TwinKind::quad_112);
  EXPECT_EQ(choose_twin(1792, 1792, 28, 132), TwinKind::wide_208_rows);
  EXPECT_EQ(choose_twin(640, 5120, 80, 132), TwinKind::wide_208);
  EXPECT_EQ(choose_twin(1536, 1536, 24, 132), TwinKind::thin_144);
  EXPECT_EQ(choose_twin(700, 7000, 110, 132), TwinKind::tall_160);
  EXPECT_EQ(choose_twin(2304, 2304, 64, 132), TwinKind::tall_176);
  EXPECT_EQ(choose_twin(384, 7168, 32, 132), TwinKind::wide_176);
  EXPECT_EQ(choose_twin(5120, 5120, 80, 132), TwinKind::tall_144);
  EXPECT_EQ(choose_twin(4096, 4096, 64, 132), TwinKind::standard);
  EXPECT_EQ(choose_twin(16384, 16384, 256, 132), TwinKind::tall_200);
}

}  // namespace
}  // namespace stagecraft
