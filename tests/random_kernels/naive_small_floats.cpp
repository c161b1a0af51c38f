// Arithmetic of f16 and bf16: exact, and rounded once, as the PTX ISA describes it.
#include <algorithm>
#include <utility>

#include "naive_interpreter.hpp"

namespace stagecraft::naive {

namespace {

/// Bits of a format after its sign.
struct Format {
  int mantissa, exponent;
  int bias() const { return (1 << (exponent - 1)) - 1; }
  uint32_t infinity() const { return ((1u << exponent) - 1) << mantissa; }
  uint32_t sign() const { return 1u << (mantissa + exponent); }
  uint32_t nan() const { return sign() - 1; }  ///< the canonical one
  /// The power of two of the last bit of its least numbers.
  int least() const { return 1 - bias() - mantissa; }
};
constexpr Format kHalf{10, 5}, kBrain{7, 8}, kSingle{23, 8};

using Wide = unsigned __int128;

/// A number of any precision: mantissa * 2^exponent.
struct Exact {
  bool nan = false, infinite = false, negative = false;
  Wide mantissa = 0;
  int exponent = 0;
  bool is_zero() const { return !nan && !infinite && mantissa == 0; }
};

Exact decode(uint64_t bits, const Format& format) {
  Exact made;
  made.negative = (bits & format.sign()) != 0;
  const auto magnitude = static_cast<uint32_t>(bits) & (format.sign() - 1);
  const auto exponent = static_cast<int>(magnitude >> format.mantissa);
  made.nan = magnitude > format.infinity();
  made.infinite = magnitude == format.infinity();
  made.mantissa = magnitude & ((1u << format.mantissa) - 1);
  if (exponent != 0) made.mantissa |= 1u << format.mantissa;
  made.exponent = format.least() + std::max(exponent - 1, 0);
  return made;
}

int width_of(Wide value) {
  int width = 0;
  for (; value != 0; value >>= 1) ++width;
  return width;
}

/// Rounds to the nearest, to the even one of two, or towards zero.
uint32_t encode(const Exact& value, const Format& format, bool to_zero = false) {
  if (value.nan) return format.nan();
  const uint32_t sign = value.negative ? format.sign() : 0;
  if (value.infinite) return sign | format.infinity();
  if (value.mantissa == 0) return sign;
  // The power of two of the last bit that is kept.
  const int unit = std::max(value.exponent + width_of(value.mantissa) - 1 - format.mantissa, format.least());
  const int dropped = unit - value.exponent;
  Wide kept = 0;
  if (dropped <= 0) {
    kept = value.mantissa << -dropped;
  } else if (dropped < 128) {
    kept = value.mantissa >> dropped;
    const Wide rest = value.mantissa - (kept << dropped), half = Wide{1} << (dropped - 1);
    if (!to_zero && (rest > half || (rest == half && (kept & 1) != 0))) ++kept;
  }
  // A mantissa that has become too wide carries into the exponent.
  const uint64_t magnitude =
      static_cast<uint64_t>(kept) + (static_cast<uint64_t>(unit - format.least()) << format.mantissa);
  if (magnitude < format.infinity()) return sign | static_cast<uint32_t>(magnitude);
  return sign | (to_zero ? format.infinity() - 1 : format.infinity());
}

Exact product(const Exact& a, const Exact& b) {
  Exact made;
  made.negative = a.negative != b.negative;
  made.nan = a.nan || b.nan || (a.infinite && b.is_zero()) || (b.infinite && a.is_zero());
  made.infinite = a.infinite || b.infinite;
  made.mantissa = a.mantissa * b.mantissa;
  made.exponent = a.exponent + b.exponent;
  return made;
}

/// The sum. Where one of them is much smaller, only that it is there counts for the rounding.
Exact sum(Exact a, Exact b) {
  constexpr int kMostShift = 100;  // of a mantissa of at most 22 bits
  if (a.nan || b.nan || (a.infinite && b.infinite && a.negative != b.negative)) return {.nan = true};
  if (a.infinite) return a;
  if (b.infinite) return b;
  if (a.is_zero() && b.is_zero()) return {.negative = a.negative && b.negative};
  if (a.is_zero()) return b;
  if (b.is_zero()) return a;
  if (a.exponent < b.exponent) std::swap(a, b);
  const int apart = a.exponent - b.exponent, shift = std::min(apart, kMostShift), lost = apart - shift;
  a.mantissa <<= shift;
  a.exponent -= shift;
  if (lost != 0) {
    const Wide before = b.mantissa;
    b.mantissa = lost < 128 ? before >> lost : 0;
    if (lost >= 128 || b.mantissa << lost != before) b.mantissa |= 1;
  }
  Exact made{.exponent = a.exponent};
  if (a.negative == b.negative) {
    made.negative = a.negative;
    made.mantissa = a.mantissa + b.mantissa;
  } else {
    const bool a_is_more = a.mantissa > b.mantissa;
    made.mantissa = a_is_more ? a.mantissa - b.mantissa : b.mantissa - a.mantissa;
    made.negative = made.mantissa != 0 && (a_is_more ? a.negative : b.negative);
  }
  return made;
}

/// The lesser or the greater of two; of a number and a NaN the number, unless the instruction says .NaN.
uint32_t extreme(const Instruction& instruction, uint32_t a, uint32_t b, const Format& format) {
  const auto is_nan = [&](uint32_t bits) { return (bits & format.nan()) > format.infinity(); };
  if (is_nan(a) || is_nan(b)) {
    const bool both = is_nan(a) && is_nan(b);
    return both || instruction.has("NaN") ? format.nan() : is_nan(a) ? b : a;
  }
  // As numbers with a sign: -0 is less than +0.
  const auto rank = [&](uint32_t bits) {
    const auto magnitude = static_cast<int64_t>(bits & format.nan());
    return (bits & format.sign()) != 0 ? -1 - magnitude : magnitude;
  };
  return (rank(a) < rank(b)) == (instruction.name == "min") ? a : b;
}

uint32_t compute_one(const Instruction& instruction, const std::vector<uint32_t>& values, const Format& format) {
  const auto at = [&](size_t i) { return decode(values.at(i), format); };
  const std::string& name = instruction.name;
  if (name == "min" || name == "max") return extreme(instruction, values.at(0), values.at(1), format);
  Exact result;
  if (name == "add" || (name == "atom" && instruction.has("add"))) {
    result = sum(at(0), at(1));
  } else if (name == "sub") {
    Exact second = at(1);
    second.negative = !second.negative;
    result = sum(at(0), second);
  } else if (name == "mul") {
    result = product(at(0), at(1));
  } else if (name == "fma") {
    result = sum(product(at(0), at(1)), at(2));
  } else {
    throw Error("unknown instruction " + instruction.text);
  }
  const uint32_t rounded = encode(result, format);
  if (!instruction.has("sat")) return rounded;
  if (result.nan || result.negative) return 0;
  return std::min(rounded, static_cast<uint32_t>(format.bias()) << format.mantissa);  // 1
}

/// From f32 to one or two of these, or from one to f32.
uint32_t convert(const Instruction& instruction, const std::vector<uint64_t>& values, bool packed) {
  const std::string& from = instruction.suffix.back();
  if (from != "f32") return widened(from, values.at(0));
  const Format& format = instruction.suffix[instruction.suffix.size() - 2].starts_with("bf16") ? kBrain : kHalf;
  const auto rounded = [&](size_t i) { return encode(decode(values.at(i), kSingle), format, instruction.has("rz")); };
  return packed ? rounded(0) << 16 | rounded(1) : rounded(0);
}

}  // namespace

uint32_t widened(const std::string& type, uint64_t bits) {
  // A bf16 is the upper half of an f32, and an H200 leaves a NaN as it is (tests/conformance/convert.cu).
  return type == "bf16" ? static_cast<uint32_t>(bits) << 16 : encode(decode(bits & 0xffff, kHalf), kSingle);
}

bool compute_small(const Instruction& instruction, const std::vector<uint64_t>& values, uint64_t& result) {
  const auto has_type = [&](const char* one, const char* two) { return instruction.has(one) || instruction.has(two); };
  const bool packed = has_type("f16x2", "bf16x2");
  if ((!packed && !has_type("f16", "bf16")) || instruction.name == "setp") return false;
  if (instruction.name == "cvt") {
    result = convert(instruction, values, packed);
    return true;
  }
  const Format& format = has_type("bf16", "bf16x2") ? kBrain : kHalf;
  result = 0;
  for (int shift = 0; shift <= (packed ? 16 : 0); shift += 16) {
    std::vector<uint32_t> parts;
    for (const uint64_t value : values) parts.push_back(value >> shift & 0xffff);
    result |= uint64_t{compute_one(instruction, parts, format)} << shift;
  }
  return true;
}

}  // namespace stagecraft::naive
