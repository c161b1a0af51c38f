// tcgen05.mma against a reference in double precision.
#include "fixtures/tensor_fixture.hpp"

namespace stagecraft::emulator::machine::testing {
namespace {

struct Formats {
  ElementFormat a, b;
  uint32_t a_code, b_code;
};

// One instruction with its operands.
struct Trial {
  MmaKind kind = MmaKind::f16;
  Formats formats{ElementFormat::bf16, ElementFormat::bf16, 1, 1};
  Instruction instruction;
  uint32_t k = 16;
  uint32_t a_swizzle = 2, b_swizzle = 2;
  uint32_t k_start = 0;
  bool accumulate = false;
  bool weight_stationary = false;
  bool a_in_tensor_memory = false;
  uint32_t d_lane = 0;
  uint32_t scale_d = 0;
  std::array<uint32_t, 8> disabled{};
};

TensorCell cell_of(const Trial& trial, uint32_t m, uint32_t n) {
  const uint32_t width = trial.instruction.n;
  if (trial.instruction.m == 128) return {m, n};
  if (!trial.weight_stationary) return {32 * (m / 16) + trial.d_lane + m % 16, n};
  if (trial.instruction.m == 64) return {m + 64 * (n >= width / 2), n % (width / 2)};
  return {m + 32 * (n / (width / 4)), n % (width / 4)};
}

void run(const Trial& trial, uint32_t seed = 1) {
  std::mt19937 random(seed);
  TensorBlock bench;
  const uint32_t base = bench.allocate(512) + 32;
  const Instruction& instruction = trial.instruction;
  const Matrix a(trial.formats.a, instruction.m, trial.k, random);
  const Matrix b(trial.formats.b, instruction.n, trial.k, random);
  // If the columns of D are in two halves of the lanes, each multiplies its copy of A. This one is for the right half.
  const Matrix other(trial.formats.a, instruction.m, trial.k, random);
  const bool has_halves = trial.a_in_tensor_memory && trial.weight_stationary && instruction.m == 64;

  Tcgen05Mma operation;
  operation.shape = decode_instruction_descriptor(instruction.bits(), trial.kind, trial.weight_stationary);
  ASSERT_EQ(operation.shape.k, trial.k);
  operation.weight_stationary = trial.weight_stationary;
  operation.accumulate = trial.accumulate;
  operation.scale_d = trial.scale_d;
  operation.disabled = trial.disabled;
  operation.d = address_of({trial.d_lane, base});
  if (trial.a_in_tensor_memory) {
    operation.a_in_tensor_memory = true;
    operation.a_address = address_of({trial.d_lane, base + 300});
    const auto put = [&](const Matrix& matrix, uint32_t first_lane) {
      for (uint32_t m = 0; m < instruction.m; ++m) {
        const uint32_t lane = first_lane + cell_of(trial, m, 0).lane;
        for (uint32_t k = 0; k < trial.k; ++k) {
          const uint32_t bit = k * bits_of(a.format);
          const uint32_t code = a.format == ElementFormat::e2m1 ? matrix.code(m, k) << 2 : matrix.code(m, k);
          uint32_t& cell = bench.memory.cell({lane, base + 300 + bit / 32});
          if (bit % 32 == 0) cell = 0;
          cell |= code << bit % 32;
        }
      }
    };
    put(a, 0);
    if (has_halves) put(other, 64);
  } else {
    const uint64_t bits = instruction.a_mn ? put_mn_major(bench, a, 4096, trial.a_swizzle)
                                           : put_k_major(bench, a, 4096, trial.a_swizzle, trial.k_start);
    operation.a = decode_shared_descriptor(bits, "A");
  }
  const uint64_t bits = instruction.b_mn ? put_mn_major(bench, b, 65536, trial.b_swizzle)
                                         : put_k_major(bench, b, 65536, trial.b_swizzle, trial.k_start);
  operation.b = decode_shared_descriptor(bits, "B");

  std::vector<uint32_t> before(size_t{instruction.m} * instruction.n);
  for (uint32_t m = 0; m < instruction.m; ++m) {
    for (uint32_t n = 0; n < instruction.n; ++n) {
      TensorCell cell = cell_of(trial, m, n);
      cell.column += base;
      uint32_t& word = before[m * instruction.n + n];
      if (trial.accumulate) {
        const int value = static_cast<int>(random() % 2001) - 1000;
        word = operation.shape.d == AccumulatorFormat::f32   ? std::bit_cast<uint32_t>(value / 8.0f)
               : operation.shape.d == AccumulatorFormat::f16 ? to_f16(value / 8.0f)
                                                             : static_cast<uint32_t>(value * 2'000'000);
        bench.memory.cell(cell) = word;
      } else {
        word = TensorMemory::kPoison;
      }
    }
  }

  check(operation, {bench.block, bench.memory});
  execute(operation, {bench.block, bench.memory});

  uint32_t wrong = 0;
  for (uint32_t m = 0; m < instruction.m; ++m) {
    for (uint32_t n = 0; n < instruction.n; ++n) {
      TensorCell cell = cell_of(trial, m, n);
      const bool off = trial.disabled[cell.lane / 32] >> cell.lane % 32 & 1;
      cell.column += base;
      const uint32_t found = bench.memory.cell(cell);
      const uint32_t old = before[m * instruction.n + n];
      if (off) {
        if (found != old && ++wrong < 5) ADD_FAILURE() << "disabled lane " << cell.lane << " was written";
        continue;
      }
      double sum = 0, magnitude = 0;
      if (trial.accumulate) sum = std::ldexp(read(operation.shape.d, old), -static_cast<int>(trial.scale_d));
      magnitude = std::abs(sum);
      const Matrix& rows = has_halves && n >= instruction.n / 2 ? other : a;
      for (uint32_t k = 0; k < trial.k; ++k) {
        const double product =
            rows.value(m, k) * b.value(n, k) * (instruction.negate_a ? -1 : 1) * (instruction.negate_b ? -1 : 1);
        sum += product;
        magnitude += std::abs(product);
      }
      double tolerance = magnitude * std::ldexp(trial.k + 1, -24);
      if (operation.shape.d == AccumulatorFormat::f16) tolerance += std::abs(sum) * 0x1p-11 + 0x1p-25;
      if (operation.shape.d == AccumulatorFormat::s32) {
        tolerance = 0;
        sum = instruction.saturate ? std::clamp(sum, -0x1p31, 0x1p31 - 1)
                                   : static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(sum)));
      }
      const double result = read(operation.shape.d, found);
      if (!(std::abs(result - sum) <= tolerance) && ++wrong < 5) {
        ADD_FAILURE() << "element (" << m << ", " << n << ") is " << result << ", not " << sum;
      }
    }
  }
  EXPECT_EQ(wrong, 0u);

