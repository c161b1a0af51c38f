// tcgen05.mma.sp: random metadata and elements, against the sums that the dense kinds form of the elements that A has;
// and what is refused. The reference has places of its own for metadata, and never spreads A along K.
#include <algorithm>
#include <array>
#include <vector>

#include "emulator/engines/tensor_core/fused_sum.hpp"
#include "emulator/engines/tensor_core/scaled_sum.hpp"
#include "fixtures/tensor_fixture.hpp"

namespace stagecraft::emulator::machine::testing {
namespace {

constexpr uint32_t kMetadata = 300, kScalesA = 310, kScalesB = 318, kTensorA = 340, kLanes = 128;
constexpr std::array<uint32_t, 7> kLegalCodes{0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110, 0b0110};

struct SparseTrial {
  MmaKind kind = MmaKind::f16;
  ElementFormat a = ElementFormat::bf16, b = ElementFormat::bf16;
  Instruction instruction{.m = 128, .n = 64, .a_code = 1, .b_code = 1};
  uint32_t selector = 0;
  bool pair = false, weight_stationary = false, a_in_tensor_memory = false, accumulate = false;
  uint32_t first_lane = 0;  ///< of D, A and metadata
  uint32_t a_swizzle = 2, b_swizzle = 2;
  uint32_t scales = 0;  ///< per row and instruction, of a block-scaled kind
  bool ue4m3 = false;
};

/// What a kind has along K: elements of an instruction, and of a chunk of metadata.
struct Depth {
  uint32_t k, chunk, together;
};
Depth depth_of(MmaKind kind) {
  switch (kind) {
    case MmaKind::f16: return {32, 4, 1};
    case MmaKind::tf32: return {16, 2, 1};
    case MmaKind::mxf4:
    case MmaKind::mxf4nvf4: return {128, 8, 2};
    default: return {64, 4, 1};
  }
}

/// The element (m, n) of D: its block, and its lane and column there, as the PTX ISA's layouts say.
struct Place {
  uint32_t block, lane, column;
};
Place place_of(const SparseTrial& trial, uint32_t m, uint32_t n) {
  const auto [rows, columns] = std::pair{trial.instruction.m, trial.instruction.n};
  const auto in_quarters = [&](uint32_t row) { return trial.first_lane + row % 16 + row / 16 * 32; };
  if (trial.pair && rows == 256) return {m / 128, m % 128, n};
  if (trial.pair) return {m / 64, in_quarters(m % 64), n};
  if (rows == 128) return {0, m, n};
  if (!trial.weight_stationary) return {0, in_quarters(m), n};
  const uint32_t copies = 128 / rows;
  return {0, m + n * copies / columns * rows, n % (columns / copies)};
}

class SparseBench {
 public:
  explicit SparseBench(const SparseTrial& trial)
      : trial_(trial),
        depth_(depth_of(trial.kind)),
        random_(trial.instruction.m + trial.instruction.n + trial.selector),
        a_(trial.a, trial.instruction.m, depth_.k / 2, random_),
        b_(trial.b, trial.instruction.n, depth_.k, random_) {
    for (TensorBlock& bench : benches_) bench.allocate(512);
    benches_[1].block.rank = 1;
    for (auto& block : codes_) {
      block.resize(kLanes * 16);
      for (uint32_t& code : block) {
        code = trial.kind == MmaKind::tf32 ? (random_() % 2 ? 0b0100 : 0b1110) : kLegalCodes[random_() % 7];
      }
    }
    prepare();
  }

  TensorUnits units() {
    if (!trial_.pair) return {benches_[0].block, benches_[0].memory};
    return {TensorUnit{&benches_[0].block, &benches_[0].memory}, TensorUnit{&benches_[1].block, &benches_[1].memory}};
  }
  uint32_t& cell(const Place& place) { return benches_[place.block].memory.cell({place.lane, place.column}); }
  TensorBlock& bench(uint32_t number) { return benches_[number]; }
  Tcgen05Mma& operation() { return operation_; }
  Matrix& a() { return a_; }
  Matrix& b() { return b_; }

