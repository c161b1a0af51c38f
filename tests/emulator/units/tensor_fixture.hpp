// A block with shared memory and tensor memory, and matrices to put there: for tests of the tensor unit.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "emulator/machine/grid.hpp"
#include "emulator/units/mma.hpp"
#include "emulator/units/tensor_memory.hpp"

namespace stagecraft::emulator::units::testing {

inline constexpr uint32_t kSharedBytes = 232448;  // what a block can have on the chip

/// Runs `action` and gives the message and details of the Fault that it throws; empty when it throws none.
template <typename Action>
std::string fault_text(Action&& action) {
  try {
    action();
  } catch (const machine::Fault& fault) {
    std::string text = fault.message;
    for (const std::string& line : fault.details) text += "\n" + line;
    return text;
  }
  return {};
}

#define EXPECT_FAULT(action, part)                                                                               \
  do {                                                                                                           \
    const std::string found_fault = ::stagecraft::emulator::units::testing::fault_text([&] { action; });         \
    EXPECT_NE(found_fault.find(part), std::string::npos) << "wanted: " << (part) << "\nfound:  " << found_fault; \
  } while (false)

struct TensorBlock {
  machine::Block block;
  TensorMemory memory;

  TensorBlock() {
    block.shared.resize(kSharedBytes);
    // Not zeros: what an operand must not read is a not-a-number in every format that has one.
    std::memset(block.shared.data(), 0xff, block.shared.size());
  }
  uint32_t allocate(uint32_t columns) { return memory.allocate(block, columns).value().column; }
  uint8_t& shared(uint32_t address) { return reinterpret_cast<uint8_t&>(block.shared.at(address)); }
};

/// What a code is worth, computed from the definition of the format and not by the emulator's tables.
inline double worth(uint32_t code, int exponent_bits, int mantissa_bits, int bias) {
  const int mantissa = static_cast<int>(code & ((1u << mantissa_bits) - 1));
  const int exponent = static_cast<int>(code >> mantissa_bits & ((1u << exponent_bits) - 1));
  const bool negative = code >> (mantissa_bits + exponent_bits) & 1;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                                         : std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  return negative ? -magnitude : magnitude;
}

inline double worth(ElementFormat format, uint32_t code) {
  switch (format) {
    case ElementFormat::f16: return worth(code, 5, 10, 15);
    case ElementFormat::bf16: return worth(code, 8, 7, 127);
    case ElementFormat::tf32: return worth(code >> 13, 8, 10, 127);
    case ElementFormat::e4m3: return worth(code, 4, 3, 7);
    case ElementFormat::e5m2: return worth(code, 5, 2, 15);
    case ElementFormat::e2m3: return worth(code, 2, 3, 1);
    case ElementFormat::e3m2: return worth(code, 3, 2, 3);
    case ElementFormat::e2m1:
    case ElementFormat::e2m1_packed: return worth(code, 2, 1, 1);
    case ElementFormat::u8: return code;
    case ElementFormat::s8: return static_cast<int8_t>(code);
    case ElementFormat::u4: return code;
    case ElementFormat::s4: return code < 8 ? static_cast<int>(code) : static_cast<int>(code) - 16;
  }
  return 0;
}

/// A random finite code of moderate magnitude; tf32 codes have rubbish in the bits that must be ignored.
inline uint32_t random_code(ElementFormat format, std::mt19937& random) {
  const uint32_t bits = random();
  switch (format) {
    case ElementFormat::f16: return (bits & 0x83ff) | (10 + bits / 65536 % 8) << 10;
    case ElementFormat::bf16: return (bits & 0x807f) | (120 + bits / 65536 % 10) << 7;
    case ElementFormat::tf32: return (bits & 0x807fffff) | (120 + random() % 10) << 23;
    case ElementFormat::e4m3: return (bits & 0x7f) == 0x7f ? bits & 0x80 : bits & 0xff;
    case ElementFormat::e5m2: return (bits & 0x83) | (8 + bits / 256 % 10) << 2;
    case ElementFormat::e2m3:
    case ElementFormat::e3m2: return bits & 0x3f;
    case ElementFormat::e2m1:
    case ElementFormat::e2m1_packed:
    case ElementFormat::u4:
    case ElementFormat::s4: return bits & 0xf;
    case ElementFormat::u8:
    case ElementFormat::s8: return bits & 0xff;
  }
  return 0;
}

/// Codes of a matrix of `rows` by `k` elements.
struct Matrix {
  ElementFormat format = ElementFormat::f16;
  uint32_t rows = 0, k = 0;
  std::vector<uint32_t> codes;

