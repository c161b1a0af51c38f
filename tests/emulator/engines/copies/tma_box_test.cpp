// Boxes of tensors in shared memory: layouts measured on an H200, and random boxes against a plain reference.
#include "emulator/engines/copies/tma_box.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace stagecraft::emulator::machine {
namespace {

constexpr auto kUntouched = std::byte{0xee};

/// A tensor of 16-bit integers, element (row, column) = 64 * row + column, whose rows are 64 elements apart.
struct Tensor {
  std::vector<uint16_t> values;
  TensorMap map;

  Tensor(uint32_t columns, uint32_t rows, uint16_t box_columns, uint16_t box_rows, TensorSwizzle swizzle) {
    values.resize(64 * 64 + 8);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint16_t>(i);
    map.mark = kTensorMapMark;
    map.address = reinterpret_cast<uint64_t>(values.data());
    map.strides[0] = 128;
    map.last_index = {columns - 1, rows - 1};
    map.box = {box_columns, box_rows};
    map.element_strides = {1, 1};
    map.rank = 2;
    map.element = TensorElement::u16;
    map.swizzle = swizzle;
  }
  TensorBox box(int64_t column, int64_t row) const {
    TensorBox box;
    box.map = map;
    box.start = {column, row};
    box.measure();
    return box;
  }
};

/// Shared memory with a box loaded at `offset`.
std::vector<std::byte> loaded(const TensorBox& box, uint32_t offset = 1024, uint32_t bytes = 8192) {
  std::vector<std::byte> window(bytes, kUntouched);
  load_box(box, window.data(), offset);
  return window;
}
uint16_t half_at(const std::vector<std::byte>& window, uint32_t address) {
  uint16_t value;
  std::memcpy(&value, window.data() + address, 2);
  return value;
}

/// The 16-byte pieces of a tile of 128-byte lines as "row.piece" of the tensor, ".." where nothing was written.
std::string pieces(const std::vector<std::byte>& window, int lines) {
  std::string text;
  for (int line = 0; line < lines; ++line) {
    for (int piece = 0; piece < 8; ++piece) {
      const uint16_t first = half_at(window, static_cast<uint32_t>(1024 + line * 128 + piece * 16));
      text += first == 0xeeee ? ".. " : std::to_string(first / 64) + "." + std::to_string(first % 64 / 8) + " ";
    }
    text += "\n";
  }
  return text;
}

// The pictures of the next tests were measured on an H200.

TEST(TensorBoxTest, Swizzles128BytesByTheLine) {
  const Tensor tensor(64, 64, 64, 8, TensorSwizzle::span_128);
  EXPECT_EQ(pieces(loaded(tensor.box(0, 0)), 9),
            "0.0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 \n"
            "1.1 1.0 1.3 1.2 1.5 1.4 1.7 1.6 \n"
            "2.2 2.3 2.0 2.1 2.6 2.7 2.4 2.5 \n"
            "3.3 3.2 3.1 3.0 3.7 3.6 3.5 3.4 \n"
            "4.4 4.5 4.6 4.7 4.0 4.1 4.2 4.3 \n"
            "5.5 5.4 5.7 5.6 5.1 5.0 5.3 5.2 \n"
            "6.6 6.7 6.4 6.5 6.2 6.3 6.0 6.1 \n"
            "7.7 7.6 7.5 7.4 7.3 7.2 7.1 7.0 \n"
            ".. .. .. .. .. .. .. .. \n");
}

TEST(TensorBoxTest, TakesTheSwizzleFromTheAddressNotFromTheBox) {
  const Tensor tensor(64, 64, 64, 8, TensorSwizzle::span_128);
  EXPECT_EQ(pieces(loaded(tensor.box(0, 0), 1024 + 128), 3),
            ".. .. .. .. .. .. .. .. \n"
            "0.1 0.0 0.3 0.2 0.5 0.4 0.7 0.6 \n"
            "1.2 1.3 1.0 1.1 1.6 1.7 1.4 1.5 \n");
}

TEST(TensorBoxTest, Swizzles64And32Bytes) {
  const Tensor wide(64, 64, 32, 8, TensorSwizzle::span_64);
  EXPECT_EQ(pieces(loaded(wide.box(0, 0)), 4),
            "0.0 0.1 0.2 0.3 1.0 1.1 1.2 1.3 \n"
            "2.1 2.0 2.3 2.2 3.1 3.0 3.3 3.2 \n"
            "4.2 4.3 4.0 4.1 5.2 5.3 5.0 5.1 \n"
            "6.3 6.2 6.1 6.0 7.3 7.2 7.1 7.0 \n");
  const Tensor narrow(64, 64, 16, 8, TensorSwizzle::span_32);
  EXPECT_EQ(pieces(loaded(narrow.box(0, 0)), 3),
            "0.0 0.1 1.0 1.1 2.0 2.1 3.0 3.1 \n"
            "4.1 4.0 5.1 5.0 6.1 6.0 7.1 7.0 \n"
            ".. .. .. .. .. .. .. .. \n");
}

TEST(TensorBoxTest, KeepsTheSpanAsPitchOfNarrowBoxes) {
  const Tensor three(64, 64, 24, 4, TensorSwizzle::span_128);
  EXPECT_EQ(pieces(loaded(three.box(0, 0)), 4),
            "0.0 0.1 0.2 .. .. .. .. .. \n"
            "1.1 1.0 .. 1.2 .. .. .. .. \n"
            "2.2 .. 2.0 2.1 .. .. .. .. \n"
            ".. 3.2 3.1 3.0 .. .. .. .. \n");
  const Tensor one(64, 64, 8, 3, TensorSwizzle::span_128);
  EXPECT_EQ(pieces(loaded(one.box(0, 0)), 3),
            "0.0 .. .. .. .. .. .. .. \n"
            ".. 1.0 .. .. .. .. .. .. \n"
            ".. .. 2.0 .. .. .. .. .. \n");
  const Tensor two(64, 64, 16, 4, TensorSwizzle::span_64);
  EXPECT_EQ(pieces(loaded(two.box(0, 0)), 2),
            "0.0 0.1 .. .. 1.0 1.1 .. .. \n"
            "2.1 2.0 .. .. 3.1 3.0 .. .. \n");
  const Tensor plain(64, 64, 24, 4, TensorSwizzle::none);
  EXPECT_EQ(pieces(loaded(plain.box(0, 0)), 2),
            "0.0 0.1 0.2 1.0 1.1 1.2 2.0 2.1 \n"
            "2.2 3.0 3.1 3.2 .. .. .. .. \n");
}

TEST(TensorBoxTest, CountsTheWholeBoxWithoutItsGaps) {
  const auto bytes = [](uint16_t columns, uint16_t rows, TensorSwizzle swizzle, uint8_t stride, int64_t column) {
    Tensor tensor(60, 6, columns, rows, swizzle);
    tensor.map.element_strides[1] = stride;
    return tensor.box(column, 2).bytes();
  };
  EXPECT_EQ(bytes(32, 8, TensorSwizzle::none, 1, 0), 512u);
  EXPECT_EQ(bytes(32, 8, TensorSwizzle::span_128, 1, 0), 512u);
  EXPECT_EQ(bytes(8, 8, TensorSwizzle::span_128, 1, 0), 128u);
  EXPECT_EQ(bytes(16, 8, TensorSwizzle::span_64, 1, 48), 256u);
  EXPECT_EQ(bytes(16, 8, TensorSwizzle::none, 1, 1000), 256u);
  EXPECT_EQ(bytes(16, 8, TensorSwizzle::none, 2, 0), 128u);
  EXPECT_EQ(bytes(16, 7, TensorSwizzle::none, 3, 0), 96u);
}

TEST(TensorBoxTest, FillsWhatIsOutOfBoundsElementByElement) {
  const Tensor tensor(60, 6, 16, 6, TensorSwizzle::none);
  const auto window = loaded(tensor.box(48, 2));
  for (uint32_t row = 0; row < 6; ++row) {
    for (uint32_t column = 0; column < 16; ++column) {
      const bool inside = row + 2 < 6 && column + 48 < 60;
      EXPECT_EQ(half_at(window, 1024 + row * 32 + column * 2), inside ? (row + 2) * 64 + column + 48 : 0u);
    }
  }
  const auto left = loaded(tensor.box(-8, -1));
  EXPECT_EQ(half_at(left, 1024 + 16), 0u) << "row -1";
  EXPECT_EQ(half_at(left, 1024 + 32), 0u) << "column -8";
  EXPECT_EQ(half_at(left, 1024 + 32 + 16), 0u);
  EXPECT_EQ(half_at(left, 1024 + 32 + 18), 1u);
  EXPECT_EQ(half_at(left, 1024 + 64 + 16), 64u);
}

TEST(TensorBoxTest, FillsWithNansOnRequest) {
  Tensor tensor(64, 64, 16, 8, TensorSwizzle::none);
  tensor.map.fill = TensorFill::nan;
  for (const TensorElement element : {TensorElement::f16, TensorElement::bf16}) {
    tensor.map.element = element;
    EXPECT_EQ(half_at(loaded(tensor.box(1000, 0)), 1024), 0x7ff7u);
  }
  tensor.map.element = TensorElement::f32;
  tensor.map.last_index[0] = 31;
  const auto window = loaded(tensor.box(1000, 0));
  EXPECT_EQ(half_at(window, 1024), 0x7ff7u);
  EXPECT_EQ(half_at(window, 1026), 0x7ff7u);
}

TEST(TensorBoxTest, TakesEveryNthRowWithElementStrides) {
  Tensor tensor(64, 64, 16, 8, TensorSwizzle::none);
  tensor.map.element_strides[1] = 2;
  auto window = loaded(tensor.box(0, 1));
  EXPECT_EQ(half_at(window, 1024), 0x40u);
  EXPECT_EQ(half_at(window, 1024 + 32), 0xc0u);
  EXPECT_EQ(half_at(window, 1024 + 3 * 32), 0x1c0u);
  EXPECT_EQ(half_at(window, 1024 + 4 * 32), 0xeeeeu);
  tensor.map.box[1] = 7;
  tensor.map.element_strides[1] = 3;
  window = loaded(tensor.box(0, 1));
  EXPECT_EQ(half_at(window, 1024 + 32), 0x100u);
  EXPECT_EQ(half_at(window, 1024 + 64), 0x1c0u);
  EXPECT_EQ(half_at(window, 1024 + 96), 0xeeeeu);
}

TEST(TensorBoxTest, RoundsTf32OnLoads) {
  const uint32_t from[12] = {0x3f800000, 0x3f800fff, 0x3f801000, 0x3f801001, 0x3f803000, 0x3f801800,
                             0x00000001, 0x807fffff, 0x7fc12345, 0x7f800001, 0x7f7fffff, 0xff800000};
  const uint32_t to[12] = {0x3f800000, 0x3f800000, 0x3f800000, 0x3f802000, 0x3f804000, 0x3f802000,
                           0x00000000, 0x80800000, 0x7fffe000, 0x7fffe000, 0x7f800000, 0xff800000};
  for (const bool rounds : {false, true}) {
    TensorBox box;
    box.map.mark = kTensorMapMark;
    box.map.address = reinterpret_cast<uint64_t>(from);
    box.map.last_index = {11};
    box.map.box = {12};
    box.map.element_strides = {1};
    box.map.rank = 1;
    box.map.element = rounds ? TensorElement::tf32_ftz : TensorElement::f32_ftz;
    box.measure();
    const auto window = loaded(box);
    EXPECT_EQ(std::memcmp(window.data() + 1024, rounds ? to : from, sizeof to), 0);
  }
}

TEST(TensorBoxTest, LeavesRoomBehindNibblesAndSixBitElements) {
  std::vector<uint8_t> bytes(256);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i);
  for (const uint32_t payload : {8u, 12u}) {
    TensorBox box;
    box.map.mark = kTensorMapMark;
    box.map.address = reinterpret_cast<uint64_t>(bytes.data());
    box.map.last_index = {127};
    box.map.box = {128};
    box.map.element_strides = {1};
    box.map.rank = 1;
    box.map.element = payload == 8 ? TensorElement::u4_unpacked : TensorElement::u6_unpacked;
    box.measure();
    EXPECT_EQ(box.bytes(), 8 * payload) << "barriers count what is moved";
    const auto window = loaded(box);
    for (uint32_t i = 0; i < 128; ++i) {
      const std::byte expected = i % 16 < payload ? std::byte(i / 16 * payload + i % 16) : kUntouched;
      EXPECT_EQ(window[1024 + i], expected) << i;
    }
  }
}