  /// Puts a row's four bits where CUTLASS's tmem_e_frg has them.
  void put_code(uint32_t block, uint32_t lane, uint32_t chunk, uint32_t code) {
    TensorCell at{lane, kMetadata + chunk / 8};
    uint32_t shift = chunk % 8 * 4;
    if (trial_.kind == MmaKind::f16 || trial_.kind == MmaKind::tf32) {
      const uint32_t low = lane % 8, middle = lane / 8 % 2, high = lane / 16;
      at = {low + 16 * high + (chunk >= 4 ? 8 : 0), kMetadata + trial_.selector};
      shift = (middle * 4 + chunk % 4) * 4;
    }
    uint32_t& cell = benches_[block].memory.cell(at);
    cell = (cell & ~(15u << shift)) | code << shift;
  }
  void put_b() {
    const uint32_t blocks = trial_.pair ? 2 : 1;
    for (uint32_t i = 0; i < blocks; ++i) {
      const Matrix part = part_of(b_, i, blocks);
      operation_.b =
          decode_shared_descriptor(trial_.instruction.b_mn ? put_mn_major(benches_[i], part, 65536, trial_.b_swizzle)
                                                           : put_k_major(benches_[i], part, 65536, trial_.b_swizzle),
                                   "B");
    }
  }
  void run() {
    for (uint32_t m = 0; m < trial_.instruction.m; ++m) {
      for (uint32_t n = 0; n < trial_.instruction.n; ++n) cell(place_of(trial_, m, n)) = before(m, n);
    }
    check(operation_, units());
    execute(operation_, units());
  }
  /// Runs, and compares every element.
  void expect_sums() {
    run();
    uint32_t wrong = 0;
    for (uint32_t m = 0; m < trial_.instruction.m; ++m) {
      for (uint32_t n = 0; n < trial_.instruction.n; ++n) {
        const uint32_t found = cell(place_of(trial_, m, n)), wanted = expected(m, n);
        if (found != wanted && ++wrong < 5) {
          ADD_FAILURE() << "element (" << m << ", " << n << ") is 0x" << std::hex << found << ", not 0x" << wanted;
        }
      }
    }
    EXPECT_EQ(wrong, 0u);
  }
  /// Returns the place along K of element `i` of row m of A in memory, for column n of D.
  uint32_t k_of(uint32_t m, uint32_t n, uint32_t i) const {
    const Place place = place_of(trial_, m, n);
    const uint32_t half = depth_.chunk / 2, chunk = i / half;
    const uint32_t code = codes_[place.block][place.lane * 16 + chunk];
    if (trial_.kind == MmaKind::tf32) return 2 * chunk + (code == 0b1110 ? 1 : 0);
    const uint32_t index = i % half < depth_.together ? code % 4 : code / 4;
    return chunk * depth_.chunk + index * depth_.together + i % depth_.together;
  }

 private:
  static Matrix part_of(const Matrix& whole, uint32_t number, uint32_t parts) {
    Matrix part = whole;
    part.rows = whole.rows / parts;
    const auto first = whole.codes.begin() + static_cast<std::ptrdiff_t>(number) * part.rows * whole.k;
    part.codes.assign(first, first + static_cast<std::ptrdiff_t>(part.rows) * whole.k);
    return part;
  }
  uint32_t before(uint32_t m, uint32_t n) const {
    const float value = static_cast<float>(m) - 2.5f * static_cast<float>(n);
    return trial_.kind == MmaKind::i8       ? m * 1000 - n
           : trial_.instruction.d_code == 0 ? to_f16(value)
                                            : std::bit_cast<uint32_t>(value);
  }

