// tcgen05.mma and cp of a pair of blocks (cta_group::2) against references in double precision: which block supplies
// what, and where the results are.
#include "emulator/engines/tensor_core/tcgen05/tcgen05_copy.hpp"
#include "fixtures/tensor_fixture.hpp"

namespace stagecraft::emulator::machine::testing {
namespace {

/// Two blocks, each with memories of its own.
struct Pair {
  std::array<TensorBlock, 2> benches;

  Pair() {
    benches[1].block.rank = 1;
    benches[1].block.index = {1, 0, 0};
  }
  TensorUnits units() { return {unit(0), unit(1)}; }
  TensorUnit unit(uint32_t number) { return {&benches[number].block, &benches[number].memory}; }
  uint32_t& cell(uint32_t block, TensorCell at) { return benches[block].memory.cell(at); }
};

struct Place {
  uint32_t block;
  TensorCell cell;
};

/// Rows of one block of a larger matrix.
Matrix part_of(const Matrix& whole, uint32_t first, uint32_t rows) {
  Matrix part = whole;
  part.rows = rows;
  part.codes.assign(whole.codes.begin() + first * whole.k, whole.codes.begin() + (first + rows) * whole.k);
  return part;
}

struct PairTrial {
  MmaKind kind = MmaKind::f16;
  ElementFormat a = ElementFormat::bf16, b = ElementFormat::bf16;
  Instruction instruction{.m = 256, .n = 64, .a_code = 1, .b_code = 1};
  uint32_t k = 16;
  uint32_t a_swizzle = 2, b_swizzle = 2;
  bool accumulate = false, a_in_tensor_memory = false;
  std::array<uint32_t, 8> disabled{};
};

constexpr uint32_t kD = 32, kPairA = 320;

/// Returns where the PTX ISA's layouts A (M = 256) and B (M = 128) have an element of D.
Place place_of(uint32_t m, uint32_t n, uint32_t rows, uint32_t columns) {
  if (rows == 256) return {m / 128, {m % 128, kD + n}};
  const bool right = n >= columns / 2;
  return {m / 64, {m % 64 + (right ? 64 : 0), kD + (right ? n - columns / 2 : n)}};
}

/// Puts A into tensor memory; a block has two copies of 64 rows.
void put_in_tensor_memory(Pair& pair, const Matrix& a) {
  const uint32_t rows = a.rows / 2;
  for (uint32_t m = 0; m < a.rows; ++m) {
    for (uint32_t lane = m % rows; lane < 128; lane += rows) {
      for (uint32_t k = 0; k < a.k; ++k) {
        const uint32_t bit = k * bits_of(a.format);
        uint32_t& cell = pair.cell(m / rows, {lane, kPairA + bit / 32});
        if (bit % 32 == 0) cell = 0;
        cell |= a.code(m, k) << bit % 32;
      }
    }
  }
}

void expect_nothing_else_written(Pair& pair, uint32_t rows, uint32_t columns, uint32_t first_input) {
  std::array<std::vector<bool>, 2> of_d{std::vector<bool>(kTensorLanes * kTensorColumns),
                                        std::vector<bool>(kTensorLanes * kTensorColumns)};
  for (uint32_t m = 0; m < rows; ++m) {
    for (uint32_t n = 0; n < columns; ++n) {
      const auto [block, cell] = place_of(m, n, rows, columns);
      of_d[block][cell.column * kTensorLanes + cell.lane] = true;
    }
  }
  for (uint32_t block = 0; block < 2; ++block) {
    for (uint32_t column = 0; column < first_input; ++column) {
      for (uint32_t lane = 0; lane < kTensorLanes; ++lane) {
        if (of_d[block][column * kTensorLanes + lane]) continue;
        ASSERT_EQ(pair.cell(block, {lane, column}), TensorMemory::kPoison)
            << "block " << block << " lane " << lane << " column " << column;
      }
    }
  }
}

void run(const PairTrial& trial) {
  const Instruction& instruction = trial.instruction;
  std::mt19937 random(instruction.m + instruction.n);
  Pair pair;
  for (TensorBlock& bench : pair.benches) bench.allocate(512);
  const Matrix a(trial.a, instruction.m, trial.k, random), b(trial.b, instruction.n, trial.k, random);

  Tcgen05Mma operation;
  operation.shape = decode_instruction_descriptor(instruction.bits(), trial.kind, false, true);
  ASSERT_EQ(operation.shape.k, trial.k);
  operation.accumulate = trial.accumulate;
  operation.disabled = trial.disabled;
  operation.d = kD;
  for (uint32_t i = 0; i < 2; ++i) {
    const Matrix part_a = part_of(a, i * a.rows / 2, a.rows / 2), part_b = part_of(b, i * b.rows / 2, b.rows / 2);
    TensorBlock& bench = pair.benches[i];
    if (!trial.a_in_tensor_memory) {
      const uint64_t bits = instruction.a_mn ? put_mn_major(bench, part_a, 4096, trial.a_swizzle)
                                             : put_k_major(bench, part_a, 4096, trial.a_swizzle);
      operation.a = decode_shared_descriptor(bits, "A");
    }
    const uint64_t bits = instruction.b_mn ? put_mn_major(bench, part_b, 65536, trial.b_swizzle)
                                           : put_k_major(bench, part_b, 65536, trial.b_swizzle);
    operation.b = decode_shared_descriptor(bits, "B");
  }
  if (trial.a_in_tensor_memory) {
    operation.a_in_tensor_memory = true;
    operation.a_address = kPairA;
    put_in_tensor_memory(pair, a);
  }
  std::vector<uint32_t> before(size_t{instruction.m} * instruction.n, TensorMemory::kPoison);
  for (uint32_t m = 0; trial.accumulate && m < instruction.m; ++m) {
    for (uint32_t n = 0; n < instruction.n; ++n) {
      const int value = static_cast<int>(random() % 2001) - 1000;
      const uint32_t word = operation.shape.d == AccumulatorFormat::f32   ? std::bit_cast<uint32_t>(value / 8.0f)
                            : operation.shape.d == AccumulatorFormat::f16 ? to_f16(value / 8.0f)
                                                                          : static_cast<uint32_t>(value);
      const auto [block, cell] = place_of(m, n, instruction.m, instruction.n);
      pair.cell(block, cell) = before[m * instruction.n + n] = word;
    }
  }

  check(operation, pair.units());
  execute(operation, pair.units());

  uint32_t wrong = 0;
  for (uint32_t m = 0; m < instruction.m; ++m) {
    for (uint32_t n = 0; n < instruction.n; ++n) {
      const auto [block, cell] = place_of(m, n, instruction.m, instruction.n);
      const uint32_t found = pair.cell(block, cell), old = before[m * instruction.n + n];
      if (trial.disabled[4 * block + cell.lane / 32] >> cell.lane % 32 & 1) {
        if (found != old && ++wrong < 5) ADD_FAILURE() << "block " << block << " wrote disabled lane " << cell.lane;
        continue;
      }
      double sum = trial.accumulate ? read(operation.shape.d, old) : 0, magnitude = std::abs(sum);
      for (uint32_t k = 0; k < trial.k; ++k) {
        const double product =
            a.value(m, k) * b.value(n, k) * (instruction.negate_a ? -1 : 1) * (instruction.negate_b ? -1 : 1);
        sum += product;
        magnitude += std::abs(product);
      }
      double tolerance = magnitude * std::ldexp(trial.k + 1, -24);
      if (operation.shape.d == AccumulatorFormat::f16) tolerance += std::abs(sum) * 0x1p-11 + 0x1p-25;
      if (operation.shape.d == AccumulatorFormat::s32) tolerance = 0;
      const double result = read(operation.shape.d, found);
      if (!(std::abs(result - sum) <= tolerance) && ++wrong < 5) {
        ADD_FAILURE() << "element (" << m << ", " << n << ") is " << result << ", not " << sum;
      }
    }
  }
  EXPECT_EQ(wrong, 0u);
  expect_nothing_else_written(pair, instruction.m, instruction.n, kPairA);
}

TEST(Tcgen05PairTest, MultipliesEveryShapeOfKindF16) {
  for (const uint32_t m : {128u, 256u}) {
    for (uint32_t n = 16; n <= 256; n += 16) {
      SCOPED_TRACE(::testing::Message() << "M " << m << " N " << n);
      PairTrial trial;
      trial.instruction.m = m, trial.instruction.n = n;
      trial.accumulate = n % 32 == 0;
      run(trial);
    }
  }
}

TEST(Tcgen05PairTest, MultipliesTheOtherKinds) {
  for (const uint32_t m : {128u, 256u}) {
    for (const bool a_in_tensor_memory : {false, true}) {
      SCOPED_TRACE(::testing::Message() << "M " << m << " A in tensor memory " << a_in_tensor_memory);
      PairTrial trial;
      trial.accumulate = true;
      trial.a_in_tensor_memory = a_in_tensor_memory;
      trial.instruction = {.m = m, .n = 96, .a_code = 1, .b_code = 1, .negate_b = true};
      run(trial);
      trial.a = trial.b = ElementFormat::f16;
      trial.instruction = {.m = m, .n = 96, .d_code = 0, .a_code = 0, .b_code = 0};
      run(trial);
      trial.kind = MmaKind::tf32, trial.k = 8;
      trial.a = trial.b = ElementFormat::tf32;
      trial.instruction = {.m = m, .n = 48, .a_code = 2, .b_code = 2};
      run(trial);
      trial.kind = MmaKind::f8f6f4, trial.k = 32;
      trial.a = ElementFormat::e4m3, trial.b = ElementFormat::e2m1;
      trial.instruction = {.m = m, .n = 80, .a_code = 0, .b_code = 5, .negate_a = true};
      run(trial);
      trial.kind = MmaKind::i8;
      trial.a = ElementFormat::u8, trial.b = ElementFormat::s8;
      trial.instruction = {.m = m, .n = 160, .d_code = 2, .a_code = 0, .b_code = 1};
      run(trial);
    }
  }
}

TEST(Tcgen05PairTest, ReadsBothMajors) {
  for (const uint32_t m : {128u, 256u}) {
    for (const uint32_t swizzle : {0u, 6u, 4u, 2u}) {
      PairTrial trial;
      trial.instruction = {.m = m, .n = 112, .a_code = 1, .b_code = 1, .a_mn = true, .b_mn = true};
      trial.a_swizzle = trial.b_swizzle = swizzle;
      run(trial);
      trial.kind = MmaKind::f8f6f4, trial.k = 32;
      trial.a = ElementFormat::e4m3, trial.b = ElementFormat::e5m2;
      trial.instruction = {.m = m, .n = 96, .a_code = 0, .b_code = 1, .a_mn = true, .b_mn = true};
      run(trial);
    }
  }
}

TEST(Tcgen05PairTest, LeavesDisabledLanesOfEitherBlockAlone) {
  for (const uint32_t m : {128u, 256u}) {
    PairTrial trial;
    trial.instruction.m = m;
    trial.accumulate = true;
    trial.disabled = {0x80000001, 0, 0xffff, 0, 0, 0x00ff00f0, 0, 0xffffffff};
    run(trial);
  }
}

TEST(Tcgen05PairTest, ReadsTheCopyOfAInTheLanesOfItsColumns) {
  Pair pair;
  for (TensorBlock& bench : pair.benches) bench.allocate(512);
  std::mt19937 random(5);
  const Matrix a(ElementFormat::bf16, 128, 16, random), b(ElementFormat::bf16, 32, 16, random);
  put_in_tensor_memory(pair, a);
  Tcgen05Mma operation;
  operation.shape = decode_instruction_descriptor(Instruction{.m = 128, .n = 32, .a_code = 1, .b_code = 1}.bits(),
                                                  MmaKind::f16, false, true);
  operation.a_in_tensor_memory = true;
  operation.a_address = kPairA;
  operation.d = kD;
  for (uint32_t i = 0; i < 2; ++i) {
    operation.b = decode_shared_descriptor(put_k_major(pair.benches[i], part_of(b, 16 * i, 16), 65536, 2), "B");
  }
  // The odd block's copy of row 70 for the right half of the columns becomes zero: only that part of D must change.
  for (uint32_t column = 0; column < 8; ++column) pair.cell(1, {64 + 6, kPairA + column}) = 0;
  execute(operation, pair.units());
  EXPECT_EQ(pair.cell(1, {64 + 6, kD + 3}), 0u);
  EXPECT_NE(pair.cell(1, {6, kD + 3}), 0u);
  EXPECT_NE(pair.cell(0, {64 + 6, kD + 3}), 0u);
}

// ---- Block-scaled kinds --------------------------------------------------------------------------------------------

struct ScaledPairTrial {
  MmaKind kind = MmaKind::mxf8f6f4;
  uint32_t m = 256, n = 80;
  uint32_t scales = 1;
  bool ue4m3 = false;
};

constexpr uint32_t kPairScalesA = 300, kPairScalesB = 304;

void run(const ScaledPairTrial& trial) {
  std::mt19937 random(trial.n);
  Pair pair;
  for (TensorBlock& bench : pair.benches) bench.allocate(512);
  const bool bytes = trial.kind == MmaKind::mxf8f6f4;
  const uint32_t k = bytes ? 32 : 64, block_size = k / trial.scales;
  const ElementFormat format = bytes ? ElementFormat::e4m3 : ElementFormat::e2m1_packed;
  const Matrix a(format, trial.m, k, random), b(format, trial.n, k, random);
  const uint32_t code = bytes ? 0 : 1;
  Tcgen05Mma operation;
  operation.shape = decode_instruction_descriptor(
      code << 7 | code << 10 | trial.n / 8 << 17 | uint32_t{!trial.ue4m3} << 23 | trial.m / 128 << 27, trial.kind,
      false, true);
  operation.scales_a = kPairScalesA, operation.scales_b = kPairScalesB;
  operation.scales_per_slice = trial.scales;
  operation.d = kD;
  for (uint32_t i = 0; i < 2; ++i) {
    TensorBlock& bench = pair.benches[i];
    operation.a = decode_shared_descriptor(put_k_major(bench, part_of(a, i * trial.m / 2, trial.m / 2), 4096, 2), "A");
    operation.b = decode_shared_descriptor(put_k_major(bench, part_of(b, i * trial.n / 2, trial.n / 2), 65536, 2), "B");
  }
  const auto put = [&](uint32_t block, TensorCell cell, uint32_t byte, uint32_t value) {
    uint32_t& word = pair.cell(block, cell);
    word = (word & ~(0xffu << 8 * byte)) | value << 8 * byte;
  };
  const auto random_scale = [&] { return trial.ue4m3 ? 0x20 + random() % 0x30 : 122 + uint32_t(random() % 11); };
  const auto value = [&](uint32_t scale) {
    return trial.ue4m3 ? worth(scale, 4, 3, 7) : std::ldexp(1.0, static_cast<int>(scale) - 127);
  };
  std::vector<uint32_t> scales_a(trial.m * trial.scales), scales_b(trial.n * trial.scales);
  // Each block has the factors of its own rows of A, and of all columns of B; each quarter of the lanes has those of
  // its rows and columns.
  for (uint32_t i = 0; i < scales_a.size(); ++i) {
    scales_a[i] = random_scale();
    const uint32_t m = i / trial.scales, row = m % (trial.m / 2);
    for (uint32_t quarter = 0; quarter < 4; ++quarter) {
      put(m / (trial.m / 2), {row % 32 + 32 * quarter, kPairScalesA + row / 32}, i % trial.scales, scales_a[i]);
    }
  }
  for (uint32_t i = 0; i < scales_b.size(); ++i) {
    scales_b[i] = random_scale();
    const uint32_t n = i / trial.scales;
    for (uint32_t block = 0; block < 2; ++block) {
      for (uint32_t quarter = 0; quarter < 4; ++quarter) {
        if (trial.m == 256) put(block, {n % 32 + 32 * quarter, kPairScalesB + n / 32}, i % trial.scales, scales_b[i]);
        if (trial.m == 256 || (quarter >= 2) != (n >= trial.n / 2)) continue;
        const uint32_t in_half = n % (trial.n / 2);
        put(block, {in_half % 32 + 32 * quarter, kPairScalesB + in_half / 32}, i % trial.scales, scales_b[i]);
      }
    }
  }

  check(operation, pair.units());
  execute(operation, pair.units());

  uint32_t wrong = 0;
  for (uint32_t m = 0; m < trial.m; ++m) {
    for (uint32_t n = 0; n < trial.n; ++n) {
      double sum = 0, magnitude = 0;
      for (uint32_t i = 0; i < k; ++i) {
        const double product = a.value(m, i) * value(scales_a[m * trial.scales + i / block_size]) * b.value(n, i) *
                               value(scales_b[n * trial.scales + i / block_size]);
        sum += product;
        magnitude += std::abs(product);
      }
      const auto [block, cell] = place_of(m, n, trial.m, trial.n);
      const double found = std::bit_cast<float>(pair.cell(block, cell));
      if (!(std::abs(found - sum) <= magnitude * std::ldexp(k + 1, -24)) && ++wrong < 5) {
        ADD_FAILURE() << "element (" << m << ", " << n << ") is " << found << ", not " << sum;
      }
    }
  }
  EXPECT_EQ(wrong, 0u);
  expect_nothing_else_written(pair, trial.m, trial.n, kPairScalesA);
}

TEST(Tcgen05PairTest, ScalesByTheFactorsThatEachBlockHas) {
  for (const uint32_t m : {128u, 256u}) {
    for (const uint32_t n : {16u, 80u, 192u, 256u}) {
      SCOPED_TRACE(::testing::Message() << "M " << m << " N " << n);
      run(ScaledPairTrial{.m = m, .n = n});
      run(ScaledPairTrial{.kind = MmaKind::mxf4, .m = m, .n = n, .scales = 2});
      run(ScaledPairTrial{.kind = MmaKind::mxf4nvf4, .m = m, .n = n, .scales = 4, .ue4m3 = true});
    }
  }
}

// ---- Copies --------------------------------------------------------------------------------------------------------

TEST(Tcgen05PairTest, CopiesWithinEachBlock) {
  Pair pair;
  for (uint32_t i = 0; i < 2; ++i) {
    pair.benches[i].allocate(64);
    for (uint32_t byte = 0; byte < 512; ++byte) {
      pair.benches[i].shared(4096 + byte) = static_cast<uint8_t>(byte / 4 + 128 * i);
    }
  }
  Tcgen05Copy operation{CopyShape::c32x128b, {}, 8, {}};
  operation.source = decode_shared_descriptor(shared_descriptor(4096, 0, 128, 0), "source");
  check(operation, pair.units());
  execute(operation, pair.units());
  for (uint32_t block = 0; block < 2; ++block) {
    for (uint32_t lane = 0; lane < 128; ++lane) {
      for (uint32_t column = 0; column < 4; ++column) {
        const uint32_t byte = lane % 32 * 4 + column + 128 * block;
        EXPECT_EQ(pair.cell(block, {lane, 8 + column}), byte * 0x01010101u) << block << " " << lane << " " << column;
      }
    }
  }
}

// ---- What is refused -----------------------------------------------------------------------------------------------

TEST(Tcgen05PairTest, KnowsTheShapesOfPairs) {
  const auto is_legal = [](MmaKind kind, const Instruction& instruction) {
    return fault_text([&] { decode_instruction_descriptor(instruction.bits(), kind, false, true); }).empty();
  };
  for (uint32_t m = 0; m <= 496; m += 16) {
    for (uint32_t n = 0; n <= 504; n += 8) {
      const bool m_good = m == 128 || m == 256;
      const bool n_good = n >= 16 && n <= 256 && n % 16 == 0;
      EXPECT_EQ(is_legal(MmaKind::f16, {.m = m, .n = n}), m_good && n_good) << m << " " << n;
      EXPECT_EQ(is_legal(MmaKind::f8f6f4, {.m = m, .n = n, .b_mn = true}), m_good && n_good && n % 32 == 0)
          << m << " " << n;
      EXPECT_EQ(is_legal(MmaKind::i8, {.m = m, .n = n, .d_code = 2}), m_good && n_good && n % 32 == 0) << m << " " << n;
    }
  }
  EXPECT_FAULT(decode_instruction_descriptor(Instruction{.m = 64}.bits(), MmaKind::f16, false, true),
               "is 64 for kind::f16 with cta_group::2\nlegal: M 128 or 256");
  EXPECT_FAULT(decode_instruction_descriptor(Instruction{.n = 24}.bits(), MmaKind::f16, false, true),
               "legal: N from 16 to 256 in steps of 16");
}

TEST(Tcgen05PairTest, SaysInWhichBlockAnOperandIsWrong) {
  Pair pair;
  pair.benches[0].allocate(256);
  pair.benches[1].allocate(32);
  Tcgen05Mma operation;
  operation.shape = decode_instruction_descriptor(Instruction{.m = 256, .n = 64, .a_code = 1, .b_code = 1}.bits(),
                                                  MmaKind::f16, false, true);
  operation.a = decode_shared_descriptor(shared_descriptor(4096, 16, 1024, 2), "A");
  operation.b = decode_shared_descriptor(shared_descriptor(65536, 16, 1024, 2), "B");
  EXPECT_FAULT(check(operation, pair.units()), "column 32 is not allocated");
  EXPECT_FAULT(check(operation, pair.units()), "that is of block (1,0,0), the odd one of its pair");
}

TEST(Tcgen05PairTest, AllocatesTheSameColumnsInBoth) {
  Pair pair;
  machine::Block other;
  ASSERT_EQ(pair.benches[0].memory.allocate(other, 64)->column, 0u);
  EXPECT_EQ(pair.units().allocate(128)->column, 64u);
  EXPECT_TRUE(pair.benches[1].memory.owns(pair.benches[1].block, 64, 128));
  EXPECT_FALSE(pair.units().allocate(128).value_or(TensorMemory::Allocation{}).columns == 0);
  EXPECT_FALSE(pair.units().allocate(128)->columns == 0);
  EXPECT_FALSE(pair.units().allocate(128).has_value());  // 64 columns are free in the even block's, 128 in the odd's
  EXPECT_FAULT(pair.units().allocate(256), "that is of block (0,0,0), the even one of its pair");
}

}  // namespace
}  // namespace stagecraft::emulator::machine::testing