TEST(TensorBoxTest, PacksSixBitElementsOnStores) {
  std::vector<uint8_t> bytes(96);
  TensorBox box;
  box.map.mark = kTensorMapMark;
  box.map.address = reinterpret_cast<uint64_t>(bytes.data());
  box.map.last_index = {127};
  box.map.box = {128};
  box.map.element_strides = {1};
  box.map.rank = 1;
  box.map.element = TensorElement::u6_unpacked;
  box.measure();
  std::vector<std::byte> window(2048);
  for (uint32_t i = 0; i < 128; ++i) window[1024 + i] = std::byte((i * 37) & 63);
  const auto rows = gather_box(box, window.data(), 1024);
  ASSERT_EQ(rows.size(), 96u);
  for (uint32_t i = 0; i < 128; ++i) {
    uint32_t value = 0;
    for (uint32_t bit = 0; bit < 6; ++bit) {
      const uint32_t at = i * 6 + bit;
      value |= (std::to_integer<uint32_t>(rows[at / 8]) >> (at % 8) & 1) << bit;
    }
    EXPECT_EQ(value, (i * 37) & 63) << i;
  }
}

TEST(TensorBoxTest, CutsStoresAtPiecesOf16Bytes) {
  // Measured: in a tensor of 60 columns, the piece with columns 56 to 59 is written to its end.
  Tensor tensor(60, 6, 16, 6, TensorSwizzle::none);
  const TensorBox box = tensor.box(48, 2);
  std::vector<std::byte> window(4096, std::byte{0x55});
  size_t elements = 0;
  scatter_box(box, gather_box(box, window.data(), 1024),
              [&](uint64_t, const std::byte*, uint32_t count) { elements += count / 2; });
  EXPECT_EQ(elements, 64u);
}

