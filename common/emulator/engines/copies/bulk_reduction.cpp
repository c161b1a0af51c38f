#include "emulator/engines/copies/bulk_reduction.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace stagecraft::emulator::machine {

namespace {

constexpr const char* kOperationNames[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor"};

/// A 16-bit float of either kind as a float, exactly.
struct Half {
  static float widen(uint16_t bits) {
    const uint32_t sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 0x1f, mantissa = bits & 0x3ff;
    if (exponent == 0) {
      const float value = std::ldexp(static_cast<float>(mantissa), -24);
      return sign != 0 ? -value : value;
    }
    const uint32_t wide = exponent == 31 ? 0xffu << 23 : (exponent + 112) << 23;
    return std::bit_cast<float>(sign | wide | mantissa << 13);
  }
  static uint16_t narrow(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fff'ffffu;
    const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
    if (magnitude > 0x7f80'0000u) return 0x7fff;
    if (magnitude >= 0x4780'0000u) return sign | 0x7c00;  // 65536 and more
    if (magnitude < 0x3880'0000u) {                       // below the least normal: round to a multiple of 2^-24
      const auto steps = static_cast<uint32_t>(std::nearbyint(std::ldexp(std::bit_cast<float>(magnitude), 24)));
      return static_cast<uint16_t>(sign | steps);
    }
    const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1);
    return static_cast<uint16_t>(sign | ((rounded >> 13) - (112u << 10)));
  }
};

struct Bfloat {
  static float widen(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }
  static uint16_t narrow(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    if ((bits & 0x7fff'ffffu) > 0x7f80'0000u) return 0x7fff;
    return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
  }
};

template <typename T>
T combine_bits(ReductionOperation operation, T old, T value) {
  switch (operation) {
    case ReductionOperation::bit_and: return old & value;
    case ReductionOperation::bit_or: return old | value;
    default: return old ^ value;
  }
}

template <typename T>
T combine_integers(ReductionOperation operation, T old, T value) {
  using Unsigned = std::make_unsigned_t<T>;
  switch (operation) {
    case ReductionOperation::add: return static_cast<T>(static_cast<Unsigned>(old) + static_cast<Unsigned>(value));
    case ReductionOperation::min: return value < old ? value : old;
    case ReductionOperation::max: return value > old ? value : old;
    case ReductionOperation::inc: return old >= value ? T{0} : static_cast<T>(old + 1);
    case ReductionOperation::dec: return old == 0 || old > value ? value : static_cast<T>(old - 1);
    default: return static_cast<T>(combine_bits(operation, static_cast<Unsigned>(old), static_cast<Unsigned>(value)));
  }
}

/// min and max give the operand that is a number; of two zeros, -0 is the lesser.
float combine_halves(ReductionOperation operation, float old, float value) {
  if (operation == ReductionOperation::add) return old + value;
  if (std::isnan(old)) return value;
  if (std::isnan(value)) return old;
  const bool less = value < old || (value == old && std::signbit(value) && !std::signbit(old));
  return (operation == ReductionOperation::min) == less ? value : old;
}

float flush(float value) { return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value; }

template <typename T, typename Combine>
void each(std::byte* target, const std::byte* source, size_t bytes, Combine&& combine) {
  for (size_t i = 0; i + sizeof(T) <= bytes; i += sizeof(T)) {
    T old, value;
    std::memcpy(&old, target + i, sizeof(T));
    std::memcpy(&value, source + i, sizeof(T));
    const T result = combine(old, value);
    std::memcpy(target + i, &result, sizeof(T));
  }
}

template <typename T>
void reduce_integers(ReductionOperation operation, std::byte* target, const std::byte* source, size_t bytes) {
  each<T>(target, source, bytes, [&](T old, T value) { return combine_integers(operation, old, value); });
}

template <typename Format>
void reduce_halves(ReductionOperation operation, std::byte* target, const std::byte* source, size_t bytes) {
  // A sum of two 16-bit floats, rounded to float first, rounds to the same 16 bits as the exact sum does.
  each<uint16_t>(target, source, bytes, [&](uint16_t old, uint16_t value) {
    return Format::narrow(combine_halves(operation, Format::widen(old), Format::widen(value)));
  });
}

}  // namespace

std::optional<ReductionOperation> reduction_operation(std::string_view name) {
  for (size_t i = 0; i < std::size(kOperationNames); ++i) {
    if (name == kOperationNames[i]) return static_cast<ReductionOperation>(i);
  }
  return std::nullopt;
}

const char* name_of(ReductionOperation operation) { return kOperationNames[static_cast<size_t>(operation)]; }

uint32_t size_of(ReductionType type) {
  switch (type) {
    case ReductionType::f16:
    case ReductionType::bf16: return 2;
    case ReductionType::u64:
    case ReductionType::s64:
    case ReductionType::b64:
    case ReductionType::f64: return 8;
    default: return 4;
  }
}

bool is_legal(ReductionOperation operation, ReductionType type, bool to_shared) {
  using Type = ReductionType;
  switch (operation) {
    case ReductionOperation::add:
      if (type == Type::u32 || type == Type::s32 || type == Type::u64) return true;
      return !to_shared && (type == Type::f16 || type == Type::bf16 || type == Type::f32 || type == Type::f32_ftz ||
                            type == Type::f64);
    case ReductionOperation::min:
    case ReductionOperation::max:
      if (type == Type::u32 || type == Type::s32) return true;
      return !to_shared && (type == Type::u64 || type == Type::s64 || type == Type::f16 || type == Type::bf16);
    case ReductionOperation::inc:
    case ReductionOperation::dec: return type == Type::u32;
    default: return type == Type::b32 || (!to_shared && type == Type::b64);
  }
}

void reduce(ReductionOperation operation, ReductionType type, std::byte* target, const std::byte* source,
            size_t bytes) {
  switch (type) {
    case ReductionType::u32:
    case ReductionType::b32: return reduce_integers<uint32_t>(operation, target, source, bytes);
    case ReductionType::s32: return reduce_integers<int32_t>(operation, target, source, bytes);
    case ReductionType::u64:
    case ReductionType::b64: return reduce_integers<uint64_t>(operation, target, source, bytes);
    case ReductionType::s64: return reduce_integers<int64_t>(operation, target, source, bytes);
    case ReductionType::f16: return reduce_halves<Half>(operation, target, source, bytes);
    case ReductionType::bf16: return reduce_halves<Bfloat>(operation, target, source, bytes);
    case ReductionType::f32: return each<float>(target, source, bytes, [](float a, float b) { return a + b; });
    case ReductionType::f32_ftz:
      return each<float>(target, source, bytes, [](float a, float b) { return flush(flush(a) + flush(b)); });
    case ReductionType::f64: return each<double>(target, source, bytes, [](double a, double b) { return a + b; });
  }
}

}  // namespace stagecraft::emulator::machine
