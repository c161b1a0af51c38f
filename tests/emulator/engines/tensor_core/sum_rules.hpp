// The rules that sf-tensor/tcgen05 (6f19f22, MODEL.md) states for the sums of tcgen05.mma, whose authors compared
// theirs with a B200, and random numbers for them. The rules are written down here step by step in integers, as that
// text has them and not as the emulator does.
#pragma once

#include <array>
#include <optional>

#include "fixtures/tensor_fixture.hpp"

namespace stagecraft::emulator::machine::testing::rules {

inline constexpr int kMostGroups = 4;
inline constexpr int kNone = -100000;  // the exponent of no number

// ---- The rules ------------------------------------------------------------------------------------------------------

/// A code as significand * 2^exponent. `raw` is the exponent that aligns: of subnormal codes, that of the least normal.
struct Number {
  enum Class : uint8_t { finite, infinite, not_a_number } kind = finite;
  int64_t significand = 0;
  int exponent = 0, raw = 0;
  bool is_zero() const { return kind == finite && significand == 0; }
};

struct FloatFormat {
  int exponent_bits, fraction_bits, bias;
  enum Specials : uint8_t { none, one_nan, ieee } specials = none;
};

inline Number number_of(uint32_t code, const FloatFormat& format) {
  const auto fraction = static_cast<int64_t>(code & ((1u << format.fraction_bits) - 1));
  const int field = static_cast<int>(code >> format.fraction_bits & ((1u << format.exponent_bits) - 1));
  const bool top = field == (1 << format.exponent_bits) - 1;
  const bool negative = code >> (format.fraction_bits + format.exponent_bits) & 1;
  Number number;
  number.raw = (field == 0 ? 1 : field) - format.bias;
  number.exponent = number.raw - format.fraction_bits;
  number.significand = field == 0 ? fraction : fraction | int64_t{1} << format.fraction_bits;
  if (top && format.specials == FloatFormat::ieee)
    number.kind = fraction != 0 ? Number::not_a_number : Number::infinite;
  if (top && format.specials == FloatFormat::one_nan && fraction == (1 << format.fraction_bits) - 1) {
    number.kind = Number::not_a_number;
  }
  if (negative) number.significand = -number.significand;
  return number;
}

inline constexpr FloatFormat kF32{8, 23, 127, FloatFormat::ieee}, kF16{5, 10, 15, FloatFormat::ieee};
inline constexpr FloatFormat kUe4m3{4, 3, 7, FloatFormat::one_nan};

inline FloatFormat float_format(ElementFormat format) {
  switch (format) {
    case ElementFormat::bf16: return {8, 7, 127, FloatFormat::ieee};
    case ElementFormat::tf32: return {8, 10, 127, FloatFormat::ieee};  // of the upper 19 bits of a code
    case ElementFormat::e4m3: return {4, 3, 7, FloatFormat::one_nan};
    case ElementFormat::e5m2: return {5, 2, 15, FloatFormat::ieee};
    case ElementFormat::e2m3: return {2, 3, 1};
    case ElementFormat::e3m2: return {3, 2, 3};
    case ElementFormat::e2m1:
    case ElementFormat::e2m1_packed: return {2, 1, 1};
    default: return kF16;
  }
}

/// The whole units of 2^quantum in significand * 2^exponent.
inline int64_t units(int64_t significand, int exponent, int quantum) {
  if (significand == 0) return 0;  // no zero has aligned the others: it may be any distance above them
  const int shift = exponent - quantum;
  if (shift >= 0) return significand << shift;
  if (shift < -62) return 0;
  return significand < 0 ? -(-significand >> -shift) : significand >> -shift;
}

/// `sum` units of 2^quantum as an f32, rounded towards zero, or as an f16, rounded to the nearest.
inline uint32_t round(int64_t sum, int quantum, bool to_f16) {
  const int fraction_bits = to_f16 ? 10 : 23, least = to_f16 ? -14 : -126, most = to_f16 ? 15 : 127;
  const uint32_t infinity = to_f16 ? 0x7c00 : 0x7f800000, sign = sum >= 0 ? 0 : to_f16 ? 0x8000 : 0x80000000;
  const uint64_t magnitude = sum < 0 ? 0 - static_cast<uint64_t>(sum) : static_cast<uint64_t>(sum);
  if (magnitude == 0) return 0;
  const int exponent = 63 - std::countl_zero(magnitude) + quantum;
  if (exponent > most) return sign | infinity;
  const int shift = std::max(exponent, least) - fraction_bits - quantum;
  uint64_t kept = shift > 63 ? 0 : shift > 0 ? magnitude >> shift : magnitude << -shift;
  if (to_f16 && shift > 0 && shift < 64) {
    const uint64_t rest = magnitude & ((uint64_t{1} << shift) - 1), half = uint64_t{1} << (shift - 1);
    if (rest > half || (rest == half && kept % 2 == 1)) ++kept;
  }
  if (kept == 0) return 0;
  // A carry out of the fraction raises the exponent, up to that of infinity.
  const uint64_t field = exponent < least ? 0 : static_cast<uint64_t>(exponent - least);
  return sign | static_cast<uint32_t>((field << fraction_bits) + kept);
}

inline uint32_t nan_word(bool of_f16) { return of_f16 ? 0x7fff : 0x7fffffff; }

/// A dot product, decoded. Scale factors are for equal parts of K; none where the kind has none.
struct Dot {
  const Number *a, *b;
  int k = 0;
  const Number *scales_a = nullptr, *scales_b = nullptr;
  int parts = 1;
  Number c;
  bool to_f16 = false;
};

/// The word of a sum with NaN or infinity; nothing where all is finite.
inline std::optional<uint32_t> special(const Dot& dot) {
  bool is_nan = dot.c.kind == Number::not_a_number, positive = false, negative = false;
  const auto add = [&](bool below_zero) { (below_zero ? negative : positive) = true; };
  if (dot.c.kind == Number::infinite) add(dot.c.significand < 0);
  for (int k = 0; k < dot.k; ++k) {
    const Number &x = dot.a[k], &y = dot.b[k];
    is_nan |= x.kind == Number::not_a_number || y.kind == Number::not_a_number;
    if (x.kind != Number::infinite && y.kind != Number::infinite) continue;
    is_nan |= x.is_zero() || y.is_zero();
    add((x.significand < 0) != (y.significand < 0));
  }
  for (int i = 0; dot.scales_a != nullptr && i < dot.parts; ++i) {
    is_nan |= dot.scales_a[i].kind == Number::not_a_number || dot.scales_b[i].kind == Number::not_a_number;
  }
  if (is_nan || (positive && negative)) return nan_word(dot.to_f16);
  if (!positive && !negative) return std::nullopt;
  return (dot.to_f16 ? 0x7c00u : 0x7f800000u) | (negative ? dot.to_f16 ? 0x8000u : 0x80000000u : 0u);
}

/// MODEL.md, 3 and "UE8M0 MXF8F6F4": one window of 25 bits for all products and C.
inline uint32_t window_sum(const Dot& dot) {
  constexpr int kWindow = 25;
  const int scale = dot.scales_a == nullptr ? 0 : dot.scales_a[0].raw + dot.scales_b[0].raw;
  int largest = dot.c.significand == 0 ? kNone : dot.c.raw;
  for (int k = 0; k < dot.k; ++k) {
    if (dot.a[k].significand == 0 || dot.b[k].significand == 0) continue;
    largest = std::max(largest, dot.a[k].raw + dot.b[k].raw + scale);
  }
  if (largest == kNone) return 0;
  const int quantum = largest - kWindow;
  int64_t sum = units(dot.c.significand, dot.c.exponent, quantum);
  for (int k = 0; k < dot.k; ++k) {
    sum += units(dot.a[k].significand * dot.b[k].significand, dot.a[k].exponent + dot.b[k].exponent + scale, quantum);
  }
  return round(sum, quantum, dot.to_f16);
}

/// MODEL.md, "UE8M0 MXF4 and MXF4NVF4". With ue4m3 the text has another rule, for which see scaled_sum.hpp; here its
/// factors follow the same one.
inline uint32_t group_sum(const Dot& dot) {
  constexpr int kGroup = 16, kProductWindow = 39, kScaleWindow = 35, kFloor = -174;
  constexpr int kLeastExponent = -2;  // of a product of e2m1
  struct Group {
    int64_t significand = 0;
    int exponent = 0, product = kNone, scale = kNone, quantum = 0;
  };
  std::array<Group, kMostGroups> groups;
  int product = kNone, scale = kNone;  // R and S
  for (int i = 0; i < dot.k / kGroup; ++i) {
    Group& group = groups[i];
    const int part = i * dot.parts / (dot.k / kGroup);
    const Number &x = dot.scales_a[part], &y = dot.scales_b[part];
    group.exponent = x.exponent + y.exponent + kLeastExponent;
    for (int k = i * kGroup; k < (i + 1) * kGroup; ++k) {
      const int64_t significand = dot.a[k].significand * dot.b[k].significand * x.significand * y.significand;
      group.significand += significand << (dot.a[k].exponent + dot.b[k].exponent - kLeastExponent);
      if (significand == 0) continue;
      group.product = std::max(group.product, dot.a[k].raw + dot.b[k].raw + x.raw + y.raw);
      group.scale = x.raw + y.raw;
    }
    product = std::max(product, group.product);
    scale = std::max(scale, group.scale);
  }
  if (product == kNone) return round(dot.c.significand, dot.c.exponent, false);
  int quantum = std::max(product - kProductWindow, scale - kScaleWindow);
  if (dot.c.significand != 0) quantum = std::max(quantum, dot.c.raw - kProductWindow);
  int64_t sum = units(dot.c.significand, dot.c.exponent, quantum);
  for (const Group& group : groups) {
    const bool outranked = dot.c.significand != 0 && dot.c.raw >= group.product;
    int own = outranked ? std::max(quantum, dot.c.raw - kScaleWindow) : quantum;
    // The text's floor of lower groups. The authors' program drops those below it and leaves others whole, if the sum
    // without it is subnormal but not zero; that it cuts bits off differs from this in one of a million cases.
    if (group.scale < scale) own = std::max(own, kFloor);
    const int64_t kept = units(group.significand, group.exponent, own);
    if (kept != 0) sum += kept << (own - quantum);
  }
  return round(sum, quantum, false);
}

inline uint32_t integer_sum(const std::vector<int64_t>& products, uint32_t c, bool saturate) {
  int64_t sum = static_cast<int32_t>(c);
  for (const int64_t product : products) sum += product;
  if (saturate) sum = std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX);
  return static_cast<uint32_t>(sum);
}

