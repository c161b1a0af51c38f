// Tiles from matrices in global memory, through the tensor map of their type: every element must be where the
// type says, under every swizzle, whichever index is contiguous, in every size of element.
#include <cstring>

#include "harness/device.hpp"
#include "ring_test.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/tensor_map.hpp"
#include "stagecraft/tile_copy.hpp"

namespace stagecraft::tests {
namespace {

/// One thread asks for a tile; all show its bytes.
template <typename T>
__global__ void show_tile(const __grid_constant__ CUtensorMap map, int row, int column, unsigned char* shown) {
  __shared__ T tile;
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) {
    init_barrier(&barrier, 1);
    fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    expect_bytes(&barrier, T::bytes);
    copy_tile(tile, map, row, column, &barrier);
  }
  wait(&barrier, 0);
  for (uint32_t i = threadIdx.x; i < T::bytes; i += blockDim.x) shown[i] = tile.storage[i];
}

template <typename T>
std::vector<unsigned char> copied(const CUtensorMap& map, int row, int column) {
  harness::DeviceBuffer<unsigned char> shown(T::bytes, "the tile");
  shown.poison();
  show_tile<T><<<1, kThreads>>>(map, row, column, shown.data());
  harness::check(cudaDeviceSynchronize(), "copy a tile");
  return shown.to_host();
}

/// A matrix of random bytes, `bytes` each element, whose lines (rows, or columns if `mn_major`) are padded.
struct Matrix {
  int rows, columns, bits;
  bool mn_major;
  size_t stride;
  std::vector<unsigned char> data;

