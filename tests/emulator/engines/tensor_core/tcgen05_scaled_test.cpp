// The block-scaled kinds of tcgen05.mma against a reference in double precision, and operands that tcgen05.mma refuses.
#include "fixtures/tensor_fixture.hpp"

namespace stagecraft::emulator::machine::testing {
namespace {

struct ScaledTrial {
  MmaKind kind = MmaKind::mxf8f6f4;
  ElementFormat a = ElementFormat::e4m3, b = ElementFormat::e4m3;
  uint32_t a_code = 0, b_code = 0;
  uint32_t k = 32;
  uint32_t n = 64;
  uint32_t scales = 1;  ///< per K slice
  uint32_t id_a = 0, id_b = 0;
  bool ue4m3 = false;
  bool accumulate = false;
  bool a_in_tensor_memory = false;
  /// Exponents of the scale factors are around these.
  uint32_t center_a = 127, center_b = 127;
};

constexpr uint32_t kScalesA = 300, kScalesB = 308, kTensorA = 320;

// Scale factor of (row, block), in all four quarters of the lanes.
void put_scale(TensorBlock& bench, uint32_t base, uint32_t row, uint32_t byte, uint32_t code) {
  for (uint32_t quarter = 0; quarter < 4; ++quarter) {
    uint32_t& cell = bench.memory.cell({row % 32 + 32 * quarter, base + row / 32});
    cell = (cell & ~(0xffu << 8 * byte)) | code << 8 * byte;
  }
}

void run(const ScaledTrial& trial) {
  std::mt19937 random(7);
  TensorBlock bench;
  bench.allocate(512);
  const Matrix a(trial.a, 128, trial.k, random), b(trial.b, trial.n, trial.k, random);
  const bool four_bits = trial.kind != MmaKind::mxf8f6f4;
  const uint32_t bits = trial.id_b << 4 | (four_bits ? 1u : trial.a_code) << 7 | (four_bits ? 1u : trial.b_code) << 10 |
                        trial.n / 8 << 17 | uint32_t{!trial.ue4m3} << 23 | 1u << 27 | trial.id_a << 29;
  Tcgen05Mma operation;
  operation.shape = decode_instruction_descriptor(bits, trial.kind, false);
  ASSERT_EQ(operation.shape.k, trial.k);
  if (trial.a_in_tensor_memory) {
    operation.a_in_tensor_memory = true;
    operation.a_address = kTensorA;
    for (uint32_t m = 0; m < 128; ++m) {
      for (uint32_t k = 0; k < trial.k; ++k) {
        const uint32_t bit = k * bits_of(a.format);
        uint32_t& cell = bench.memory.cell({m, kTensorA + bit / 32});
        if (bit % 32 == 0) cell = 0;
        cell |= (a.format == ElementFormat::e2m1 ? a.code(m, k) << 2 : a.code(m, k)) << bit % 32;
      }
    }
  } else {
    operation.a = decode_shared_descriptor(put_k_major(bench, a, 4096, 2), "A");
  }
  operation.b = decode_shared_descriptor(put_k_major(bench, b, 65536, 2), "B");
  operation.scales_a = kScalesA;
  operation.scales_b = kScalesB | 1u << 30;  // like CUTLASS's addresses, with a byte offset in the upper bits
  operation.scales_per_slice = trial.scales;
  operation.accumulate = trial.accumulate;

  const auto random_scale = [&](uint32_t center) {
    return trial.ue4m3 ? 0x20 + random() % 0x30 : center - 5 + static_cast<uint32_t>(random() % 11);
  };
  const auto value = [&](uint32_t code) {
    return trial.ue4m3 ? worth(code, 4, 3, 7) : std::ldexp(1.0, static_cast<int>(code) - 127);
  };
  std::vector<uint32_t> scales_a(128 * trial.scales), scales_b(trial.n * trial.scales);
  for (uint32_t row = 0; row < 128; ++row) {
    for (uint32_t block = 0; block < trial.scales; ++block) {
      const uint32_t code = scales_a[row * trial.scales + block] = random_scale(trial.center_a);
      put_scale(bench, kScalesA, row, trial.id_a + block, code);
    }
  }
  for (uint32_t row = 0; row < trial.n; ++row) {
    for (uint32_t block = 0; block < trial.scales; ++block) {
      const uint32_t code = scales_b[row * trial.scales + block] = random_scale(trial.center_b);
      put_scale(bench, kScalesB, row, trial.id_b + block, code);
    }
  }
  if (trial.accumulate) {
    for (uint32_t n = 0; n < trial.n; ++n) {
      for (uint32_t m = 0; m < 128; ++m) bench.memory.cell({m, n}) = std::bit_cast<uint32_t>(float(m) - float(n));
    }
  }

  check(operation, {bench.block, bench.memory});
  execute(operation, {bench.block, bench.memory});

  uint32_t wrong = 0;
  for (uint32_t m = 0; m < 128; ++m) {
    for (uint32_t n = 0; n < trial.n; ++n) {
      double sum = trial.accumulate ? double(m) - double(n) : 0;
      double magnitude = std::abs(sum);
      for (uint32_t k = 0; k < trial.k; ++k) {
        const uint32_t block = k * trial.scales / trial.k;
        const double product = a.value(m, k) * value(scales_a[m * trial.scales + block]) * b.value(n, k) *
                               value(scales_b[n * trial.scales + block]);
        sum += product;
        magnitude += std::abs(product);
      }
      const double found = std::bit_cast<float>(bench.memory.cell({m, n}));
      if (!(std::abs(found - sum) <= magnitude * std::ldexp(trial.k + 1, -24)) && ++wrong < 5) {
        ADD_FAILURE() << "element (" << m << ", " << n << ") is " << found << ", not " << sum;
      }
    }
  }
  EXPECT_EQ(wrong, 0u);
}

TEST(Tcgen05ScaledMmaTest, ScalesNarrowFloatsInBlocksOf32) {
  for (const uint32_t id_a : {0u, 1u, 2u, 3u}) {
    for (const uint32_t id_b : {0u, 3u}) {
      for (const uint32_t n : {8u, 72u, 256u}) {
        ScaledTrial trial;
        trial.b = ElementFormat::e2m3, trial.b_code = 3;
        trial.id_a = id_a, trial.id_b = id_b, trial.n = n;
        trial.accumulate = n == 72;
        trial.a_in_tensor_memory = id_a == 2;
        run(trial);
      }
    }
  }
}

TEST(Tcgen05ScaledMmaTest, KeepsProductsWhoseScaleFactorsCancel) {
  ScaledTrial trial;
  trial.center_a = 249;
  trial.center_b = 6;
  run(trial);
}

TEST(Tcgen05ScaledMmaTest, ReadsTheCopyOfTheFactorsInEachQuarterOfTheLanes) {
  TensorBlock bench;
  bench.allocate(512);
  std::mt19937 random(11);
  const Matrix a(ElementFormat::e4m3, 128, 32, random), b(ElementFormat::e4m3, 8, 32, random);
  Tcgen05Mma operation;
  operation.shape = decode_instruction_descriptor(1u << 17 | 1u << 23 | 1u << 27, MmaKind::mxf8f6f4, false);
  operation.a = decode_shared_descriptor(put_k_major(bench, a, 4096, 2), "A");
  operation.b = decode_shared_descriptor(put_k_major(bench, b, 65536, 2), "B");
  operation.scales_a = kScalesA;
  operation.scales_b = kScalesB;
  operation.scales_per_slice = 1;
  for (uint32_t row = 0; row < 128; ++row) put_scale(bench, kScalesA, row, 0, 127);
  for (uint32_t row = 0; row < 8; ++row) put_scale(bench, kScalesB, row, 0, 127);
  execute(operation, {bench.block, bench.memory});
  std::vector<float> before;
  for (uint32_t m = 0; m < 128; ++m) before.push_back(std::bit_cast<float>(bench.memory.cell({m, 5})));
  bench.memory.cell({64 + 5, kScalesB}) = 129;  // four times as much, for the third quarter only
  execute(operation, {bench.block, bench.memory});
  for (uint32_t m = 0; m < 128; ++m) {
    const float expected = m / 32 == 2 ? 4 * before[m] : before[m];
    EXPECT_NEAR(std::bit_cast<float>(bench.memory.cell({m, 5})), expected, std::abs(expected) * 1e-4 + 1e-2) << m;
  }
}

TEST(Tcgen05ScaledMmaTest, MultipliesPackedFourBitFloats) {
  for (const bool a_in_tensor_memory : {false, true}) {
    ScaledTrial trial;
    trial.k = 64;
    trial.a = trial.b = ElementFormat::e2m1_packed;
    trial.a_in_tensor_memory = a_in_tensor_memory;
    trial.accumulate = true;
    trial.kind = MmaKind::mxf4;
    trial.scales = 2;
    trial.id_a = 2;
    run(trial);
    trial.kind = MmaKind::mxf4nvf4;
    trial.id_b = 2;
    run(trial);
    trial.ue4m3 = true;
    run(trial);
    trial.id_a = trial.id_b = 0;
    trial.scales = 4;
    run(trial);
    trial.ue4m3 = false;
    run(trial);
  }
}

// How sums are formed is read once in a process, so this has one of its own.
TEST(Tcgen05ScaledMmaDeathTest, AddsInFp32IfAsked) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run_plain = [](const ScaledTrial& trial) {
    setenv("STAGECRAFT_MMA_SUMS", "plain", 1);
    run(trial);
    std::exit(::testing::Test::HasFailure() ? 1 : 0);
  };
  ScaledTrial trial;
  trial.accumulate = true;
  EXPECT_EXIT(run_plain(trial), ::testing::ExitedWithCode(0), "");
  trial.center_a = 249;  // factors that cancel
  trial.center_b = 6;
  EXPECT_EXIT(run_plain(trial), ::testing::ExitedWithCode(0), "");
  trial = ScaledTrial{};
  trial.accumulate = true;
  trial.k = 64;
  trial.a = trial.b = ElementFormat::e2m1_packed;
  trial.kind = MmaKind::mxf4nvf4;
  trial.scales = 4;
  trial.ue4m3 = true;
  EXPECT_EXIT(run_plain(trial), ::testing::ExitedWithCode(0), "");
}

// ---- What is refused -----------------------------------------------------------------------------------------------

struct Tcgen05MmaCheckTest : ::testing::Test {
  TensorBlock bench;
  Tcgen05Mma operation;

