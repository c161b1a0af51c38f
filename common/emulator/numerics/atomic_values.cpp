#include "emulator/numerics/atomic_values.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

namespace stagecraft::emulator::machine {
namespace {

using ptx::Type;

/// A float of 16 bits, with the arithmetic done in double: exact for products and sums of two, up to the one rounding.
template <int MantissaBits>
struct Half {
  static constexpr int kExponentBits = 15 - MantissaBits;
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr uint16_t kInfinity = ((1 << kExponentBits) - 1) << MantissaBits;
  static constexpr uint16_t kNaN = 0x7fff;

  static bool is_nan(uint16_t bits) { return (bits & 0x7fff) > kInfinity; }

  static double decode(uint16_t bits) {
    const int exponent = bits >> MantissaBits & ((1 << kExponentBits) - 1);
    const int mantissa = bits & ((1 << MantissaBits) - 1);
    double magnitude;
    if (exponent == (1 << kExponentBits) - 1) {
      magnitude = mantissa == 0 ? HUGE_VAL : NAN;
    } else if (exponent == 0) {
      magnitude = std::ldexp(mantissa, 1 - kBias - MantissaBits);
    } else {
      magnitude = std::ldexp(mantissa + (1 << MantissaBits), exponent - kBias - MantissaBits);
    }
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
  }

  /// Rounds to nearest even; beyond the largest finite value to infinity.
  static uint16_t encode(double value) {
    if (std::isnan(value)) return kNaN;
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const double magnitude = std::fabs(value);
    if (std::isinf(magnitude)) return sign | kInfinity;
    if (magnitude == 0) return sign;
    int exponent = 0;
    std::frexp(magnitude, &exponent);             // magnitude in [2^(exponent-1), 2^exponent)
    const int lowest = 1 - kBias - MantissaBits;  // exponent of the last place of subnormals
    const int last_place = std::max(exponent - 1 - MantissaBits, lowest);
    const auto units = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, -last_place)));
    // Units count in the last place; a carry into the next binade is just one more step of the bit pattern.
    const uint32_t bits = units + (static_cast<uint32_t>(last_place - lowest) << MantissaBits);
    return sign | static_cast<uint16_t>(bits >= kInfinity ? kInfinity : bits);
  }

  static uint16_t add(uint16_t a, uint16_t b) { return encode(decode(a) + decode(b)); }
  /// The number wins over a NaN, and +0 is above -0.
  static uint16_t min(uint16_t a, uint16_t b) { return choose(a, b, true); }
  static uint16_t max(uint16_t a, uint16_t b) { return choose(a, b, false); }

 private:
  static uint16_t choose(uint16_t a, uint16_t b, bool smaller) {
    if (is_nan(a) && is_nan(b)) return kNaN;
    if (is_nan(a)) return b;
    if (is_nan(b)) return a;
    const double x = decode(a), y = decode(b);
    const bool a_is_less = x < y || (x == y && std::signbit(x) && !std::signbit(y));
    return a_is_less == smaller ? a : b;
  }
};
using F16 = Half<10>;
using BF16 = Half<7>;

template <typename Format, uint16_t (*Operation)(uint16_t, uint16_t)>
AtomicValue on_half(AtomicValue old, AtomicValue operand) {
  return {Operation(static_cast<uint16_t>(old.low), static_cast<uint16_t>(operand.low)), 0};
}

template <typename Format, uint16_t (*Operation)(uint16_t, uint16_t)>
AtomicValue on_pair(AtomicValue old, AtomicValue operand) {
  const uint64_t low = Operation(static_cast<uint16_t>(old.low), static_cast<uint16_t>(operand.low));
  const uint64_t high = Operation(static_cast<uint16_t>(old.low >> 16), static_cast<uint16_t>(operand.low >> 16));
  return {low | high << 16, 0};
}

