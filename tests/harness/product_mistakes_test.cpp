#include "harness/product_mistakes.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "harness/random.hpp"
#include "harness/reference_product.hpp"
#include "stagecraft/tile.hpp"

namespace stagecraft::harness {
namespace {

using Element = __nv_bfloat16;

/// Random operands, and what is said about a C that was made of them wrongly.
struct Case {
  explicit Case(ProductShape with_shape)
      : shape(with_shape),
        a(random_values<Element>(size_t(shape.m) * shape.k, 1)),
        b(random_values<Element>(size_t(shape.n) * shape.k, 2)),
        sums(reference_product<Element>(a, b, shape.m, shape.n, shape.k)),
        c(sums.begin(), sums.end()) {}

  double at_a(int row, int k) const { return static_cast<float>(a[size_t(row) * shape.k + k]); }
  double at_b(int row, int k) const { return static_cast<float>(b[size_t(row) * shape.k + k]); }
  float& at(int row, int column) { return c[size_t(row) * shape.n + column]; }
  double sum(int row, int column) const { return sums[size_t(row) * shape.n + column]; }

  /// Gives each element another value.
  void make(const std::function<double(int row, int column)>& element) {
    for (int row = 0; row < shape.m; ++row) {
      for (int column = 0; column < shape.n; ++column) at(row, column) = static_cast<float>(element(row, column));
    }
  }
  /// Makes each element as the sum of term(row, column, k).
  void make_sums(const std::function<double(int row, int column, int k)>& term) {
    make([&](int row, int column) {
      double total = 0;
      for (int k = 0; k < shape.k; ++k) total += term(row, column, k);
      return total;
    });
  }

  std::string said() const {
    const ProductTolerance tolerance{.k = static_cast<size_t>(shape.k), .output_epsilon = kRounding<float>};
    return likely_mistake<float, Element>(c, sums, a, b, shape, tolerance);
  }