// ---- The forms, and numbers for them --------------------------------------------------------------------------------

struct Form {
  std::string name;
  MmaKind kind;
  ElementFormat a, b;
  uint32_t a_code, b_code;
  uint32_t d_code = 1;  ///< 0: f16, 1: f32, 2: s32
  bool saturate = false;
  uint32_t scales = 0;  ///< of a row
  bool ue4m3 = false;

  bool is_integer() const { return kind == MmaKind::i8; }
  bool has_groups() const { return kind == MmaKind::mxf4 || kind == MmaKind::mxf4nvf4; }
};

inline std::vector<Form> forms() {
  using enum ElementFormat;
  std::vector<Form> all = {{"f16", MmaKind::f16, f16, f16, 0, 0},
                           {"f16ToF16", MmaKind::f16, f16, f16, 0, 0, 0},
                           {"bf16", MmaKind::f16, bf16, bf16, 1, 1},
                           {"tf32", MmaKind::tf32, tf32, tf32, 2, 2},
                           {"mxf4", MmaKind::mxf4, e2m1_packed, e2m1_packed, 1, 1, 1, false, 2},
                           {"mxf4nvf4_2x", MmaKind::mxf4nvf4, e2m1_packed, e2m1_packed, 1, 1, 1, false, 2},
                           {"mxf4nvf4_4x", MmaKind::mxf4nvf4, e2m1_packed, e2m1_packed, 1, 1, 1, false, 4},
                           {"mxf4nvf4_4x_ue4m3", MmaKind::mxf4nvf4, e2m1_packed, e2m1_packed, 1, 1, 1, false, 4, true}};
  struct Type {
    const char* name;
    ElementFormat format;
    uint32_t code;
  };
  const Type narrow[] = {{"e4m3", e4m3, 0}, {"e5m2", e5m2, 1}, {"e2m3", e2m3, 3}, {"e3m2", e3m2, 4}, {"e2m1", e2m1, 5}};
  for (const Type& a : narrow) {
    for (const Type& b : narrow) {
      const std::string name = std::string(a.name) + "_" + b.name;
      all.push_back({name, MmaKind::f8f6f4, a.format, b.format, a.code, b.code});
      all.push_back({name + "_to_f16", MmaKind::f8f6f4, a.format, b.format, a.code, b.code, 0});
      all.push_back({"mx_" + name, MmaKind::mxf8f6f4, a.format, b.format, a.code, b.code, 1, false, 1});
    }
  }
  const Type integers[] = {{"u8", u8, 0}, {"s8", s8, 1}};
  for (const Type& a : integers) {
    for (const Type& b : integers) {
      for (const bool saturate : {false, true}) {
        const std::string name = std::string(a.name) + "_" + b.name + (saturate ? "_saturated" : "");
        all.push_back({name, MmaKind::i8, a.format, b.format, a.code, b.code, 2, saturate});
      }
    }
  }
  return all;
}