  void prepare() {
    Instruction instruction = trial_.instruction;
    uint32_t bits = instruction.bits() | 1u << 2 | trial_.selector;
    if (trial_.scales != 0) {
      bits = 1u << 2 | instruction.a_code << 7 | instruction.b_code << 10 | instruction.n / 8 << 17 |
             uint32_t{!trial_.ue4m3} << 23 | instruction.m / 128 << 27;
    }
    operation_.shape = decode_instruction_descriptor(bits, trial_.kind, trial_.weight_stationary, trial_.pair, true);
    ASSERT_EQ(operation_.shape.k, depth_.k);
    operation_.weight_stationary = trial_.weight_stationary;
    operation_.accumulate = trial_.accumulate;
    operation_.d = address_of({trial_.first_lane, 0});
    operation_.metadata = address_of({trial_.first_lane, kMetadata});
    const uint32_t blocks = trial_.pair ? 2 : 1;
    for (uint32_t block = 0; block < blocks; ++block) {
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        for (uint32_t chunk = 0; chunk < depth_.k / depth_.chunk; ++chunk) {
          put_code(block, lane, chunk, codes_[block][lane * 16 + chunk]);
        }
      }
      const Matrix part = part_of(a_, block, blocks);
      if (!trial_.a_in_tensor_memory) {
        operation_.a =
            decode_shared_descriptor(instruction.a_mn ? put_mn_major(benches_[block], part, 4096, trial_.a_swizzle)
                                                      : put_k_major(benches_[block], part, 4096, trial_.a_swizzle),
                                     "A");
      }
    }
    if (trial_.a_in_tensor_memory) put_a_in_tensor_memory();
    put_b();
    if (trial_.scales != 0) put_scales();
  }
  void put_a_in_tensor_memory() {
    operation_.a_in_tensor_memory = true;
    operation_.a_address = address_of({trial_.first_lane, kTensorA});
    for (uint32_t m = 0; m < a_.rows; ++m) {
      for (uint32_t n = 0; n < trial_.instruction.n; ++n) {  // a copy for each lane that has columns of the row
        const Place place = place_of(trial_, m, n);
        for (uint32_t k = 0; k < a_.k; ++k) {
          const uint32_t bit = k * bits_of(a_.format);
          uint32_t& cell = benches_[place.block].memory.cell({place.lane, kTensorA + bit / 32});
          if (bit % 32 == 0) cell = 0;
          cell |= a_.code(m, k) << bit % 32;
        }
      }
    }
  }
  // Each block has the factors of its rows of A, and of all columns of B, in each quarter of the lanes.
  void put_scales() {
    operation_.scales_a = kScalesA;
    operation_.scales_b = kScalesB;
    operation_.scales_per_slice = trial_.scales;
    const auto draw = [&](std::vector<uint32_t>& codes, uint32_t rows, uint32_t base, uint32_t rows_of_block) {
      codes.resize(rows * trial_.scales);
      for (uint32_t row = 0; row < rows; ++row) {
        for (uint32_t i = 0; i < trial_.scales; ++i) {
          const uint32_t code = trial_.ue4m3 ? 0x20 + random_() % 0x30 : 122 + random_() % 11;
          codes[row * trial_.scales + i] = code;
          for (uint32_t block = 0; block < (trial_.pair ? 2 : 1); ++block) {
            if (row / rows_of_block != block && rows_of_block != rows) continue;
            for (uint32_t quarter = 0; quarter < 4; ++quarter) {
              const uint32_t local = row % rows_of_block;
              uint32_t& cell = benches_[block].memory.cell({local % 32 + 32 * quarter, base + local / 32});
              cell = (cell & ~(0xffu << 8 * i)) | code << 8 * i;
            }
          }
        }
      }
    };
    draw(scales_a_, a_.rows, kScalesA, a_.rows / (trial_.pair ? 2 : 1));
    draw(scales_b_, b_.rows, kScalesB, b_.rows);
  }