  Matrix(int rows, int columns, int bits, bool mn_major)
      : rows(rows), columns(columns), bits(bits), mn_major(mn_major) {
    const size_t line = static_cast<size_t>(mn_major ? rows : columns) * bits / 8;
    stride = (line + 15) / 16 * 16 + 32;
    data.resize(stride * (mn_major ? columns : rows));
    harness::Random random(rows * 31 + columns);
    for (unsigned char& byte : data) byte = static_cast<unsigned char>(random.bits());
  }
  /// The element, or zeros beyond the matrix. Elements of 4 bits: the lower one in the lower half of the byte.
  uint64_t element(int row, int column) const {
    if (row < 0 || row >= rows || column < 0 || column >= columns) return 0;
    const size_t line = mn_major ? column : row, index = mn_major ? row : column;
    const unsigned char* at = data.data() + line * stride + index * bits / 8;
    if (bits == 4) return index % 2 == 0 ? *at & 15 : *at >> 4;
    uint64_t value = 0;
    std::memcpy(&value, at, bits / 8);
    return value;
  }
};

template <typename T>
void expect_elements(const std::vector<unsigned char>& bytes, const Matrix& matrix, int first_row, int first_column) {
  for (int row = 0; row < T::rows; ++row) {
    for (int column = 0; column < T::columns; ++column) {
      uint64_t found = 0;
      const unsigned char* at = bytes.data() + T::offset_of(row, column);
      if constexpr (T::bits == 4) {
        found = column % 2 == 0 ? *at & 15 : *at >> 4;
      } else {
        std::memcpy(&found, at, T::bits / 8);
      }
      ASSERT_EQ(found, matrix.element(first_row + row, first_column + column))
          << "row " << row << ", column " << column;
    }
  }
}

template <typename T>
void expect_tile_comes() {
  constexpr int kRows = T::rows + T::rows / 2 + 3, kColumns = 2 * T::columns - (T::bits == 4 ? 2 : 1);
  const Matrix matrix(kRows, kColumns, T::bits, T::major == Major::mn);
  const harness::DeviceBuffer<unsigned char> device(matrix.data, "the matrix");
  const auto map = make_tile_map<T>(reinterpret_cast<const matrix_element<typename T::element_type>*>(device.data()),
                                    kRows, kColumns, matrix.stride);
  expect_elements<T>(copied<T>(map, 0, 0), matrix, 0, 0);
  expect_elements<T>(copied<T>(map, T::rows, T::columns), matrix, T::rows, T::columns);  // hangs over both edges
  constexpr int kBefore = T::major == Major::k ? -T::rows / 2 : -128 / T::bits;  // the contiguous index by 16 bytes
  expect_elements<T>(copied<T>(map, kBefore, T::columns), matrix, kBefore, T::columns);
}

template <typename Element, Swizzle S>
void expect_tiles_of_both_majors() {
  constexpr int kLine = static_cast<int>(swizzle_span(S)) * 8 / element_bits<Element>;
  expect_tile_comes<Tile<Element, 40, kLine, S>>();
  expect_tile_comes<Tile<Element, 16, 3 * kLine, S>>();
  if constexpr (element_bits<Element> >= 8) {
    expect_tile_comes<Tile<Element, kLine, 40, S, Major::mn>>();
    expect_tile_comes<Tile<Element, 2 * kLine, 16, S, Major::mn>>();
  }
}

template <typename Element>
void expect_tiles_of_all_swizzles() {
  expect_tiles_of_both_majors<Element, Swizzle::none>();
  expect_tiles_of_both_majors<Element, Swizzle::bytes_32>();
  expect_tiles_of_both_majors<Element, Swizzle::bytes_64>();
  expect_tiles_of_both_majors<Element, Swizzle::bytes_128>();
}

TEST(TileCopyTest, BringsElementsOf16Bits) {
  expect_tiles_of_all_swizzles<__nv_bfloat16>();
  expect_tiles_of_all_swizzles<__half>();
}
TEST(TileCopyTest, BringsElementsOf8Bits) {
  expect_tiles_of_all_swizzles<__nv_fp8_e4m3>();
  expect_tiles_of_all_swizzles<__nv_fp8_e5m2>();
}
TEST(TileCopyTest, BringsElementsOf32Bits) { expect_tiles_of_all_swizzles<float>(); }
TEST(TileCopyTest, BringsElementsOf4Bits) {
  if (harness::current_device().major < 10) GTEST_SKIP() << "elements of 4 bits need compute capability 10";
  expect_tiles_of_all_swizzles<__nv_fp4_e2m1>();
}
TEST(TileCopyTest, BringsChunksOf32Bytes) {
  if (harness::current_device().major < 10) GTEST_SKIP() << "chunks of 32 bytes need compute capability 10";
  expect_tiles_of_both_majors<float, Swizzle::bytes_128_atom_32>();
}

// tf32 is not copied bit by bit, but rounded to nearest, to even where there are two.
TEST(TileCopyTest, RoundsToTf32) {
  using T = Tile<tf32, 8, 4, Swizzle::none>;
  const std::vector<uint32_t> words = {
      0x3f800fff, 0x3f801000, 0x3f801001, 0x3f803000,   // below, at, above half; to even
      0xbf802fff, 0x00000000, 0x80000000, 0x7f7fffff};  // negative; zeros; to infinity
  const std::vector<uint32_t> rounded = {0x3f800000, 0x3f800000, 0x3f802000, 0x3f804000,
                                         0xbf802000, 0x00000000, 0x80000000, 0x7f800000};
  const harness::DeviceBuffer<uint32_t> device(words, "the matrix");
  const auto bytes = copied<T>(make_tile_map<T>(reinterpret_cast<const float*>(device.data()), 2, 4), 0, 0);
  for (int i = 0; i < 8; ++i) {
    uint32_t found = 0;
    std::memcpy(&found, bytes.data() + T::offset_of(i / 4, i % 4), 4);
    EXPECT_EQ(found, rounded[i]) << i;
  }
}

TEST(TileCopyTest, BringsPlainTiles) {
  using T = PlainTile<float, 2, 100>;
  const Matrix matrix(5, 160, 32, false);
  const harness::DeviceBuffer<unsigned char> device(matrix.data, "the matrix");
  const auto map = make_tile_map<T>(reinterpret_cast<const float*>(device.data()), 5, 160, matrix.stride);
  expect_elements<T>(copied<T>(map, 0, 0), matrix, 0, 0);
  expect_elements<T>(copied<T>(map, 4, 100), matrix, 4, 100);
}

TEST(TileCopyTest, BringsScaleFactors) {
  using T = ScaleFactorTile<__nv_fp8_e8m0, 256, 8>;
  constexpr int kRows = 384, kBlocks = 12;  // 3 x 3 atoms
  using All = ScaleFactorTile<__nv_fp8_e8m0, kRows, kBlocks>;
  std::vector<unsigned char> all(All::bytes);
  harness::Random random(5);
  for (unsigned char& byte : all) byte = static_cast<unsigned char>(random.bits());
  const harness::DeviceBuffer<unsigned char> device(all, "the scale factors");
  const auto map = make_tile_map<T>(reinterpret_cast<const __nv_fp8_e8m0*>(device.data()), kRows, kBlocks);
  for (const auto& [first_row, first_block] : {std::pair{0, 0}, {128, 4}}) {
    const auto bytes = copied<T>(map, first_row, first_block);
    for (int row = 0; row < T::rows; ++row) {
      for (int block = 0; block < T::columns; ++block) {
        ASSERT_EQ(bytes[T::offset_of(row, block)], all[All::offset_of(first_row + row, first_block + block)])
            << "row " << row << ", block " << block;
      }
    }
  }
}

TEST(TileMapTest, SaysWhatItCannotDescribe) {
  const auto refusal = [](auto describe) -> std::string {
    try {
      describe();
    } catch (const TensorMapError& error) {
      return error.what();
    }
    return "accepted";
  };
  const auto* bf16 = reinterpret_cast<const __nv_bfloat16*>(0x1000);
  EXPECT_EQ(refusal([&] { make_tile_map<Tile<__nv_bfloat16, 8, 64>>(bf16, 100, 33); }),
            "tensor map: dimension 1: a stride of 66 bytes; it must be a multiple of 16 below 2^40. Pad the rows.");
  EXPECT_EQ(refusal([&] { make_tile_map<Tile<__nv_bfloat16, 64, 8, Swizzle::bytes_128, Major::mn>>(bf16, 33, 100); }),
            "tensor map: dimension 1: a stride of 66 bytes; it must be a multiple of 16 below 2^40. Pad the rows.");
  const auto* scales = reinterpret_cast<const __nv_fp8_e8m0*>(0x1000);
  EXPECT_EQ(
      refusal([&] { make_tile_map<ScaleFactorTile<__nv_fp8_e8m0, 128, 4>>(scales, 100, 4); }),
      "tensor map: scale factors of 100 rows and 4 blocks; they come in atoms of 128 rows and 4 blocks. Pad them.");
}

}  // namespace
}  // namespace stagecraft::tests
