// Each operation of an epilogue against the same in double precision, alone and together, on random sums.
#include <algorithm>

#include "epilogue_test.hpp"
#include "stagecraft/block_scaled_output.hpp"

namespace stagecraft::tests {
namespace {

using Small = TmemTensor<128, 64>;

/// C = operation(sums) in f32, within `tolerance` of the exact value, relative to it and to the operands.
/// @param exact  called with (sum, batch, row, column) in double precision.
template <typename Operations, typename Exact>
void expect_operation(const Operations& epilogue, Exact exact, double tolerance, int rows = 150, int columns = 76) {
  if (!can_run()) GTEST_SKIP() << "only compute capability 10.x has tensor memory";
  for (const uint64_t seed : {1, 2, 3}) {
    const auto sums = random_sums(rows, columns, 2, seed, /*exponent=*/5);
    const auto c = written<TileWriter<Small, float>, float>(sums, epilogue);
    expect_elements(c, [&](int batch, int row, int column, float element) {
      const double sum = sums.get(batch, row, column), wanted = exact(sum, batch, row, column);
      return std::abs(element - wanted) <= tolerance * std::max(1.0, std::max(std::abs(sum), std::abs(wanted)));
    });
  }
}

/// A random vector on host and device.
template <typename T>
struct Vector {
  std::vector<T> host;
  harness::DeviceBuffer<T> device;
  Vector(int size, uint64_t seed) : host(harness::random_values<T>(size, seed)), device(host, "a vector") {}
  double at(int64_t i) const { return static_cast<double>(static_cast<float>(host[i])); }
};

TEST(EpilogueTest, Multiplies) {
  expect_operation(
      Epilogue{Multiply{-2.5f}}, [](double sum, int, int, int) { return -2.5 * sum; }, 0x1p-23);
}

template <typename T>
void expect_vectors() {
  const Vector<T> per_column(2 * 80, 5), per_row(150, 6), misaligned(77, 7);
  const EpilogueVector<T> of_columns{per_column.device.data(), 80}, of_rows{per_row.device.data()};
  expect_operation(
      Epilogue{AddPerColumn<T>{of_columns}},
      [&](double sum, int batch, int, int column) { return sum + per_column.at(batch * 80 + column); }, 0x1p-23);
  expect_operation(
      Epilogue{MultiplyPerColumn<T>{of_columns}},
      [&](double sum, int batch, int, int column) { return sum * per_column.at(batch * 80 + column); }, 0x1p-23);
  expect_operation(
      Epilogue{AddPerRow<T>{of_rows}}, [&](double sum, int, int row, int) { return sum + per_row.at(row); }, 0x1p-23);
  expect_operation(
      Epilogue{MultiplyPerRow<T>{of_rows}}, [&](double sum, int, int row, int) { return sum * per_row.at(row); },
      0x1p-23);
  expect_operation(
      Epilogue{AddPerColumn<T>{{misaligned.device.data() + 1}}},
      [&](double sum, int, int, int column) { return sum + misaligned.at(column + 1); }, 0x1p-23);
}
TEST(EpilogueTest, AddsAndMultipliesVectorsOfF32) { expect_vectors<float>(); }
TEST(EpilogueTest, AddsAndMultipliesVectorsOfBf16) { expect_vectors<__nv_bfloat16>(); }

double silu(double x) { return x / (1 + std::exp(-x)); }
double gelu(double x) { return 0.5 * x * std::erfc(-x * std::sqrt(0.5)); }

TEST(EpilogueTest, Activates) {
  expect_operation(
      Epilogue{Relu{}}, [](double sum, int, int, int) { return std::max(sum, 0.0); }, 0);
  expect_operation(
      Epilogue{Gelu{}}, [](double sum, int, int, int) { return gelu(sum); }, 0x1p-22);
  expect_operation(
      Epilogue{Silu{}}, [](double sum, int, int, int) { return silu(sum); }, 0x1p-20);
  expect_operation(
      Epilogue{GeluTanh{}},
      [](double x, int, int, int) {
        return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
      },
      0x1p-20);
}

TEST(EpilogueTest, AppliesOperationsInOrder) {
  const Vector<float> bias(80, 8);
  expect_operation(
      Epilogue{Multiply{3}, AddPerColumn<float>{{bias.device.data()}}, Relu{}, Multiply{0.5f}},
      [&](double sum, int, int, int column) { return 0.5 * std::max(3 * sum + bias.at(column), 0.0); }, 0x1p-21);
}

TEST(EpilogueTest, GatesPairsOfColumns) {
  if (!can_run()) GTEST_SKIP() << "only compute capability 10.x has tensor memory";
  const auto sums = random_sums(150, 160, 2, 9, /*exponent=*/4);
  const auto exact = [&](int batch, int row, int column) {
    return silu(sums.get(batch, row, 2 * column)) * sums.get(batch, row, 2 * column + 1);
  };
  const auto f32 = written<TileWriter<Small, float, 2>, float>(sums, Epilogue{GatedSilu{}});
  expect_elements(f32, [&](int batch, int row, int column, float element) {
    return std::abs(element - exact(batch, row, column)) <= 0x1p-20 * (1 + std::abs(exact(batch, row, column)));
  });
  const auto bf16 =
      written<TileWriter<TmemTensor<128, 256, 2>, __nv_bfloat16, 2>, __nv_bfloat16>(sums, Epilogue{GatedSilu{}});
  expect_elements(bf16, [&](int batch, int row, int column, __nv_bfloat16 element) {
    return std::abs(static_cast<float>(element) - exact(batch, row, column)) <=
           0x1p-7 * (1 + std::abs(exact(batch, row, column)));
  });
  const auto bytes =
      written<TileWriter<TmemTensor<64, 32>, __nv_fp8_e4m3, 2>, __nv_fp8_e4m3>(sums, Epilogue{GatedSilu{}});
  expect_elements(bytes, [&](int batch, int row, int column, __nv_fp8_e4m3 element) {
    const double wanted = std::clamp(exact(batch, row, column), -448.0, 448.0);
    return std::abs(static_cast<float>(element) - wanted) <= std::abs(wanted) * 0x1p-3 + 0x1p-9;
  });
}

TEST(EpilogueTest, FindsTheAbsoluteMaximumAndScalesBeforeItSaturates) {
  if (!can_run()) GTEST_SKIP() << "only compute capability 10.x has tensor memory";
  for (const uint64_t seed : {1, 2, 3}) {
    auto sums = random_sums(150, 80, 2, seed);
    sums.set(1, 140 - static_cast<int>(seed), 70, seed % 2 == 0 ? 3000.f : -3000.f);
    const harness::DeviceBuffer<float> maximum(std::vector<float>{0}, "the maximum");
    const float scale = 448.f / 3000;
    const auto c = written<TileWriter<Small, __nv_fp8_e4m3>, __nv_fp8_e4m3>(
        sums, Epilogue{AbsoluteMaximum{maximum.data()}, Multiply{scale}});
    EXPECT_EQ(maximum.to_host()[0], 3000);
    expect_elements(c, [&](int batch, int row, int column, __nv_fp8_e4m3 element) {
      const __nv_fp8_e4m3 wanted(sums.get(batch, row, column) * scale);
      return std::memcmp(&element, &wanted, 1) == 0;
    });
  }
}

TEST(EpilogueTest, ANaNIsTheAbsoluteMaximum) {
  if (!can_run()) GTEST_SKIP() << "only compute capability 10.x has tensor memory";
  auto sums = random_sums(30, 64, 1, 4);
  sums.set(0, 7, 9, INFINITY);
  const harness::DeviceBuffer<float> maximum(std::vector<float>{0}, "the maximum");
  written<TileWriter<Small, float>, float>(sums, Epilogue{AbsoluteMaximum{maximum.data()}});
  EXPECT_EQ(maximum.to_host()[0], INFINITY);
  sums.set(0, 29, 63, -NAN);
  written<TileWriter<Small, float>, float>(sums, Epilogue{AbsoluteMaximum{maximum.data()}});
  EXPECT_TRUE(std::isnan(maximum.to_host()[0]));
}

// ---- A second output, and an input ----------------------------------------------------------------------------------

/// gelu(alpha * sums + beta * C + bias), with what GELU is applied to as a second output.
template <typename Accumulator, typename Element, typename InputElement, int InputStages>
struct Full {
  using Writer = TileWriter<Accumulator, Element>;
  using Second = SecondOutput<Writer, __nv_bfloat16>;
  using Input = EpilogueInputPipeline<Writer, InputElement, InputStages>;
  struct Shared {
    typename Writer::Storage c;
    typename Second::Storage before;
    typename Input::Storage input;
    typename Input::BarrierArray barriers;
  };
};

template <typename Case>
__global__ void __launch_bounds__(kEpilogueTestThreads)
    write_full(const __grid_constant__ typename Case::Writer::Map c,
               const __grid_constant__ typename Case::Second::Map before,
               const __grid_constant__ typename Case::Input::Map input, Sums sums, const float* bias, float alpha,
               float beta) {
  using Writer = typename Case::Writer;
  using Input = typename Case::Input;
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  auto& shared = *reinterpret_cast<typename Case::Shared*>(dynamic_shared_memory);
  if (threadIdx.x == 0) {
    Input::init_barriers(shared.barriers);
    fence_barrier_init();
  }  // run_epilogue() begins with a block-wide barrier
  Input ring{shared.barriers, shared.input};
  run_epilogue<typename Writer::Accumulator>(
      sums,
      [&](auto& accumulators) {
        Writer writer{shared.c, c};
        Epilogue epilogue{Multiply{alpha}, AddInput{ring, beta}, AddPerColumn<float>{{bias}},
                          typename Case::Second{shared.before, before}, Gelu{}};
        write_tiles(accumulators, sums, writer, epilogue);
        writer.drain();
      },
      [&] {
        for (Tiles<typename Writer::Accumulator> tiles{sums}; tiles.exist(); tiles.next())
          ring.load(input, tiles.place());
        ring.drain();
      });
}

template <typename Accumulator, typename Element, typename InputElement, int InputStages>
void expect_full_epilogue(int rows, int columns, uint64_t seed) {
  if (!can_run()) GTEST_SKIP() << "only compute capability 10.x has tensor memory";
  using Case = Full<Accumulator, Element, InputElement, InputStages>;
  constexpr float kAlpha = 0.75f, kBeta = -1.5f;
  const auto sums = random_sums(rows, columns, 2, seed, /*exponent=*/3);
  const Vector<float> bias((columns + 3) / 4 * 4, seed + 1);
  Matrices<InputElement> input(rows, columns, 2, 16);
  harness::Random random(seed + 2);
  input.for_each([&](int b, int r, int column) { input.set(b, r, column, InputElement(random.uniform())); });
  Matrices<Element> c(rows, columns, 2, 32);
  Matrices<__nv_bfloat16> before(rows, columns, 2, 32);

  const harness::DeviceBuffer<unsigned char> device_sums(sums.bytes, "the sums"),
      device_input(input.bytes, "the input"), device_c(c.bytes, "C"), device_before(before.bytes, "the second output");
  launch_epilogue(write_full<Case>, 2, sizeof(typename Case::Shared),
                  map_of<typename Case::Writer::SliceTile>(device_c, c),
                  map_of<typename Case::Second::SliceTile>(device_before, before),
                  map_of<typename Case::Input::SliceTile>(device_input, input),
                  Sums{reinterpret_cast<const float*>(device_sums.data()), rows, columns, 2},
                  static_cast<const float*>(bias.device.data()), kAlpha, kBeta);
  c.bytes = device_c.to_host();
  before.bytes = device_before.to_host();

  const auto exact_before = [&](int batch, int row, int column) {
    return double{kAlpha} * sums.get(batch, row, column) +
           double{kBeta} * static_cast<float>(input.get(batch, row, column)) + bias.at(column);
  };
  expect_elements(before, [&](int batch, int row, int column, __nv_bfloat16 element) {
    const double wanted = exact_before(batch, row, column);
    return std::abs(static_cast<float>(element) - wanted) <= std::abs(wanted) * 0x1p-8 + 0x1p-19;
  });
  constexpr double kRounding = sizeof(Element) == 4 ? 0x1p-22 : sizeof(Element) == 2 ? 0x1p-8 : 0x1p-4;
  expect_elements(c, [&](int batch, int row, int column, Element element) {
    const double wanted = gelu(exact_before(batch, row, column));
    return std::abs(static_cast<float>(element) - wanted) <=
           std::abs(wanted) * kRounding + (sizeof(Element) == 1 ? 0x1p-9 : 0x1p-19);
  });
}

TEST(EpilogueTest, AddsAnInputAndStoresASecondOutput) {
  expect_full_epilogue<TmemTensor<128, 64>, float, float, 2>(150, 72, 1);
  expect_full_epilogue<TmemTensor<128, 64>, __nv_bfloat16, __nv_bfloat16, 1>(300, 136, 2);
  expect_full_epilogue<TmemTensor<64, 128>, __nv_bfloat16, float, 3>(150, 136, 3);
  expect_full_epilogue<TmemTensor<256, 64, 2>, float, __nv_bfloat16, 2>(150, 72, 4);
  expect_full_epilogue<TmemTensor<128, 128, 2>, __nv_fp8_e4m3, __half, 2>(150, 144, 5);
}

// ---- Block-scaled output --------------------------------------------------------------------------------------------

template <typename Format>
double decoded(const unsigned char* bytes, int64_t index) {
  if constexpr (element_bits<typename Format::Element> == 8) {
    typename Format::Element element;
    element.__x = bytes[index];
    return static_cast<double>(static_cast<float>(element));
  } else {
    static constexpr double kMagnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    const int bits = bytes[index / 2] >> index % 2 * 4 & 15;
    return bits < 8 ? kMagnitudes[bits] : -kMagnitudes[bits - 8];
  }
}

/// The nearest number of the format to |value|, saturated, and the distance between those around it.
template <typename Format>
double spacing(double magnitude) {
  constexpr bool kIsByte = element_bits<typename Format::Element> == 8;
  const int mantissa_bits = kIsByte ? 3 : 1, smallest_exponent = kIsByte ? -6 : 0;
  return std::ldexp(
      1, std::max(magnitude > 0 ? std::ilogb(magnitude) : smallest_exponent, smallest_exponent) - mantissa_bits);
}

template <typename Format, typename Accumulator, int ColumnsPerResult = 1>
void expect_block_scaled(int rows, int columns, uint64_t seed, float global_scale = 1) {
  if (!can_run()) GTEST_SKIP() << "only compute capability 10.x has tensor memory";
  using Element = typename Format::Element;
  using Writer = TileWriter<Accumulator, Element, ColumnsPerResult>;
  constexpr int kBlock = Format::block;
  constexpr double kLargest = element_bits<Element> == 8 ? 448 : 6;
  auto sums = random_sums(rows, columns * ColumnsPerResult, 1, seed, /*exponent=*/ColumnsPerResult == 1 ? 12 : 4);
  for (int column = 0; column < kBlock * ColumnsPerResult; ++column)
    sums.set(0, rows / 2, column, 0);  // a block of zeros

  const int blocks = (columns + kBlock - 1) / kBlock, padded_blocks = (blocks + 3) / 4 * 4;
  const int padded_rows = (rows + 127) / 128 * 128;
  std::vector<unsigned char> factors(int64_t{padded_rows} * padded_blocks, 0xff);
  const harness::DeviceBuffer<unsigned char> device_factors(factors, "the scale factors");
  ScaleBlocks<Format> scale(reinterpret_cast<typename Format::Scale*>(device_factors.data()), columns, 0, global_scale);
  Matrices<Element> c(1, 1, 1);
  if constexpr (ColumnsPerResult == 1) {
    c = written<Writer, Element>(sums, Epilogue{scale});
  } else {
    c = written<Writer, Element>(sums, Epilogue{GatedSilu{}, scale});
  }
  factors = device_factors.to_host();

  const auto value = [&](int row, int column) -> double {
    if constexpr (ColumnsPerResult == 1) return sums.get(0, row, column);
    return silu(sums.get(0, row, 2 * column)) * sums.get(0, row, 2 * column + 1);
  };
  for (int row = 0; row < rows; ++row) {
    for (int block = 0; block < padded_blocks; ++block) {
      const int atom = row / 128 * (padded_blocks / 4) + block / 4;
      const unsigned char found = factors[atom * 512 + row % 32 * 16 + row % 128 / 32 * 4 + block % 4];
      if (block >= blocks) {
        ASSERT_EQ(found, 0) << "a scale factor beyond row " << row;
        continue;
      }
      double largest = 0;
      const int end = std::min(columns, (block + 1) * kBlock);
      for (int column = block * kBlock; column < end; ++column)
        largest = std::max(largest, std::abs(value(row, column)));
      double factor;
      if constexpr (std::is_same_v<typename Format::Scale, __nv_fp8_e8m0>) {
        int wanted = 0;
        while (largest > kLargest * std::ldexp(1, wanted - 127)) ++wanted;
        if (ColumnsPerResult == 1) {
          ASSERT_EQ(found, wanted) << "row " << row << ", block " << block;
        } else {
          ASSERT_NEAR(found, wanted, 1) << "row " << row << ", block " << block;  // the device's SiLU is not exact
        }
        factor = std::ldexp(1, found - 127);
      } else {
        __nv_fp8_e4m3 decoded_factor;
        decoded_factor.__x = found;
        factor = static_cast<double>(static_cast<float>(decoded_factor)) / global_scale;
        const double wanted = std::min(largest * global_scale / 6, 448.0) / global_scale;
        ASSERT_NEAR(factor, wanted, 0x1.01p-4 * wanted + 0x1p-9 / global_scale) << "row " << row << ", block " << block;
      }
      for (int column = block * kBlock; column < end; ++column) {
        const double element = decoded<Format>(c.bytes.data() + c.offset(0, row, 0), column);
        const double scaled = factor == 0 ? 0 : std::clamp(value(row, column) / factor, -kLargest, kLargest);
        ASSERT_NEAR(element, scaled, 0.501 * spacing<Format>(std::abs(scaled)) + 0x1p-18 * std::abs(scaled))
            << "row " << row << ", column " << column;
      }
    }
  }
}

TEST(EpilogueTest, ScalesBlocksToMxfp8) {
  expect_block_scaled<Mxfp8, TmemTensor<128, 128>>(150, 208, 1);
  expect_block_scaled<Mxfp8, TmemTensor<64, 32>>(70, 80, 2);
  expect_block_scaled<Mxfp8, TmemTensor<128, 64, 2>>(70, 48, 3);
}
TEST(EpilogueTest, ScalesBlocksToMxfp4) {
  expect_block_scaled<Mxfp4, TmemTensor<128, 256>>(150, 288, 4);
  expect_block_scaled<Mxfp4, TmemTensor<256, 64, 2>>(70, 96, 5);
}
TEST(EpilogueTest, ScalesBlocksToNvfp4) {
  expect_block_scaled<Nvfp4, TmemTensor<128, 128>>(150, 160, 6, 0.5f);
  expect_block_scaled<Nvfp4, TmemTensor<64, 64>>(70, 96, 7);
}
TEST(EpilogueTest, ScalesGatedBlocks) { expect_block_scaled<Mxfp8, TmemTensor<128, 256>, 2>(130, 144, 8); }

TEST(EpilogueTest, ABlockWithANaNHasTheFactorNaN) {
  if (!can_run()) GTEST_SKIP() << "only compute capability 10.x has tensor memory";
  auto sums = random_sums(3, 64, 1, 9);
  sums.set(0, 1, 40, NAN);
  sums.set(0, 2, 3, -INFINITY);
  const harness::DeviceBuffer<unsigned char> factors(std::vector<unsigned char>(512, 0), "the scale factors");
  const ScaleBlocks<Mxfp8> scale(reinterpret_cast<__nv_fp8_e8m0*>(factors.data()), 64);
  const auto c = written<TileWriter<Small, __nv_fp8_e4m3>, __nv_fp8_e4m3>(sums, Epilogue{scale});
  const auto found = factors.to_host();
  for (int row = 0; row < 3; ++row) {
    for (int block = 0; block < 2; ++block) {
      const bool is_nan = (row == 1 && block == 1) || (row == 2 && block == 0);
      EXPECT_EQ(found[row * 16 + block] == 0xff, is_nan) << "row " << row << ", block " << block;
      EXPECT_EQ(std::isnan(static_cast<float>(c.get(0, row, block * 32))), is_nan)
          << "row " << row << ", block " << block;
    }
  }
}

}  // namespace
}  // namespace stagecraft::tests