  ScaledFactor scale(const std::vector<uint32_t>& codes, uint32_t row, uint32_t k) const {
    const uint32_t code = codes[row * trial_.scales + k * trial_.scales / depth_.k];
    const double value = trial_.ue4m3 ? worth(code, 4, 3, 7) : std::ldexp(1.0, static_cast<int>(code) - 127);
    return factor_of(static_cast<float>(value), trial_.ue4m3 ? kLeastUe4m3 : kLeastUe8m0);
  }
  uint32_t expected(uint32_t m, uint32_t n) const {
    std::vector<float> x, y;
    for (uint32_t i = 0; i < a_.k; ++i) {
      x.push_back(static_cast<float>(a_.value(m, i)));
      y.push_back(static_cast<float>(b_.value(n, k_of(m, n, i))));
    }
    const uint32_t old = before(m, n);
    if (trial_.kind == MmaKind::i8) {
      int64_t sum = trial_.accumulate ? static_cast<int32_t>(old) : 0;
      for (size_t i = 0; i < x.size(); ++i) sum += static_cast<int64_t>(x[i]) * static_cast<int64_t>(y[i]);
      return static_cast<uint32_t>(sum);
    }
    const bool is_half = trial_.instruction.d_code == 0 && trial_.scales == 0;
    const float c = !trial_.accumulate ? 0.0f : is_half ? from_f16(old & 0xffff) : std::bit_cast<float>(old);
    if (trial_.scales == 0) {
      const FusedSum how = sum_of(trial_.a, trial_.b, is_half ? SumResult::odd : SumResult::f32);
      const float sum = fused_sum(x.data(), 1, y.data(), 1, a_.k, c, how);
      return is_half ? to_f16(sum) : std::bit_cast<uint32_t>(sum);
    }
    if (trial_.kind == MmaKind::mxf8f6f4) {
      std::vector<ScaledFactor> of_a, of_b;
      for (uint32_t i = 0; i < a_.k; ++i) {
        of_a.push_back(factor_of(x[i], least_exponent(trial_.a)));
        of_b.push_back(factor_of(y[i], least_exponent(trial_.b)));
      }
      return std::bit_cast<uint32_t>(scaled_products(of_a, of_b, scale(scales_a_, m, 0), scale(scales_b_, n, 0), c));
    }
    std::vector<ScaledFactor> of_a, of_b;
    for (uint32_t k = 0; k < depth_.k; k += depth_.k / 4) {
      of_a.push_back(scale(scales_a_, m, k));
      of_b.push_back(scale(scales_b_, n, k));
    }
    return std::bit_cast<uint32_t>(scaled_groups(x, y, of_a, of_b, c));
  }