/// How the elements of one row are drawn: any code, only finite ones, those near 1, or with many zeros.
enum class Row : uint8_t { any, finite, near, sparse, count };

inline uint32_t code_bits(ElementFormat format) {
  switch (format) {
    case ElementFormat::e2m3:
    case ElementFormat::e3m2: return 6;
    case ElementFormat::e2m1: return 4;
    default: return bits_of(format);
  }
}

inline uint32_t draw_code(ElementFormat format, Row row, std::mt19937& random) {
  const uint32_t width = code_bits(format), mask = width == 32 ? ~0u : (1u << width) - 1;
  const FloatFormat layout = float_format(format);
  const int shift = format == ElementFormat::tf32 ? 13 : 0;
  if (row == Row::sparse && random() % 4 != 0) return (random() & 1) << (width - 1);
  if (row == Row::near && layout.exponent_bits > 3) {
    const uint32_t field = static_cast<uint32_t>(layout.bias) - 4 + random() % 9;
    const uint32_t fields = ((1u << layout.exponent_bits) - 1) << (layout.fraction_bits + shift);
    return (random() & mask & ~fields) | field << (layout.fraction_bits + shift);
  }
  for (;;) {
    const uint32_t code = random() & mask;
    if (row == Row::any || number_of(code >> shift, layout).kind == Number::finite) return code;
  }
}