  // Nothing except D was written.
  std::vector<bool> of_d(kTensorLanes * kTensorColumns);
  for (uint32_t m = 0; m < instruction.m; ++m) {
    for (uint32_t n = 0; n < instruction.n; ++n) {
      const TensorCell cell = cell_of(trial, m, n);
      of_d[(cell.column + base) * kTensorLanes + cell.lane] = true;
    }
  }
  for (uint32_t column = 0; column < kTensorColumns; ++column) {
    if (trial.a_in_tensor_memory && column >= base + 300 && column < base + 308) continue;
    for (uint32_t lane = 0; lane < kTensorLanes; ++lane) {
      if (of_d[column * kTensorLanes + lane]) continue;
      ASSERT_EQ(bench.memory.cell({lane, column}), TensorMemory::kPoison) << "lane " << lane << " column " << column;
    }
  }
}

const Formats kF16{ElementFormat::f16, ElementFormat::f16, 0, 0};
const Formats kBf16{ElementFormat::bf16, ElementFormat::bf16, 1, 1};

TEST(Tcgen05MmaTest, MultipliesEveryShapeOfKindF16) {
  for (const uint32_t m : {64u, 128u}) {
    for (uint32_t n = 8; n <= 256; n += 8) {
      SCOPED_TRACE(::testing::Message() << "M " << m << " N " << n);
      Trial trial;
      trial.instruction = {.m = m, .n = n, .a_code = 1, .b_code = 1};
      trial.accumulate = n % 16 == 0;
      run(trial, n);
    }
  }
}