  SparseTrial trial_;
  Depth depth_;
  std::mt19937 random_;
  Matrix a_, b_;
  std::array<TensorBlock, 2> benches_;
  std::array<std::vector<uint32_t>, 2> codes_;  ///< [lane][chunk]
  std::vector<uint32_t> scales_a_, scales_b_;
  Tcgen05Mma operation_;
};

void expect_sums(const SparseTrial& trial) {
  SCOPED_TRACE(::testing::Message() << name_of(trial.kind) << " M " << trial.instruction.m << " N "
                                    << trial.instruction.n << " selector " << trial.selector << " pair " << trial.pair
                                    << " ws " << trial.weight_stationary << " A in tensor memory "
                                    << trial.a_in_tensor_memory);
  SparseBench(trial).expect_sums();
}

/// The kinds without scale factors, with one combination of formats each.
std::vector<SparseTrial> every_dense_kind() {
  SparseTrial f16, tf32, f8f6f4, i8;
  tf32.kind = MmaKind::tf32, tf32.a = tf32.b = ElementFormat::tf32;
  tf32.instruction.a_code = tf32.instruction.b_code = 2;
  f8f6f4.kind = MmaKind::f8f6f4, f8f6f4.a = ElementFormat::e4m3, f8f6f4.b = ElementFormat::e5m2;
  f8f6f4.instruction.a_code = 0;
  i8.kind = MmaKind::i8, i8.a = ElementFormat::s8, i8.b = ElementFormat::u8;
  i8.instruction.d_code = 2, i8.instruction.b_code = 0;
  return {f16, tf32, f8f6f4, i8};
}

TEST(Tcgen05SparseTest, MultipliesTheElementsThatAHas) {
  for (SparseTrial trial : every_dense_kind()) {
    for (const bool a_in_tensor_memory : {false, true}) {
      for (const auto& [m, first_lane] : {std::pair{128u, 0u}, {64u, 0u}, {64u, 16u}}) {
        trial.a_in_tensor_memory = a_in_tensor_memory;
        trial.accumulate = m == 64;
        trial.instruction.m = m, trial.instruction.n = m == 64 ? 16 : 80;
        trial.first_lane = first_lane;
        expect_sums(trial);
      }
    }
  }
}

TEST(Tcgen05SparseTest, ReadsTheColumnThatTheSelectorNames) {
  for (SparseTrial trial : every_dense_kind()) {
    if (trial.kind != MmaKind::f16 && trial.kind != MmaKind::tf32) continue;
    for (trial.selector = 1; trial.selector < 4; ++trial.selector) expect_sums(trial);
  }
}

TEST(Tcgen05SparseTest, ReadsEveryLayoutOfSharedMemory) {
  for (SparseTrial trial : every_dense_kind()) {
    const bool tf32 = trial.kind == MmaKind::tf32;
    for (const auto& [a_mn, b_mn, swizzle] : {std::tuple{false, false, 0u},
                                              {false, false, 4u},
                                              {true, false, 2u},
                                              {false, true, 2u},
                                              {true, true, 2u},
                                              {true, true, 6u}}) {
      trial.instruction.a_mn = a_mn, trial.instruction.b_mn = b_mn;
      trial.a_swizzle = a_mn && tf32 ? 1 : swizzle;
      trial.b_swizzle = b_mn && tf32 ? 1 : swizzle;
      expect_sums(trial);
    }
  }
}

TEST(Tcgen05SparseTest, RoundsToHalfPrecisionOnce) {
  SparseTrial trial;
  trial.a = trial.b = ElementFormat::f16;
  trial.instruction.a_code = trial.instruction.b_code = trial.instruction.d_code = 0;
  trial.accumulate = true;
  expect_sums(trial);
  trial.kind = MmaKind::f8f6f4, trial.a = trial.b = ElementFormat::e4m3;
  expect_sums(trial);
}

TEST(Tcgen05SparseTest, UnpacksNarrowElements) {
  SparseTrial trial;
  trial.kind = MmaKind::f8f6f4;
  trial.a = ElementFormat::e2m1, trial.instruction.a_code = 5;
  trial.b = ElementFormat::e3m2, trial.instruction.b_code = 4;
  expect_sums(trial);
}

TEST(Tcgen05SparseTest, SharesTheWorkOfAPair) {
  for (SparseTrial trial : every_dense_kind()) {
    trial.pair = true;
    for (const bool a_in_tensor_memory : {false, true}) {
      trial.a_in_tensor_memory = a_in_tensor_memory;
      trial.instruction.m = 256, trial.instruction.n = 96, trial.first_lane = 0;
      expect_sums(trial);
      trial.instruction.m = 128;  // 64 rows in half of the lanes, unlike those of a dense A
      expect_sums(trial);
      trial.first_lane = 16;
      expect_sums(trial);
    }
  }
}

TEST(Tcgen05SparseTest, HasMetadataForEachCopyOfARowOfTheWeightStationaryForm) {
  for (SparseTrial trial : every_dense_kind()) {
    trial.weight_stationary = true;
    for (const uint32_t m : {128u, 64u, 32u}) {
      trial.instruction.m = m;
      trial.a_in_tensor_memory = false;
      expect_sums(trial);
      trial.a_in_tensor_memory = m != 32;
      expect_sums(trial);
    }
  }
}

TEST(Tcgen05SparseTest, ScalesBlocksOfTwiceTheElements) {
  for (const bool pair : {false, true}) {
    for (const bool accumulate : {false, true}) {
      SparseTrial trial;
      trial.pair = pair, trial.accumulate = accumulate;
      trial.instruction.m = pair ? 256 : 128;
      trial.kind = MmaKind::mxf8f6f4, trial.scales = 1;
      trial.a = ElementFormat::e4m3, trial.instruction.a_code = 0;
      trial.b = ElementFormat::e5m2;
      expect_sums(trial);
      trial.a = ElementFormat::e2m1, trial.instruction.a_code = 5;
      expect_sums(trial);
      trial.a = trial.b = ElementFormat::e2m1_packed;
      trial.instruction.a_code = trial.instruction.b_code = 1;
      trial.kind = MmaKind::mxf4, trial.scales = 2;
      expect_sums(trial);
      trial.kind = MmaKind::mxf4nvf4, trial.scales = 4;
      expect_sums(trial);
      trial.ue4m3 = true, trial.a_in_tensor_memory = true;
      expect_sums(trial);
    }
  }
}

TEST(Tcgen05SparseTest, LeavesOutInfinitiesThatMeetNoElement) {
  SparseTrial trial;
  trial.instruction.n = 16;
  SparseBench bench(trial);
  constexpr uint32_t kColumn = 5, kAlong = 9, kInfinity = 0x7f80, kNotANumber = 0x7fc0;
  for (const uint32_t special : {kInfinity, kNotANumber}) {
    bench.b().codes[kColumn * bench.b().k + kAlong] = special;
    bench.put_b();
    bench.run();
    uint32_t meetings = 0;
    for (uint32_t m = 0; m < 128; ++m) {
      bool meets = false;
      for (uint32_t i = 0; i < bench.a().k; ++i) meets |= bench.k_of(m, kColumn, i) == kAlong;
      meetings += meets;
      for (uint32_t n = 0; n < 16; ++n) {
        const float found = std::bit_cast<float>(bench.cell(place_of(trial, m, n)));
        const bool wanted = meets && n == kColumn;
        ASSERT_EQ(!std::isfinite(found), wanted) << m << ", " << n;
        ASSERT_EQ(std::isnan(found), wanted && special == kNotANumber) << m << ", " << n;
      }
    }
    EXPECT_GT(meetings, 20u);
    EXPECT_LT(meetings, 108u);
  }
}

// ---- What is refused -----------------------------------------------------------------------------------------------

TEST(Tcgen05SparseTest, RefusesMetadataThatAreNotLegal) {
  const auto refusal = [](const SparseTrial& trial, uint32_t code) {
    SparseBench bench(trial);
    bench.put_code(0, 37, 5, code);
    return fault_text([&] { bench.run(); });
  };
  SparseTrial trial = every_dense_kind()[2];
  EXPECT_EQ(refusal(trial, 0b0110), "");
  EXPECT_EQ(refusal(trial, 0b0101)
                .find("tcgen05.mma.sp: the metadata of row 37 of A, for elements 20 to 23 along K, "
                      "are 0b0101: both elements have index 1\nthey are bits 23:20 of the cell in "
                      "lane 37, column 300 of tensor memory, which is 0x"),
            0u);
  EXPECT_NE(refusal(trial, 0b0001).find("are 0b0001: the second element's index, 0, comes before the first's, 1"),
            std::string::npos);
  EXPECT_NE(refusal(trial, 0b0001).find("legal for kind::f8f6f4: 0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110"),
            std::string::npos);
  for (uint32_t code = 0; code < 16; ++code) {
    const bool is_legal = std::find(kLegalCodes.begin(), kLegalCodes.end(), code) != kLegalCodes.end();
    EXPECT_EQ(refusal(trial, code).empty(), is_legal) << code;
  }
  trial = every_dense_kind()[1];
  EXPECT_NE(refusal(trial, 0b1000)
                .find("elements 10 to 11 along K, are 0b1000: which is no position\nthey are bits "
                      "7:4 of the cell in lane 45, column 300"),
            std::string::npos);
  trial.pair = true;
  trial.instruction.m = 256;
  EXPECT_NE(refusal(trial, 0b1000).find("in the block with rank 0"), std::string::npos);
  trial = {};
  trial.kind = MmaKind::mxf4, trial.scales = 2;
  trial.a = trial.b = ElementFormat::e2m1_packed;
  EXPECT_NE(refusal(trial, 0b1111).find("for elements 40 to 47 along K, are 0b1111: both pairs have index 3"),
            std::string::npos);
}

TEST(Tcgen05SparseTest, TakesAnyMetadataOfElementsThatAreZero) {
  SparseTrial trial;
  trial.a_in_tensor_memory = true;
  SparseBench bench(trial);
  for (uint32_t column = 0; column < 8; ++column) bench.bench(0).memory.cell({37, kTensorA + column}) = 0;
  bench.put_code(0, 37, 5, 0);
  bench.run();
  EXPECT_EQ(bench.cell({0, 37, 3}), 0u);
}

TEST(Tcgen05SparseTest, MakesSumsOfMetadataThatNothingHasWrittenNan) {
  SparseTrial trial;
  SparseBench bench(trial);
  bench.bench(0).memory.cell({32, kMetadata}) = TensorMemory::kPoison;  // of the first half of rows 32 and 40
  bench.run();
  for (uint32_t m = 0; m < 128; ++m) {
    const bool wanted = m == 32 || m == 40;
    EXPECT_EQ(std::isnan(std::bit_cast<float>(bench.cell({0, m, 3}))), wanted) << m;
  }
}

TEST(Tcgen05SparseTest, RefusesPlacesOfMetadataThatCannotBe) {
  SparseTrial trial;
  SparseBench bench(trial);
  const auto run = [&] { check(bench.operation(), bench.units()); };
  bench.operation().metadata = 301;
  EXPECT_FAULT(run(), "tcgen05.mma.sp, metadata: address 0x12d is in column 301\nlegal: an even column");
  bench.operation().metadata = address_of({16, 300});
  EXPECT_FAULT(run(), "they begin in lane 16 and D in lane 0\nlegal: both in lane 0");
  bench.operation().metadata = 512;
  EXPECT_FAULT(run(), "tcgen05.mma.sp, metadata: 1 columns from address 0x200");
  trial.b_swizzle = 6;
  SparseBench narrow(trial);
  EXPECT_FAULT(check(narrow.operation(), narrow.units()), "rows of 64 bytes along K with swizzle 6 (32 bytes)");
}

TEST(Tcgen05SparseTest, RefusesDescriptorsThatCannotBe) {
  const auto decode = [](const Instruction& instruction, MmaKind kind, uint32_t more, bool ws = false,
                         bool pair = false) {
    decode_instruction_descriptor(instruction.bits() | more, kind, ws, pair, true);
  };
  EXPECT_FAULT(decode({}, MmaKind::f16, 0), "bit 2 (sparse A; the instruction is tcgen05.mma.sp) is 0\nlegal: 1");
  EXPECT_FAULT(decode_instruction_descriptor(Instruction{}.bits() | 1u << 2, MmaKind::f16, false),
               "bit 2 (sparse A; the instruction is not tcgen05.mma.sp) is 1\nlegal: 0");
  EXPECT_FAULT(decode({}, MmaKind::f8f6f4, 1u << 2 | 1), "bits 1:0 (sparsity selector");
  EXPECT_FAULT(decode({.n = 256}, MmaKind::f16, 1u << 2, true),
               "kind::f16 .ws .sp with cta_group::1\nlegal: N 64 or 128");
  const uint32_t scaled = 1u << 2 | 8u << 17 | 1u << 23;
  EXPECT_FAULT(decode_instruction_descriptor(scaled | 1u << 27, MmaKind::mxf8f6f4, false, true, true),
               "is 128 for kind::mxf8f6f4 .sp with cta_group::2\nlegal: M 256");
}

}  // namespace
}  // namespace stagecraft::emulator::machine::testing