AtomicValue add_float(AtomicValue old, AtomicValue operand) {
  const float sum =
      std::bit_cast<float>(static_cast<uint32_t>(old.low)) + std::bit_cast<float>(static_cast<uint32_t>(operand.low));
  return {std::isnan(sum) ? 0x7fff'ffffu : std::bit_cast<uint32_t>(sum), 0};
}

/// NaN payloads are carried as the processor here does it.
AtomicValue add_double(AtomicValue old, AtomicValue operand) {
  return {std::bit_cast<uint64_t>(std::bit_cast<double>(old.low) + std::bit_cast<double>(operand.low)), 0};
}

AtomicValue add_flushing(AtomicValue old, AtomicValue operand) {
  const auto flush = [](uint64_t bits) { return (bits & 0x7f80'0000u) == 0 ? bits & 0x8000'0000u : bits; };
  const AtomicValue sum = add_float({flush(old.low), 0}, {flush(operand.low), 0});
  return {flush(sum.low), 0};
}

template <typename Integer>
AtomicValue back(Integer value) {
  return {static_cast<uint64_t>(static_cast<std::make_unsigned_t<Integer>>(value)), 0};
}

template <typename Unsigned>
AtomicValue add_integer(AtomicValue old, AtomicValue operand) {
  return back(static_cast<Unsigned>(old.low + operand.low));
}
template <typename Integer>
AtomicValue min_integer(AtomicValue old, AtomicValue operand) {
  return back(std::min(static_cast<Integer>(old.low), static_cast<Integer>(operand.low)));
}
template <typename Integer>
AtomicValue max_integer(AtomicValue old, AtomicValue operand) {
  return back(std::max(static_cast<Integer>(old.low), static_cast<Integer>(operand.low)));
}
AtomicValue increment(AtomicValue old, AtomicValue operand) { return {old.low >= operand.low ? 0 : old.low + 1, 0}; }
AtomicValue decrement(AtomicValue old, AtomicValue operand) {
  return {old.low == 0 || old.low > operand.low ? operand.low : old.low - 1, 0};
}
AtomicValue bit_and(AtomicValue old, AtomicValue operand) { return {old.low & operand.low, 0}; }
AtomicValue bit_or(AtomicValue old, AtomicValue operand) { return {old.low | operand.low, 0}; }
AtomicValue bit_xor(AtomicValue old, AtomicValue operand) { return {old.low ^ operand.low, 0}; }
AtomicValue exchange(AtomicValue, AtomicValue operand) { return operand; }

AtomicFunction addition(Type type, bool flush) {
  switch (type) {
    case Type::u32:
    case Type::s32: return add_integer<uint32_t>;
    case Type::u64: return add_integer<uint64_t>;
    case Type::f32: return flush ? add_flushing : add_float;
    case Type::f64: return add_double;
    case Type::f16: return on_half<F16, F16::add>;
    case Type::f16x2: return on_pair<F16, F16::add>;
    case Type::bf16: return on_half<BF16, BF16::add>;
    case Type::bf16x2: return on_pair<BF16, BF16::add>;
    default: return nullptr;
  }
}

AtomicFunction minimum(Type type) {
  switch (type) {
    case Type::u32: return min_integer<uint32_t>;
    case Type::s32: return min_integer<int32_t>;
    case Type::u64: return min_integer<uint64_t>;
    case Type::s64: return min_integer<int64_t>;
    case Type::f16: return on_half<F16, F16::min>;
    case Type::f16x2: return on_pair<F16, F16::min>;
    case Type::bf16: return on_half<BF16, BF16::min>;
    case Type::bf16x2: return on_pair<BF16, BF16::min>;
    default: return nullptr;
  }
}

AtomicFunction maximum(Type type) {
  switch (type) {
    case Type::u32: return max_integer<uint32_t>;
    case Type::s32: return max_integer<int32_t>;
    case Type::u64: return max_integer<uint64_t>;
    case Type::s64: return max_integer<int64_t>;
    case Type::f16: return on_half<F16, F16::max>;
    case Type::f16x2: return on_pair<F16, F16::max>;
    case Type::bf16: return on_half<BF16, BF16::max>;
    case Type::bf16x2: return on_pair<BF16, BF16::max>;
    default: return nullptr;
  }
}

}  // namespace

AtomicFunction atomic_function(std::string_view operation, ptx::Type type, bool flush) {
  const bool bits = type == Type::b32 || type == Type::b64;
  if (operation == "add") return addition(type, flush);
  if (operation == "min") return minimum(type);
  if (operation == "max") return maximum(type);
  if (operation == "inc") return type == Type::u32 ? increment : nullptr;
  if (operation == "dec") return type == Type::u32 ? decrement : nullptr;
  if (operation == "and") return bits ? bit_and : nullptr;
  if (operation == "or") return bits ? bit_or : nullptr;
  if (operation == "xor") return bits ? bit_xor : nullptr;
  if (operation == "exch") return bits || type == Type::b128 ? exchange : nullptr;
  return nullptr;
}

}  // namespace stagecraft::emulator::machine