/// The reference: copies one element at a time, and transforms the address bit by bit.
class Reference {
 public:
  static uint32_t place(uint32_t address, TensorSwizzle swizzle) {
    const auto bit = [&](int i) { return address >> i & 1; };
    switch (swizzle) {
      case TensorSwizzle::span_32: return address ^ bit(7) << 4;
      case TensorSwizzle::span_64: return address ^ bit(7) << 4 ^ bit(8) << 5;
      case TensorSwizzle::span_128: return address ^ bit(7) << 4 ^ bit(8) << 5 ^ bit(9) << 6;
      case TensorSwizzle::span_128_atom_32: return address ^ bit(7) << 5 ^ bit(8) << 6;
      case TensorSwizzle::span_128_atom_32_flip_8: return address ^ bit(7) << 5 ^ bit(8) << 6 ^ bit(7) << 3;
      case TensorSwizzle::span_128_atom_64: return address ^ bit(7) << 6;
      default: return address;
    }
  }

  /// Calls visit(inside, global address, shared address) for every element.
  template <typename Visit>
  static void walk(const TensorBox& box, uint32_t offset, Visit&& visit) {
    const TensorMap& map = box.map;
    const uint32_t size = bits_of(map.element) / 8;
    uint32_t n[5] = {map.box[0], 1, 1, 1, 1};
    for (int i = 1; i < map.rank; ++i) n[i] = (map.box[i] + map.element_strides[i] - 1u) / map.element_strides[i];
    const uint32_t inner = map.box[0] * size;
    const uint32_t pitch = map.swizzle == TensorSwizzle::none ? inner : span_of(map.swizzle);
    uint32_t b[5];
    for (b[4] = 0; b[4] < n[4]; ++b[4])
      for (b[3] = 0; b[3] < n[3]; ++b[3])
        for (b[2] = 0; b[2] < n[2]; ++b[2])
          for (b[1] = 0; b[1] < n[1]; ++b[1])
            for (b[0] = 0; b[0] < n[0]; ++b[0]) {
              bool inside = true;
              int64_t global = static_cast<int64_t>(map.address);
              for (int i = 0; i < map.rank; ++i) {
                const int64_t g = box.start[i] + int64_t{b[i]} * (i == 0 ? 1 : map.element_strides[i]);
                inside = inside && g >= 0 && g < static_cast<int64_t>(map.extent(i));
                global += g * static_cast<int64_t>(i == 0 ? size : map.strides[i - 1]);
              }
              const uint32_t row = ((b[4] * n[3] + b[3]) * n[2] + b[2]) * n[1] + b[1];
              visit(inside, static_cast<uint64_t>(global), place(offset + row * pitch + b[0] * size, map.swizzle));
            }
  }
};