  Matrix(ElementFormat element_format, uint32_t row_count, uint32_t depth, std::mt19937& random)
      : format(element_format), rows(row_count), k(depth), codes(size_t{row_count} * depth) {
    for (uint32_t& code : codes) code = random_code(element_format, random);
  }
  uint32_t code(uint32_t row, uint32_t index) const { return codes[size_t{row} * k + index]; }
  double value(uint32_t row, uint32_t index) const { return worth(format, code(row, index)); }
  uint32_t element_bytes() const { return bits_of(format) / 8; }
};

/// How the swizzle modes of descriptors permute an address (bits 63:61 of the descriptor).
inline uint32_t place(uint32_t swizzle_code, uint32_t address) {
  switch (swizzle_code) {
    case 6: return address ^ (address & 0x080) >> 3;
    case 4: return address ^ (address & 0x180) >> 3;
    case 2: return address ^ (address & 0x380) >> 3;
    case 1: return address ^ (address & 0x180) >> 2;
    default: return address;
  }
}
inline uint32_t span(uint32_t swizzle_code) {
  return swizzle_code == 6 ? 32 : swizzle_code == 4 ? 64 : swizzle_code == 0 ? 16 : 128;
}

inline uint64_t shared_descriptor(uint32_t start, uint32_t leading, uint32_t stride, uint32_t swizzle_code) {
  return uint64_t{start >> 4} | uint64_t{leading >> 4} << 16 | uint64_t{stride >> 4} << 32 | uint64_t{1} << 46 |
         uint64_t{swizzle_code} << 61;
}

/// Writes the codes of one row's K slice as the bytes that shared memory holds (32, or 16 elements to a chunk of 16).
inline std::vector<uint8_t> slice_bytes(const Matrix& matrix, uint32_t row) {
  std::vector<uint8_t> bytes(32, 0xff);
  for (uint32_t k = 0; k < matrix.k; ++k) {
    const uint32_t code = matrix.code(row, k);
    const uint32_t bits = matrix.format == ElementFormat::e2m1 ? 4
                          : matrix.format == ElementFormat::e2m3 || matrix.format == ElementFormat::e3m2
                              ? 6
                              : bits_of(matrix.format);
    const bool padded = bits == 6 || matrix.format == ElementFormat::e2m1;
    const uint32_t first_bit = padded ? k / 16 * 128 + k % 16 * bits : k * bits;
    for (uint32_t bit = 0; bit < bits; ++bit) {
      uint8_t& byte = bytes[(first_bit + bit) / 8];
      const uint8_t mask = static_cast<uint8_t>(1u << (first_bit + bit) % 8);
      byte = static_cast<uint8_t>(code >> bit & 1 ? byte | mask : byte & ~mask);
    }
  }
  return bytes;
}

/// Puts a matrix into shared memory K-major and gives its descriptor. Rows of an atom are `span` bytes apart; `k_start`
/// is the byte of the row at which the slice begins, as when a kernel steps along K inside an atom.
inline uint64_t put_k_major(TensorBlock& block, const Matrix& matrix, uint32_t start, uint32_t swizzle_code,
                            uint32_t k_start = 0) {
  const uint32_t stride = swizzle_code == 0 ? 272 : 8 * span(swizzle_code);
  const uint32_t leading = swizzle_code == 0 ? stride * ((matrix.rows + 7) / 8) + 16 : 16;
  for (uint32_t row = 0; row < matrix.rows; ++row) {
    const std::vector<uint8_t> bytes = slice_bytes(matrix, row);
    for (uint32_t byte = 0; byte < 32; ++byte) {
      const uint32_t offset = swizzle_code == 0 ? byte / 16 * leading + row / 8 * stride + row % 8 * 16 + byte % 16
                                                : row / 8 * stride + row % 8 * span(swizzle_code) + byte;
      block.shared(place(swizzle_code, start + k_start + offset)) = bytes[byte];
    }
  }
  return shared_descriptor(start + k_start, leading, stride, swizzle_code);
}

/// Puts a matrix of whole bytes into shared memory MN-major and gives its descriptor.
inline uint64_t put_mn_major(TensorBlock& block, const Matrix& matrix, uint32_t start, uint32_t swizzle_code) {
  const uint32_t element = matrix.element_bytes();
  const uint32_t width = span(swizzle_code);
  const uint32_t lines = swizzle_code == 1 ? 4 : 8;
  const uint32_t along_mn = (matrix.rows * element + width - 1) / width;
  const uint32_t along_k = (matrix.k + lines - 1) / lines;
  const uint32_t atom = width * lines;
  // Atoms along MN first, then along K.
  const uint32_t mn_step = atom, k_step = atom * along_mn;
  for (uint32_t row = 0; row < matrix.rows; ++row) {
    for (uint32_t k = 0; k < matrix.k; ++k) {
      for (uint32_t byte = 0; byte < element; ++byte) {
        const uint32_t mn_byte = row * element + byte;
        const uint32_t offset = mn_byte / width * mn_step + mn_byte % width + k % lines * width + k / lines * k_step;
        block.shared(place(swizzle_code, start + offset)) = static_cast<uint8_t>(matrix.code(row, k) >> 8 * byte);
      }
    }
  }
  (void)along_k;
  return swizzle_code == 0 ? shared_descriptor(start, k_step, mn_step, 0)
                           : shared_descriptor(start, mn_step, k_step, swizzle_code);
}

/// Bits of the instruction descriptor of the dense kinds.
struct Instruction {
  uint32_t m = 128, n = 64, d_code = 1, a_code = 0, b_code = 0;
  bool a_mn = false, b_mn = false, negate_a = false, negate_b = false, saturate = false;

  uint32_t bits() const {
    return uint32_t{saturate} << 3 | d_code << 4 | a_code << 7 | b_code << 10 | uint32_t{negate_a} << 13 |
           uint32_t{negate_b} << 14 | uint32_t{a_mn} << 15 | uint32_t{b_mn} << 16 | n / 8 << 17 | m / 16 << 24;
  }
};

}  // namespace stagecraft::emulator::units::testing