TEST(Tcgen05MmaTest, ReadsEverySwizzleInBothMajors) {
  for (const Formats& formats : {kF16, kBf16}) {
    for (const bool a_mn : {false, true}) {
      for (const bool b_mn : {false, true}) {
        for (const uint32_t a_swizzle : {0u, 6u, 4u, 2u}) {
          for (const uint32_t b_swizzle : {0u, 6u, 4u, 2u, 1u}) {
            if (b_swizzle == 1 && b_mn) continue;
            for (const uint32_t m : {64u, 128u}) {
              SCOPED_TRACE(::testing::Message() << "A " << a_mn << " swizzle " << a_swizzle << ", B " << b_mn
                                                << " swizzle " << b_swizzle << ", M " << m);
              Trial trial;
              trial.formats = formats;
              trial.instruction = {
                  .m = m, .n = 72, .a_code = formats.a_code, .b_code = formats.b_code, .a_mn = a_mn, .b_mn = b_mn};
              trial.a_swizzle = a_swizzle;
              trial.b_swizzle = b_swizzle;
              trial.accumulate = true;
              run(trial);
            }
          }
        }
      }
    }
  }
}

TEST(Tcgen05MmaTest, StepsAlongKInsideASwizzleAtom) {
  for (const uint32_t k_start : {32u, 64u, 96u}) {
    Trial trial;
    trial.instruction = {.n = 128, .a_code = 1, .b_code = 1};
    trial.k_start = k_start;
    run(trial);
  }
}

TEST(Tcgen05MmaTest, LeavesDisabledLanesAlone) {
  for (const uint32_t m : {64u, 128u}) {
    for (const bool accumulate : {false, true}) {
      Trial trial;
      trial.instruction = {.m = m, .n = 40, .a_code = 1, .b_code = 1};
      trial.disabled = {0x80000001, 0xffffffff, 0, 0x00ff00f0};
      trial.accumulate = accumulate;
      run(trial);
    }
  }
}

TEST(Tcgen05MmaTest, NegatesOperandsAndScalesTheAccumulator) {
  for (const uint32_t scale : {0u, 1u, 15u}) {
    for (const bool negate_a : {false, true}) {
      for (const bool negate_b : {false, true}) {
        Trial trial;
        trial.instruction = {.n = 24, .a_code = 1, .b_code = 1, .negate_a = negate_a, .negate_b = negate_b};
        trial.accumulate = true;
        trial.scale_d = scale;
        run(trial);
      }
    }
  }
}

TEST(Tcgen05MmaTest, RoundsAnF16Accumulator) {
  for (const uint32_t m : {64u, 128u}) {
    for (const bool accumulate : {false, true}) {
      Trial trial;
      trial.formats = kF16;
      trial.instruction = {.m = m, .n = 48, .d_code = 0};
      trial.accumulate = accumulate;
      run(trial);
    }
  }
}

TEST(Tcgen05MmaTest, PutsSixtyFourRowsInEitherHalfOfEachQuarter) {
  Trial trial;
  trial.instruction = {.m = 64, .n = 32, .a_code = 1, .b_code = 1};
  trial.d_lane = 16;
  run(trial);
}

TEST(Tcgen05MmaTest, MultipliesTf32) {
  const Formats tf32{ElementFormat::tf32, ElementFormat::tf32, 2, 2};
  for (const bool a_mn : {false, true}) {
    for (const bool b_mn : {false, true}) {
      for (const uint32_t swizzle : {0u, 6u, 4u, 2u}) {
        for (const uint32_t n : {8u, 200u, 256u}) {
          Trial trial;
          trial.kind = MmaKind::tf32;
          trial.k = 8;
          trial.formats = tf32;
          trial.instruction = {.n = n, .a_code = 2, .b_code = 2, .a_mn = a_mn, .b_mn = b_mn};
          trial.a_swizzle = a_mn ? 1 : swizzle;
          trial.b_swizzle = b_mn ? 1 : swizzle;
          trial.accumulate = true;
          run(trial);
        }
      }
    }
  }
}

