// Accumulators of every layout through TileWriter and RowWriter, to C of every type, over every edge: bit by bit what
// rounding the sums on the host gives, and nothing written beside it.
#include "epilogue_test.hpp"

namespace stagecraft::tests {
namespace {

template <typename Element>
bool same_bits(Element left, Element right) {
  return std::memcmp(&left, &right, sizeof left) == 0;
}

/// Tiles that hang over both edges, full ones, and a last one of few rows and columns.
template <typename Accumulator, typename Element, int NumBuffers = 2, int MaxColumns = 128>
void expect_rounded_sums(uint64_t seed) {
  if (!can_run()) GTEST_SKIP() << "only compute capability 10.x has tensor memory";
  using Writer = TileWriter<Accumulator, Element, 1, NumBuffers, MaxColumns>;
  constexpr int kRows = WarpPart<Accumulator>::block_rows, kColumns = Accumulator::columns;
  constexpr int kAligned = 16 / static_cast<int>(sizeof(Element));
  struct Shape {
    int rows, columns;
  };
  for (const Shape shape : {Shape{2 * kRows + 5, kColumns + kAligned}, Shape{kRows, kColumns}, Shape{1, kAligned}}) {
    const auto sums = random_sums(shape.rows, shape.columns, 2, seed + shape.rows);
    const auto c = written<Writer, Element>(sums, Epilogue<>{});
    expect_elements(c, [&](int batch, int row, int column, Element element) {
      return same_bits(element, Element(sums.get(batch, row, column)));
    });
  }
}

template <typename Element>
void expect_all_layouts() {
  expect_rounded_sums<TmemTensor<128, 256>, Element>(1);
  expect_rounded_sums<TmemTensor<128, 48>, Element>(2);
  expect_rounded_sums<TmemTensor<128, 16>, Element>(3);
  expect_rounded_sums<TmemTensor<64, 256>, Element>(4);
  expect_rounded_sums<TmemTensor<64, 16>, Element>(5);
  expect_rounded_sums<TmemTensor<256, 256, 2>, Element>(6);
  expect_rounded_sums<TmemTensor<256, 80, 2>, Element>(7);
  expect_rounded_sums<TmemTensor<128, 256, 2>, Element>(8);
  expect_rounded_sums<TmemTensor<128, 32, 2>, Element>(9);
}

TEST(TileWriterTest, WritesF32) {
  expect_all_layouts<float>();
  expect_rounded_sums<TmemTensor<64, 8>, float>(10);
  expect_rounded_sums<TmemTensor<128, 16, 2>, float>(11);
}
TEST(TileWriterTest, WritesBf16) {
  expect_all_layouts<__nv_bfloat16>();
  expect_rounded_sums<TmemTensor<128, 16, 2>, __nv_bfloat16>(12);
}
TEST(TileWriterTest, WritesF16) {
  expect_rounded_sums<TmemTensor<128, 128>, __half>(13);
  expect_rounded_sums<TmemTensor<64, 32>, __half>(14);
  expect_rounded_sums<TmemTensor<128, 64, 2>, __half>(15);
}
TEST(TileWriterTest, WritesE4m3AndSaturates) { expect_all_layouts<__nv_fp8_e4m3>(); }
TEST(TileWriterTest, WritesE5m2) { expect_rounded_sums<TmemTensor<128, 64>, __nv_fp8_e5m2>(16); }

TEST(TileWriterTest, WritesWithOneToFourBuffers) {
  expect_rounded_sums<TmemTensor<128, 256>, __nv_bfloat16, 1>(17);
  expect_rounded_sums<TmemTensor<128, 256>, __nv_bfloat16, 3>(18);
  expect_rounded_sums<TmemTensor<128, 256>, __nv_bfloat16, 4>(19);
}
TEST(TileWriterTest, WritesSlicesOf32Columns) {
  expect_rounded_sums<TmemTensor<128, 128>, __nv_fp8_e4m3, 2, 32>(20);
  expect_rounded_sums<TmemTensor<128, 128>, __nv_bfloat16, 2, 32>(21);
}

// Why stores_end_with_rows() must be asked: rows of 70 elements of bf16, and 2 elements of a gap that a store writes
// to.
TEST(TileWriterTest, CutsRowsOffAtAMultipleOf16Bytes) {
  if (!can_run()) GTEST_SKIP() << "only compute capability 10.x has tensor memory";
  EXPECT_FALSE(stores_end_with_rows<__nv_bfloat16>(70));
  EXPECT_TRUE(stores_end_with_rows<__nv_bfloat16>(72));
  EXPECT_TRUE(stores_end_with_rows<__nv_fp4_e2m1>(96));
  const auto sums = random_sums(40, 70, 1, 22);
  const auto d = written<TileWriter<TmemTensor<128, 128>, __nv_bfloat16>, __nv_bfloat16>(sums, Epilogue<>{});
  for (int row = 0; row < 40; ++row) {
    EXPECT_TRUE(same_bits(d.get(0, row, 69), __nv_bfloat16(sums.get(0, row, 69)))) << "row " << row;
    const unsigned char* const gap = d.bytes.data() + d.offset(0, row, 70);
    EXPECT_FALSE(gap[0] == 0xff && gap[1] == 0xff) << "row " << row;
    for (int i = 4; i < d.row_bytes - 140; ++i) ASSERT_EQ(gap[i], 0xff) << "row " << row << ", byte " << i;
  }
}

TEST(TileWriterTest, CutsWideAccumulatorsIntoLinesOf128Bytes) {
  using F32 = TileWriter<TmemTensor<128, 256>, float>;
  EXPECT_EQ(F32::Slices::columns, 32);
  EXPECT_EQ(F32::SliceTile::swizzle, Swizzle::bytes_128);
  using E4m3 = TileWriter<TmemTensor<64, 48>, __nv_fp8_e4m3>;
  EXPECT_EQ(E4m3::Slices::columns, 16);
  EXPECT_EQ(E4m3::SliceTile::swizzle, Swizzle::none);
  EXPECT_EQ((TileWriter<TmemTensor<128, 256, 2>, __nv_bfloat16>::Slices::count), 2);
}

/// Rows that begin anywhere, as TMA cannot store them.
template <typename Accumulator, typename Element>
void expect_rows(int rows, int columns, uint64_t seed) {
  if (!can_run()) GTEST_SKIP() << "only compute capability 10.x has tensor memory";
  using Writer = RowWriter<Accumulator, Element>;
  const auto sums = random_sums(rows, columns, 2, seed);
  const harness::DeviceBuffer<unsigned char> device_sums(sums.bytes, "the sums");
  Matrices<Element> c(rows, columns, 2);
  c.row_bytes = (columns + 3) * sizeof(Element);
  c.batch_bytes = rows * c.row_bytes + sizeof(Element);
  c.bytes.assign(2 * c.batch_bytes, 0xff);
  const harness::DeviceBuffer<unsigned char> device_c(c.bytes, "C");
  launch_epilogue(write_by_rows<Writer, Element, Epilogue<>>, 2, 0, reinterpret_cast<Element*>(device_c.data()),
                  c.row_bytes / static_cast<int64_t>(sizeof(Element)),
                  c.batch_bytes / static_cast<int64_t>(sizeof(Element)),
                  Sums{reinterpret_cast<const float*>(device_sums.data()), rows, columns, 2}, Epilogue<>{});
  c.bytes = device_c.to_host();
  expect_elements(c, [&](int batch, int row, int column, Element element) {
    return same_bits(element, Element(sums.get(batch, row, column)));
  });
}

TEST(RowWriterTest, WritesRowsThatBeginAnywhere) {
  expect_rows<TmemTensor<128, 64>, float>(131, 67, 1);
  expect_rows<TmemTensor<128, 64>, __nv_bfloat16>(131, 67, 2);
  expect_rows<TmemTensor<64, 32>, __nv_fp8_e4m3>(70, 77, 3);
  expect_rows<TmemTensor<128, 64, 2>, __half>(70, 77, 4);
  expect_rows<TmemTensor<128, 64>, __nv_bfloat16>(128, 61, 5);  // whose stride of 64 elements is aligned
}

}  // namespace
}  // namespace stagecraft::tests