  Tcgen05MmaCheckTest() {
    bench.allocate(64);
    use({.n = 64, .a_code = 1, .b_code = 1});
    operation.a = decode_shared_descriptor(shared_descriptor(4096, 16, 1024, 2), "A");
    operation.b = decode_shared_descriptor(shared_descriptor(65536, 16, 1024, 2), "B");
  }
  void use(const Instruction& instruction, MmaKind kind = MmaKind::f16) {
    operation.shape = decode_instruction_descriptor(instruction.bits(), kind, operation.weight_stationary);
  }
  void run() { check(operation, {bench.block, bench.memory}); }
};

TEST_F(Tcgen05MmaCheckTest, AcceptsWhatIsLegal) { run(); }

TEST_F(Tcgen05MmaCheckTest, RefusesAnAccumulatorThatIsNotAllocated) {
  operation.d = 32;
  EXPECT_FAULT(
      run(), "tcgen05.mma, accumulator: 64 columns from address 0x20 (lane 0, column 32): column 64 is not allocated");
  operation.d = 0x4000;
  EXPECT_FAULT(run(), "tensor memory has columns 0 to 511");
}

TEST_F(Tcgen05MmaCheckTest, RefusesAnAccumulatorInTheWrongLane) {
  operation.d = address_of({16, 0});
  EXPECT_FAULT(run(), "is in lane 16\nlegal: lane 0");
  use({.m = 64, .n = 64, .a_code = 1, .b_code = 1});
  run();
  operation.d = address_of({8, 0});
  EXPECT_FAULT(run(), "legal for M = 64: lane 0 or 16");
}

TEST_F(Tcgen05MmaCheckTest, RefusesOperandsOutsideOfSharedMemory) {
  operation.a.start = kSharedBytes - 8192;
  EXPECT_FAULT(run(), "tcgen05.mma, A in shared memory: the operand ends at");
  // Ends exactly where shared memory does: 16 groups of 1024 bytes.
  operation.a.start = kSharedBytes - 16 * 1024;
  ASSERT_EQ(operation.a.start % 1024, 0u);
  run();
  operation.a.start = 16;
  EXPECT_FAULT(run(), "start address 0x10 is in the first KiB, which the system reserves");
  operation.a.start = 4096;
  operation.b.stride = 200'000;
  EXPECT_FAULT(run(), "tcgen05.mma, B in shared memory: the operand ends at");
}

TEST_F(Tcgen05MmaCheckTest, RefusesSwizzlesThatTheTypeDoesNotHave) {
  operation.a = decode_shared_descriptor(shared_descriptor(4096, 1024, 512, 1), "A");
  run();  // K-major is legal
  use({.n = 64, .a_code = 1, .b_code = 1, .a_mn = true});
  EXPECT_FAULT(run(), "swizzle 1 (128 bytes in atoms of 32) of an MN-major matrix that is not tf32");
  use({.n = 64, .a_code = 2, .b_code = 2, .a_mn = true}, MmaKind::tf32);
  run();
  operation.a = decode_shared_descriptor(shared_descriptor(4096, 1024, 512, 2), "A");
  EXPECT_FAULT(run(), "an MN-major tf32 matrix without swizzle 1");
}

TEST_F(Tcgen05MmaCheckTest, RefusesAInTensorMemoryThatCannotBe) {
  operation.a_in_tensor_memory = true;
  operation.a_address = 56;
  run();
  operation.a_address = 60;
  EXPECT_FAULT(run(), "tcgen05.mma, A in tensor memory: 8 columns from address 0x3c");
  operation.a_address = 0;
  use({.n = 64, .a_code = 1, .b_code = 1, .a_mn = true});
  EXPECT_FAULT(run(), "A in tensor memory is always K-major");
  use({.m = 64, .n = 64, .a_code = 1, .b_code = 1});
  operation.a_address = address_of({16, 0});
  EXPECT_FAULT(run(), "A begins in lane 16 and D in lane 0");
  operation.weight_stationary = true;
  use({.m = 64, .n = 64, .a_code = 1, .b_code = 1});
  EXPECT_FAULT(run(), "is in lane 16");
  use({.m = 32, .n = 64, .a_code = 1, .b_code = 1});
  EXPECT_FAULT(run(), "with M 32 and A in tensor memory is not implemented");
}

TEST_F(Tcgen05MmaCheckTest, RefusesScaleFactorsThatCannotBe) {
  const uint32_t bits = 1u << 7 | 1u << 10 | 8u << 17 | 1u << 23 | 1u << 27;
  operation.scales_per_slice = 2;
  operation.shape = decode_instruction_descriptor(bits | 2u << 29, MmaKind::mxf4, false);
  operation.scales_a = 0, operation.scales_b = 32;
  run();
  operation.scales_b = 63;
  EXPECT_FAULT(run(), "tcgen05.mma, scale factors of B: 2 columns from address 0x3f");
  operation.scales_b = address_of({32, 32});
  EXPECT_FAULT(run(), "is in lane 32\nlegal: lane 0");
  operation.scales_b = 32;
  operation.shape = decode_instruction_descriptor(bits | 1u << 29, MmaKind::mxf4, false);
  EXPECT_FAULT(run(), "scale factor id 1 of the instruction descriptor, with 2 scale factors per row\nlegal: 0 or 2");
}

}  // namespace
}  // namespace stagecraft::emulator::machine::testing