/// C of a form whose products are about 2^middle: anything, zero, of that size, or special.
inline uint32_t draw_c(const Form& form, int middle, std::mt19937& random) {
  const uint32_t choice = random() % 64, bits = random();
  if (form.is_integer()) return choice % 2 == 0 ? bits : 0x7fff8000u + bits % 65536;
  const bool f16 = form.d_code == 0;
  if (choice == 0) return f16 ? bits & 0xffff : bits | 0x7f800000;
  if (choice < 16) return choice % 2 == 0 ? 0 : f16 ? 0x8000 : 0x80000000;
  if (choice < 32) {
    if (!f16) return (bits & 0x7f800000) == 0x7f800000 ? bits & 0x807fffff : bits;
    // A subnormal C next to products in f16 may be aligned as 2^-14 or by its first bit. That is not known.
    const uint32_t drawn = bits & 0xffff;
    return (drawn & 0x7c00) == 0 || (drawn & 0x7c00) == 0x7c00 ? drawn ^ 0x3c00 : drawn;
  }
  const int exponent = middle - 34 + static_cast<int>(random() % 48);
  if (f16) return (bits & 0x83ff) | static_cast<uint32_t>(std::clamp(exponent + 15, 1, 30)) << 10;
  return (bits & 0x807fffff) | static_cast<uint32_t>(std::clamp(exponent + 127, 0, 254)) << 23;
}

inline std::vector<uint32_t> draw_scales(const Form& form, uint32_t rows, std::mt19937& random) {
  std::vector<uint32_t> codes;
  for (uint32_t row = 0; row < rows; ++row) {
    // Near 1, near where sums are subnormal, or anywhere; a few are NaN.
    const uint32_t how = random() % 4;
    for (uint32_t i = 0; i < form.scales; ++i) {
      const uint32_t bits = random();
      if (form.ue4m3) {
        codes.push_back(bits % 64 != 0 && (bits >> 8 & 0x7f) == 0x7f ? 0 : bits >> 8 & 0x7f);
      } else {
        const uint32_t code = how == 0 ? bits >> 8 & 0xff : how == 1 ? 40 + (bits >> 8) % 40 : 107 + (bits >> 8) % 40;
        codes.push_back(code == 0xff && bits % 16 != 0 ? 0 : code);
      }
    }
  }
  return codes;
}

inline void draw(Matrix& matrix, std::mt19937& random) {
  for (uint32_t row = 0; row < matrix.rows; ++row) {
    // Rows of any codes are few: with NaN among the codes, most of their sums are NaN.
    const uint32_t choice = random() % 16;
    const Row how = choice == 0 ? Row::any : static_cast<Row>(1 + choice % 3);
    // A group of 16 may have no elements but zeros.
    const uint32_t empty = random() % 8;
    for (uint32_t k = 0; k < matrix.k; ++k) {
      const bool is_empty = how == Row::sparse && k / 16 == empty;
      matrix.codes[size_t{row} * matrix.k + k] = is_empty ? 0 : draw_code(matrix.format, how, random);
    }
  }
}

inline std::vector<Number> numbers_of(const Matrix& matrix) {
  const FloatFormat format = float_format(matrix.format);
  std::vector<Number> numbers;
  numbers.reserve(matrix.codes.size());
  for (const uint32_t code : matrix.codes) {
    numbers.push_back(number_of(matrix.format == ElementFormat::tf32 ? code >> 13 : code, format));
  }
  return numbers;
}

inline std::vector<Number> scales_of(const std::vector<uint32_t>& codes, bool ue4m3) {
  std::vector<Number> numbers;
  for (const uint32_t code : codes) {
    if (ue4m3) {
      numbers.push_back(number_of(code, kUe4m3));
    } else {
      const int power = static_cast<int>(code) - 127;
      numbers.push_back({code == 0xff ? Number::not_a_number : Number::finite, 1, power, power});
    }
  }
  return numbers;
}

/// The word that the rules give for a dot product of floats.
inline uint32_t word_by_rules(const Form& form, const Dot& dot) {
  const std::optional<uint32_t> known = special(dot);
  return known ? *known : form.has_groups() ? group_sum(dot) : window_sum(dot);
}

}  // namespace stagecraft::emulator::machine::testing::rules