  ProductShape shape;
  std::vector<Element> a, b;
  std::vector<double> sums;
  std::vector<float> c;
};

constexpr ProductShape kShape{256, 256, 192, 128, 128, 64};

void expect_said(const Case& wrong, const std::string& what) {
  const std::string said = wrong.said();
  EXPECT_NE(said.find(what), std::string::npos) << said;
}

TEST(ProductMistakesTest, SaysNothingAboutARightProduct) { EXPECT_EQ(Case(kShape).said(), ""); }

TEST(ProductMistakesTest, NamesPartsOfKThatCountWrongly) {
  const auto with_weight = [](auto weight) {
    Case wrong(kShape);
    wrong.make_sums([&](int r, int c, int k) { return weight(k) * wrong.at_a(r, k) * wrong.at_b(c, k); });
    return wrong;
  };
  expect_said(with_weight([](int k) { return k < 64; }), ": C is the product of the first k-tile alone");
  expect_said(with_weight([](int k) { return k < 128; }), ": C lacks the last k-tile");
  expect_said(with_weight([](int k) { return k / 64 == 1 ? 2 : 1; }),
              ": of the k-tiles 0 to 2, k-tile 1 counts 2 times");
  expect_said(with_weight([](int k) { return k % 64 / 16 != 2; }),
              ": of the slices 0 to 3 of each k-tile, slice 2 is left out");
  expect_said(with_weight([](int k) { return k / 16 == 5 ? 0 : 1; }),
              ": of the slices of 16 along K, slice 5 is left out");
  expect_said(
      with_weight([](int k) { return k % 2; }),
      ": of the columns 0 to 63 of each tile along K, columns 0, 2, 4, 6, 8, 10, 12, 14 and so on are left out");
  expect_said(with_weight([](int) { return 0.5; }), ": every sum is multiplied by 0.5, and should be by 1");
}

TEST(ProductMistakesTest, NamesPartsOfAThatMeetOtherPartsOfB) {
  Case wrong(kShape);
  wrong.make_sums([&](int r, int c, int k) { return wrong.at_a(r, k) * wrong.at_b(c, k / 64 * 64 + (k % 64 ^ 32)); });
  expect_said(wrong, ": slices of A meet other slices of B in each k-tile: 0 with 2, 1 with 3, 2 with 0, 3 with 1.");
  wrong.make_sums([&](int r, int c, int k) { return wrong.at_a(r, k) * wrong.at_b(c, k % 64); });
  expect_said(wrong, ": k-tiles of A meet other k-tiles of B: 0 with 0, 1 with 0, 2 with 0.");
}

TEST(ProductMistakesTest, NamesRowsAndColumnsThatHaveMoved) {
  Case wrong(kShape);
  wrong.make([&](int r, int c) { return wrong.sum(r ^ 8, c); });
  expect_said(wrong, ": of C, row r has what belongs to row r ^ 8.");
  wrong.make([&](int r, int c) { return wrong.sum(r, c / 128 * 128 + (c + 24) % 128); });
  expect_said(wrong, ": of C, column c of each tile has what belongs to column (c + 24) % 128");
  wrong.make([&](int r, int c) { return wrong.sum(r, c / 128 * 128 + c % 128 / 32 + c % 32); });
  expect_said(wrong, ": of C, groups of 32 columns are taken 1 apart");
  wrong.make([&](int r, int c) {
    const int parts[] = {0, 2, 3, 1};
    return wrong.sum(r, parts[c / 64] * 64 + c % 64);
  });
  expect_said(wrong,
              ": of C, columns 64 to 127 have what belongs to 128 to 191, 128 to 191 have what belongs to 192 to 255, "
              "192 to 255 have what belongs to 64 to 127.");
  wrong.make([&](int r, int c) { return wrong.sum(r / 128 * 128 + c % 128, c / 128 * 128 + r % 128); });
  expect_said(wrong, ": each tile of C is transposed");
  wrong.make([&](int r, int c) { return wrong.sum(r, c ^ r % 8 * 4); });
  expect_said(wrong, ": chunks of 4 columns of C have changed places");
}

TEST(ProductMistakesTest, NamesTilesThatHoldWhatBelongsElsewhere) {
  Case wrong(kShape);
  for (int i = 0; i < 128 * 128; ++i)
    wrong.at(128 + i / 128, i % 128) = static_cast<float>(wrong.sum(i / 128, i % 128));
  expect_said(wrong, ": tiles of C hold what belongs to others: in tile (1, 0) that of tile (0, 0). ");
  expect_said(wrong, "\nwrong are: only in tile (1, 0) (row, column) of C");
  wrong.make([&](int r, int c) { return wrong.sum(r, c) + (r >= 128 ? wrong.sum(r - 128, c) : 0); });
  expect_said(wrong,
              ": the sums of other tiles of C have been added: in tile (1, 0) that of tile (0, 0), in tile (1, 1) "
              "that of tile (0, 1). ");
}

/// The element of an operand that is at the address which a descriptor computes, where the tile is as Tile says.
template <typename Tile>
double at_address(const std::function<double(int row, int k)>& element, uint32_t address) {
  for (int row = 0; row < Tile::rows; ++row) {
    for (int k = 0; k < Tile::columns; ++k) {
      if (Tile::offset_of(row, k) == address) return element(row, k);
    }
  }
  return NAN;
}

TEST(ProductMistakesTest, NamesWrongDescriptors) {
  using ATile = Tile<Element, 128, 64>;
  const ProductShape shape{128, 32, 64, 128, 32, 64};
  Case wrong(shape);
  // As the tensor core computes addresses of an operand that is contiguous along K, with a swizzle of `span` bytes.
  const auto make = [&](uint32_t span, uint32_t stride, uint32_t step) {
    std::vector<double> as_read(128 * 64);
    for (int r = 0; r < 128; ++r) {
      for (int k = 0; k < 64; ++k) {
        const uint32_t linear = k / 16 * step + r / 8 * stride + r % 8 * span + k % 16 * 2;
        const uint32_t chunks = span / 16 - 1;
        as_read[r * 64 + k] = at_address<ATile>([&](int row, int of_k) { return wrong.at_a(row, of_k); },
                                                linear ^ (linear >> 7 & chunks) << 4);
      }
    }
    wrong.make_sums([&](int r, int c, int k) { return as_read[r * 64 + k] * wrong.at_b(c, k); });
  };
  make(128, 1024, 32);
  EXPECT_EQ(wrong.said(), "");
  make(128, 512, 32);
  expect_said(wrong,
              "? Or: tiles of A are read with a stride of 512 bytes from eight lines to the next, which are 1024");
  make(64, 1024, 32);
  expect_said(wrong, ": tiles of A are read with a swizzle of 64 bytes and a stride of 1024 bytes, and written with a");
  make(128, 1024, 16);
  expect_said(wrong, ": tiles of A are read by each MMA 16 bytes after the one before it");
}

TEST(ProductMistakesTest, NamesConversions) {
  Case wrong(kShape);
  wrong.make([&](int r, int c) { return __bfloat162float(__float2bfloat16_rn(static_cast<float>(wrong.sum(r, c)))); });
  expect_said(wrong, ": each element has only the bits of bf16");
  std::vector<Element> cut;
  for (const double sum : wrong.sums) cut.push_back(__float2bfloat16_rz(static_cast<float>(sum)));
  const std::string said = likely_mistake<Element, Element>(cut, wrong.sums, wrong.a, wrong.b, kShape,
                                                            ProductTolerance{.k = static_cast<size_t>(kShape.k)});
  EXPECT_NE(said.find(": each element is cut off towards zero"), std::string::npos) << said;
}

TEST(ProductMistakesTest, NamesElementsThatAreReadInAnotherFormat) {
  const ProductShape shape{64, 64, 64, 64, 64, 64};
  Case wrong(shape);
  const auto as_f16 = [](double value) {
    const auto bits = std::bit_cast<uint16_t>(__float2bfloat16_rn(static_cast<float>(value)));
    return double{__half2float(std::bit_cast<__half>(bits))};
  };
  wrong.make_sums([&](int r, int c, int k) { return as_f16(wrong.at_a(r, k)) * wrong.at_b(c, k); });
  expect_said(wrong, ": the elements of A are bf16, and are read as f16.");
  wrong.make_sums([&](int r, int c, int k) { return as_f16(wrong.at_a(r, k)) * as_f16(wrong.at_b(c, k)); });
  expect_said(wrong, ": the elements of A and B are bf16, and are read as f16.");

  ProductShape of_bytes = shape;
  of_bytes.mma_k = 32;
  const auto a = random_values<__nv_fp8_e5m2>(size_t(of_bytes.m) * of_bytes.k, 1);
  const auto b = random_values<__nv_fp8_e5m2>(size_t(of_bytes.n) * of_bytes.k, 2);
  std::vector<__nv_fp8_e4m3> read_b;
  for (const __nv_fp8_e5m2 element : b) read_b.push_back(std::bit_cast<__nv_fp8_e4m3>(element));
  const auto sums = reference_product<__nv_fp8_e5m2>(a, b, of_bytes.m, of_bytes.n, of_bytes.k);
  std::vector<float> c;
  for (int i = 0; i < of_bytes.m * of_bytes.n; ++i) {
    double sum = 0;
    for (int k = 0; k < of_bytes.k; ++k) {
      sum += double{static_cast<float>(a[size_t(i / of_bytes.n) * of_bytes.k + k])} *
             double{static_cast<float>(read_b[size_t(i % of_bytes.n) * of_bytes.k + k])};
    }
    c.push_back(static_cast<float>(sum));
  }
  const std::string said = likely_mistake<float, __nv_fp8_e5m2>(
      c, sums, a, b, of_bytes,
      ProductTolerance{.k = static_cast<size_t>(of_bytes.k), .output_epsilon = kRounding<float>});
  EXPECT_NE(said.find(": the elements of B are e5m2, and are read as e4m3."), std::string::npos) << said;
}

TEST(ProductMistakesTest, NamesWhatIsMadeOfTheSums) {
  const Case operands(kShape);
  const std::vector<float> bias = random_values<float>(kShape.n, 3);
  const OfSums with_bias = [&](const Guess& sum, int row, int column) { return 2 * sum(row, column) + bias[column]; };
  const auto said = [&](const std::function<double(int row, int column)>& element) {
    Case wrong(kShape);
    wrong.make(element);
    return likely_mistake<float, Element>(wrong.c, wrong.sums, wrong.a, wrong.b, kShape,
                                          ProductTolerance{.k = 192, .output_epsilon = kRounding<float>}, with_bias);
  };
  EXPECT_EQ(said([&](int r, int c) { return 2 * operands.sum(r, c) + bias[c]; }), "");
  EXPECT_NE(said([&](int r, int c) { return operands.sum(r, c); }).find("C is the product itself"), std::string::npos);
  EXPECT_NE(
      said([&](int r, int c) { return 2 * operands.sum(r, c) + bias[c % 128]; }).find("of other columns: every tile"),
      std::string::npos);
}

TEST(ProductMistakesTest, SaysThatNoMistakeFitsAndWhichElementsAreWrong) {
  Case wrong(kShape);
  Random random(7);
  for (int r = 0; r < 256; ++r) {
    for (int c = 64; c < 128 && r % 16 >= 8; ++c) wrong.at(r, c) = 20 * random.uniform();
  }
  EXPECT_EQ(wrong.said(),
            ": none of the usual mistakes makes these numbers\nwrong are: rows 8 to 15 of each 16, "
            "columns 64 to 127 of each tile, only in tiles (0, 0), (1, 0) (row, column) of C");
  Case few(kShape);
  few.at(3, 4) = 0.5f;  // could be any number
  EXPECT_EQ(few.said().substr(0, 55), ": none of the usual mistakes makes these numbers\nwrong ") << few.said();
}

TEST(ProductMistakesTest, TellsWhatNobodyWroteFromNaNsOfTheKernel) {
  Case wrong(kShape);
  for (int c = 0; c < 256; ++c) {
    wrong.at(200, c) = std::bit_cast<float>(0xffffffffu);
    wrong.at(201, c) = std::bit_cast<float>(0x7fffffffu);
  }
  expect_said(wrong, ": to 256 of them nothing was written, and 256 of them are NaN that the kernel has stored");
}

}  // namespace
}  // namespace stagecraft::harness