TEST(Tcgen05MmaTest, MultipliesEveryMixOfNarrowFloats) {
  const std::vector<std::pair<ElementFormat, uint32_t>> formats{{ElementFormat::e4m3, 0},
                                                                {ElementFormat::e5m2, 1},
                                                                {ElementFormat::e2m3, 3},
                                                                {ElementFormat::e3m2, 4},
                                                                {ElementFormat::e2m1, 5}};
  for (const auto& [a, a_code] : formats) {
    for (const auto& [b, b_code] : formats) {
      for (const bool a_in_tensor_memory : {false, true}) {
        SCOPED_TRACE(::testing::Message() << "A " << a_code << " B " << b_code << " tensor " << a_in_tensor_memory);
        Trial trial;
        trial.kind = MmaKind::f8f6f4;
        trial.k = 32;
        trial.formats = {a, b, a_code, b_code};
        trial.instruction = {.m = a_code == 3 ? 64u : 128u, .n = 56, .a_code = a_code, .b_code = b_code};
        trial.a_in_tensor_memory = a_in_tensor_memory;
        trial.accumulate = true;
        run(trial);
        trial.instruction.d_code = 0;
        if (a_code >= 3) run(trial);  // the wider formats overflow f16
      }
    }
  }
}

TEST(Tcgen05MmaTest, ReadsMnMajorBytes) {
  for (const uint32_t swizzle : {0u, 6u, 4u, 2u}) {
    Trial trial;
    trial.kind = MmaKind::f8f6f4;
    trial.k = 32;
    trial.formats = {ElementFormat::e4m3, ElementFormat::e5m2, 0, 1};
    trial.instruction = {.n = 80, .a_code = 0, .b_code = 1, .a_mn = true, .b_mn = true};
    trial.a_swizzle = trial.b_swizzle = swizzle;
    run(trial);
  }
}

TEST(Tcgen05MmaTest, MultipliesIntegersExactly) {
  for (const uint32_t a_code : {0u, 1u}) {
    for (const uint32_t b_code : {0u, 1u}) {
      for (const bool saturate : {false, true}) {
        for (const uint32_t n : {8u, 16u, 24u, 32u, 48u, 240u, 256u}) {
          Trial trial;
          trial.kind = MmaKind::i8;
          trial.k = 32;
          trial.formats = {a_code ? ElementFormat::s8 : ElementFormat::u8,
                           b_code ? ElementFormat::s8 : ElementFormat::u8, a_code, b_code};
          trial.instruction = {.n = n, .d_code = 2, .a_code = a_code, .b_code = b_code, .saturate = saturate};
          trial.accumulate = true;
          run(trial);
        }
      }
    }
  }
}

TEST(Tcgen05MmaTest, ReadsAFromTensorMemory) {
  for (const uint32_t m : {64u, 128u}) {
    for (const uint32_t lane : {0u, 16u}) {
      if (m == 128 && lane != 0) continue;
      Trial trial;
      trial.instruction = {.m = m, .n = 128, .a_code = 1, .b_code = 1};
      trial.a_in_tensor_memory = true;
      trial.d_lane = lane;
      run(trial);
    }
  }
}

TEST(Tcgen05MmaTest, ReadsTheRowsOfTheWeightStationaryFormFromItsHalvesOfTensorMemory) {
  for (const uint32_t m : {64u, 128u}) {
    for (const uint32_t n : {64u, 128u, 256u}) {
      Trial trial;
      trial.weight_stationary = trial.a_in_tensor_memory = true;
      trial.instruction = {.m = m, .n = n, .a_code = 1, .b_code = 1};
      run(trial);
    }
  }
}

TEST(Tcgen05MmaTest, SpreadsTheColumnsOfTheWeightStationaryForm) {
  for (const uint32_t m : {32u, 64u, 128u}) {
    for (const uint32_t n : {64u, 128u, 256u}) {
      Trial trial;
      trial.weight_stationary = true;
      trial.instruction = {.m = m, .n = n, .a_code = 1, .b_code = 1};
      trial.accumulate = n == 128;
      run(trial);
    }
  }
}

}  // namespace
}  // namespace stagecraft::emulator::machine::testing
