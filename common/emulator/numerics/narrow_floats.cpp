#include "emulator/numerics/narrow_floats.hpp"

namespace stagecraft::emulator::machine {
namespace {

template <typename Decode>
constexpr std::array<float, 256> table_of(Decode decode) {
  std::array<float, 256> table{};
  for (uint32_t code = 0; code < 256; ++code) table[code] = decode(code);
  return table;
}

constexpr std::array<float, 256> kE4m3 = table_of(from_e4m3);
constexpr std::array<float, 256> kE5m2 = table_of(from_e5m2);
constexpr std::array<float, 256> kE2m3 = table_of(from_e2m3);
constexpr std::array<float, 256> kE3m2 = table_of(from_e3m2);
constexpr std::array<float, 256> kE2m1 = table_of([](uint32_t code) { return from_e2m1(code >> 2 & 15); });
constexpr std::array<float, 256> kE2m1Packed = table_of([](uint32_t code) { return from_e2m1(code & 15); });
constexpr std::array<float, 256> kU8 = table_of([](uint32_t code) { return static_cast<float>(code); });
constexpr std::array<float, 256> kS8 =
    table_of([](uint32_t code) { return static_cast<float>(static_cast<int8_t>(code)); });
constexpr std::array<float, 256> kU4 = table_of([](uint32_t code) { return static_cast<float>(code & 15); });
constexpr std::array<float, 256> kS4 = table_of(
    [](uint32_t code) { return static_cast<float>(code & 15) - static_cast<float>((code & 8) != 0 ? 16 : 0); });

}  // namespace

const std::array<float, 256>& values_of(ElementFormat format) {
  switch (format) {
    case ElementFormat::e5m2: return kE5m2;
    case ElementFormat::e2m3: return kE2m3;
    case ElementFormat::e3m2: return kE3m2;
    case ElementFormat::e2m1: return kE2m1;
    case ElementFormat::e2m1_packed: return kE2m1Packed;
    case ElementFormat::u8: return kU8;
    case ElementFormat::s8: return kS8;
    case ElementFormat::u4: return kU4;
    case ElementFormat::s4: return kS4;
    default: return kE4m3;
  }
}

void unpack_chunk(ElementFormat format, const uint8_t* packed, uint8_t* containers) {
  const uint32_t bits = format == ElementFormat::e2m1 ? 4 : 6;
  const uint32_t shift = format == ElementFormat::e2m1 ? 2 : 0;
  uint32_t buffer = 0, held = 0;
  for (uint32_t element = 0; element < 16; ++element) {
    while (held < bits) {
      buffer |= uint32_t{*packed++} << held;
      held += 8;
    }
    containers[element] = static_cast<uint8_t>((buffer & ((1u << bits) - 1)) << shift);
    buffer >>= bits;
    held -= bits;
  }
}

}  // namespace stagecraft::emulator::machine