TEST(TensorBoxTest, AgreesWithAPlainReferenceOnRandomBoxes) {
  std::mt19937 random(20261120);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  const TensorElement kElements[] = {TensorElement::u8,  TensorElement::bf16, TensorElement::f32,
                                     TensorElement::u64, TensorElement::u16,  TensorElement::f64};
  std::vector<std::byte> global(256 << 10);
  for (std::byte& byte : global) byte = std::byte(pick(0, 255));
  for (int round = 0; round < 600; ++round) {
    TensorBox box;
    TensorMap& map = box.map;
    map.mark = kTensorMapMark;
    map.address = (reinterpret_cast<uint64_t>(global.data()) + 15) / 16 * 16;
    map.rank = static_cast<uint8_t>(pick(1, 5));
    map.element = kElements[pick(0, 5)];
    map.swizzle = static_cast<TensorSwizzle>(pick(0, 6));
    const uint32_t size = bits_of(map.element) / 8, per_piece = 16 / size;
    const uint32_t span = map.swizzle == TensorSwizzle::none ? 128 : span_of(map.swizzle);
    map.box[0] = static_cast<uint16_t>(per_piece * static_cast<uint32_t>(pick(1, static_cast<int>(span / 16))));
    map.last_index[0] = static_cast<uint32_t>(pick(1, 200));
    uint64_t stride = (map.extent(0) * size + 15) / 16 * 16;
    for (int i = 1; i < map.rank; ++i) {
      map.box[i] = static_cast<uint16_t>(pick(1, i == 1 ? 8 : 3));
      map.element_strides[i] = static_cast<uint8_t>(pick(1, 3));
      map.last_index[i] = static_cast<uint32_t>(pick(0, 4));
      map.strides[i - 1] = stride;
      stride *= map.extent(i);
    }
    map.element_strides[0] = 1;
    if (stride > (200u << 10)) continue;
    if (is_floating(map.element) && pick(0, 1) == 1) map.fill = TensorFill::nan;
    ASSERT_EQ(find_flaw(map), "");
    box.start[0] = pick(-3, 8) * static_cast<int>(per_piece);
    for (int i = 1; i < map.rank; ++i) box.start[i] = pick(-3, 5);
    box.measure();
    ASSERT_TRUE(box.start_is_aligned());

    const uint32_t offset = 1024 + 128 * static_cast<uint32_t>(pick(0, 9));
    ASSERT_LE(box.shared_bytes(), 512u << 10);
    std::vector<std::byte> window(2048 + offset + box.shared_bytes(), kUntouched), expected = window;
    load_box(box, window.data(), offset);
    uint32_t bytes = 0;
    Reference::walk(box, offset, [&](bool inside, uint64_t from, uint32_t to) {
      for (uint32_t i = 0; i < size; ++i) {
        // One byte at a time, because the flip moves halves of 16 bytes apart but never parts of an element.
        const auto nan = static_cast<uint8_t>(i % 2 == 0 ? 0xf7 : 0x7f);
        expected[to + i] = inside                        ? *reinterpret_cast<const std::byte*>(from + i)
                           : map.fill == TensorFill::nan ? std::byte{nan}
                                                         : std::byte{0};
      }
      bytes += size;
    });
    EXPECT_EQ(box.bytes(), bytes);
    ASSERT_EQ(window, expected) << "round " << round << " rank " << int{map.rank} << " " << name_of(map.swizzle);

    // Storing what was loaded changes nothing within the tensor.
    const auto rows = gather_box(box, window.data(), offset);
    scatter_box(box, rows, [&](uint64_t address, const std::byte* source, uint32_t count) {
      const uint64_t inside = std::min<uint64_t>(count, box.inside_end - box.inside_first);
      EXPECT_EQ(std::memcmp(DeviceMemory::host(address), source, inside), 0) << "round " << round;
    });
  }
}

}  // namespace
}  // namespace stagecraft::emulator::machine
