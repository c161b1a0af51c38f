// What each arithmetic instruction computes, as the PTX ISA describes it.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "naive_interpreter.hpp"

namespace stagecraft::naive {

namespace {

template <typename T>
T as(uint64_t bits) {
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<float>(static_cast<uint32_t>(bits));
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<double>(bits);
  } else {
    return static_cast<T>(bits);
  }
}

/// The bits of a register that holds a value; the NaN that arithmetic makes is the canonical one.
template <typename T>
uint64_t bits(T value) {
  if constexpr (std::is_same_v<T, float>) {
    return std::isnan(value) ? 0x7fffffffu : std::bit_cast<uint32_t>(value);
  } else if constexpr (std::is_same_v<T, double>) {
    return std::isnan(value) ? 0x7fffffffffffffffull : std::bit_cast<uint64_t>(value);
  } else if constexpr (sizeof(T) == 8) {
    return static_cast<uint64_t>(value);
  } else {
    return static_cast<uint32_t>(value);  // registers of 32 bits, also for narrower types
  }
}

/// Calls `use` with a value of the C++ type for a type of PTX.
template <typename Use>
uint64_t with_type(const std::string& type, Use&& use) {
  if (type == "f32") return use(float{});
  if (type == "f64") return use(double{});
  if (type == "u8") return use(uint8_t{});
  if (type == "s8") return use(int8_t{});
  if (type == "u16") return use(uint16_t{});
  if (type == "s16") return use(int16_t{});
  if (type == "u32" || type == "b32") return use(uint32_t{});
  if (type == "s32") return use(int32_t{});
  if (type == "u64" || type == "b64") return use(uint64_t{});
  if (type == "s64") return use(int64_t{});
  throw Error("unknown type " + type);
}

bool compare(const std::string& how, auto a, auto b) {
  if constexpr (std::is_floating_point_v<decltype(a)>) {
    const bool unordered = std::isnan(a) || std::isnan(b);
    if (how == "num") return !unordered;
    if (how == "nan") return unordered;
    if (how.size() == 3 && how.back() == 'u') return unordered || compare(how.substr(0, 2), a, b);
    if (how == "ne") return !unordered && a != b;  // the ordered form, unlike C++
  }
  if (how == "eq") return a == b;
  if (how == "ne") return a != b;
  if (how == "lt" || how == "lo") return a < b;
  if (how == "le" || how == "ls") return a <= b;
  if (how == "gt" || how == "hi") return a > b;
  if (how == "ge" || how == "hs") return a >= b;
  throw Error("unknown comparison " + how);
}

/// The upper half of a product.
uint64_t high(uint64_t a, uint64_t b, bool is_signed) {
  const auto wide = [&](uint64_t value) -> __int128 {
    return is_signed ? static_cast<__int128>(static_cast<int64_t>(value)) : static_cast<__int128>(value);
  };
  return static_cast<uint64_t>(static_cast<unsigned __int128>(wide(a)) * static_cast<unsigned __int128>(wide(b)) >> 64);
}

uint32_t extract(uint32_t value, uint32_t position, uint32_t length, bool is_signed) {
  position &= 0xff;
  length &= 0xff;
  uint32_t result = 0;
  const uint32_t last = std::min(position + length - 1, 31u);
  const bool sign = is_signed && length != 0 && (value >> last & 1) != 0;
  for (uint32_t i = 0; i < 32; ++i) {
    const bool inside = i < length && position + i <= 31;
    const bool bit = inside ? (value >> (position + i) & 1) != 0 : sign;
    result |= (bit ? 1u : 0u) << i;
  }
  return result;
}

uint32_t insert(uint32_t from, uint32_t into, uint32_t position, uint32_t length) {
  position &= 0xff;
  length &= 0xff;
  for (uint32_t i = 0; i < length && position + i <= 31; ++i) {
    into &= ~(1u << (position + i));
    into |= (from >> i & 1) << (position + i);
  }
  return into;
}

uint32_t permute(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t bytes = uint64_t{b} << 32 | a;
  uint32_t result = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t choice = selector >> 4 * i & 15;
    uint32_t byte = bytes >> (choice & 7) * 8 & 0xff;
    if (choice >= 8) byte = (byte & 0x80) != 0 ? 0xff : 0;  // its sign, replicated
    result |= byte << 8 * i;
  }
  return result;
}

uint32_t look_up(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t result = 0;
  for (uint32_t i = 0; i < 32; ++i) {
    const uint32_t row = (a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1);
    result |= (table >> row & 1) << i;
  }
  return result;
}

uint32_t funnel(const Instruction& instruction, uint32_t a, uint32_t b, uint32_t count) {
  const uint32_t n = instruction.has("clamp") ? std::min(count, 32u) : count & 31;
  const uint64_t both = uint64_t{b} << 32 | a;
  return instruction.has("l") ? static_cast<uint32_t>(both << n >> 32) : static_cast<uint32_t>(both >> n);
}

uint32_t dot(const Instruction& instruction, uint32_t a, uint32_t b, uint32_t c) {
  const bool signed_a = instruction.suffix[0] == "s32", signed_b = instruction.suffix[1] == "s32";
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t x = a >> 8 * i & 0xff, y = b >> 8 * i & 0xff;
    const int32_t left = signed_a ? static_cast<int8_t>(x) : static_cast<int32_t>(x);
    const int32_t right = signed_b ? static_cast<int8_t>(y) : static_cast<int32_t>(y);
    c += static_cast<uint32_t>(left * right);
  }
  return c;
}

/// Converts to an integer: floats towards zero, and what does not fit to the nearest that does.
template <typename To, typename From>
To convert(From value, bool saturates) {
  if constexpr (std::is_floating_point_v<From>) {
    if (std::isnan(value)) return 0;
    const double whole = std::trunc(static_cast<double>(value));
    if (whole < static_cast<double>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (whole >= std::ldexp(1.0, std::numeric_limits<To>::digits)) return std::numeric_limits<To>::max();
    return static_cast<To>(whole);
  } else {
    if (saturates) {
      const auto wide = static_cast<__int128>(value);
      const __int128 least = std::numeric_limits<To>::min(), most = std::numeric_limits<To>::max();
      return static_cast<To>(std::clamp(wide, least, most));
    }
    return static_cast<To>(value);
  }
}

uint64_t convert(const Instruction& instruction, uint64_t value) {
  const std::string& from = instruction.suffix.back();
  const std::string& to = instruction.suffix[instruction.suffix.size() - 2];
  return with_type(from, [&](auto source) {
    using From = decltype(source);
    return with_type(to, [&](auto target) {
      using To = decltype(target);
      if constexpr (std::is_floating_point_v<To>) {
        return bits(static_cast<To>(as<From>(value)));
      } else {
        const To converted = convert<To>(as<From>(value), instruction.has("sat"));
        // A narrower value fills its register by its sign, as in C++.
        return bits(converted);
      }
    });
  });
}

/// Instructions that exist in one type of 32 bits only. Returns false for others.
bool compute_bits(const Instruction& instruction, const std::vector<uint64_t>& values, uint64_t& result) {
  const auto word = [&](size_t i) { return static_cast<uint32_t>(values.at(i)); };
  const std::string& name = instruction.name;
  if (name == "bfe") {
    result = extract(word(0), word(1), word(2), instruction.type() == "s32");
  } else if (name == "bfi") {
    result = insert(word(0), word(1), word(2), word(3));
  } else if (name == "prmt") {
    result = permute(word(0), word(1), word(2));
  } else if (name == "lop3") {
    result = look_up(word(0), word(1), word(2), word(3));
  } else if (name == "shf") {
    result = funnel(instruction, word(0), word(1), word(2));
  } else if (name == "dp4a") {
    result = dot(instruction, word(0), word(1), word(2));
  } else if (name == "brev") {
    result = 0;
    for (uint32_t i = 0; i < 32; ++i) result |= uint64_t{word(0) >> i & 1} << (31 - i);
  } else {
    return false;
  }
  return true;
}

template <typename T>
uint64_t compute_float(const Instruction& instruction, const std::vector<uint64_t>& values) {
  const auto at = [&](size_t i) { return as<T>(values.at(i)); };
  // redux.sync.max.f32 names the operation after its own name
  const bool reduces = instruction.name == "redux";
  const std::string& name = reduces ? instruction.suffix.at(1) : instruction.name;
  if (name == "add") return bits<T>(at(0) + at(1));
  if (name == "sub") return bits<T>(at(0) - at(1));
  if (name == "mul") return bits<T>(at(0) * at(1));
  if (name == "div") return bits<T>(at(0) / at(1));
  if (name == "sqrt") return bits<T>(std::sqrt(at(0)));
  if (name == "rcp") return bits<T>(T{1} / at(0));
  if (name == "fma") return bits<T>(std::fma(at(0), at(1), at(2)));
  if (name == "min" || name == "max") {
    if (instruction.has("NaN") && (std::isnan(at(0)) || std::isnan(at(1)))) return bits<T>(at(0) + at(1));
    if (std::isnan(at(0))) return bits<T>(at(1));
    if (std::isnan(at(1))) return bits<T>(at(0));
    // -0 is less than +0 (PTX ISA, "min").
    const bool first_is_less = at(0) < at(1) || (at(0) == at(1) && std::signbit(at(0)));
    return bits<T>(at(first_is_less == (name == "min") ? 0 : 1));
  }
  throw Error("unknown instruction " + instruction.text);
}

template <typename T>
uint64_t compute_integer(const Instruction& instruction, const std::vector<uint64_t>& values) {
  using Unsigned = std::make_unsigned_t<T>;
  constexpr uint32_t kBits = sizeof(T) * 8;
  const auto at = [&](size_t i) { return as<T>(values.at(i)); };
  const auto raw = [&](size_t i) { return as<Unsigned>(values.at(i)); };  // sums and products wrap around
  const std::string& name = instruction.name;
  const auto is = [&](const char* what) {  // add, atom.global.add, red.shared.add, redux.sync.add, cp.reduce...add
    const bool reduces = name == "atom" || name == "red" || name == "redux" || name == "cp";
    return name == what || (reduces && instruction.has(what));
  };
  const auto wide = [&](size_t i) { return static_cast<uint64_t>(static_cast<int64_t>(at(i))); };
  const auto upper = [&] {
    return static_cast<Unsigned>(kBits == 64 ? high(values[0], values[1], std::is_signed_v<T>)
                                             : wide(0) * wide(1) >> 32);
  };
  if (is("add")) return bits<Unsigned>(raw(0) + raw(1));
  if (is("min")) return bits<T>(std::min(at(0), at(1)));
  if (is("max")) return bits<T>(std::max(at(0), at(1)));
  if (is("and")) return bits<Unsigned>(raw(0) & raw(1));
  if (is("or")) return bits<Unsigned>(raw(0) | raw(1));
  if (is("xor")) return bits<Unsigned>(raw(0) ^ raw(1));
  if (is("exch")) return bits<Unsigned>(raw(1));
  if (is("cas")) return bits<Unsigned>(raw(0) == raw(1) ? raw(2) : raw(0));
  if (is("inc")) return bits<Unsigned>(raw(0) >= raw(1) ? 0 : raw(0) + 1);
  if (is("dec")) return bits<Unsigned>(raw(0) == 0 || raw(0) > raw(1) ? raw(1) : raw(0) - 1);
  if (name == "mov") return bits<Unsigned>(raw(0));
  if (name == "sub") return bits<Unsigned>(raw(0) - raw(1));
  if (name == "mul" && instruction.has("wide")) return wide(0) * wide(1);
  if (name == "mul") return bits<Unsigned>(instruction.has("hi") ? upper() : raw(0) * raw(1));
  if (name == "mad") return bits<Unsigned>((instruction.has("hi") ? upper() : raw(0) * raw(1)) + raw(2));
  if (name == "div") return bits<T>(at(0) / at(1));
  if (name == "rem") return bits<T>(at(0) % at(1));
  if (name == "sad") return bits<Unsigned>(raw(2) + (at(0) < at(1) ? raw(1) - raw(0) : raw(0) - raw(1)));
  if (name == "abs") return bits<Unsigned>(at(0) < 0 ? 0 - raw(0) : raw(0));
  if (name == "neg") return bits<Unsigned>(0 - raw(0));
  if (name == "not") return bits<Unsigned>(~raw(0));
  if (name == "cnot") return bits<Unsigned>(raw(0) == 0 ? 1 : 0);
  if (name == "popc") return static_cast<uint64_t>(std::popcount(raw(0)));
  if (name == "clz") return static_cast<uint64_t>(std::countl_zero(raw(0)));
  const uint32_t count = std::min(name == "shl" || name == "shr" ? static_cast<uint32_t>(values.at(1)) : 0, kBits);
  if (name == "shl") return count == kBits ? 0 : bits<Unsigned>(raw(0) << count);
  if (name == "shr") return bits<T>(count == kBits ? (at(0) < 0 ? T(-1) : T(0)) : static_cast<T>(at(0) >> count));
  throw Error("unknown instruction " + instruction.text);
}

bool combine(const Instruction& instruction, bool first, bool second) {
  if (instruction.has("or") || instruction.name == "or") return first || second;
  if (instruction.has("xor") || instruction.name == "xor") return first != second;
  return first && second;
}

}  // namespace

uint64_t compute(const Instruction& instruction, const std::vector<uint64_t>& values) {
  const std::string& name = instruction.name;
  uint64_t result = 0;
  if (compute_bits(instruction, values, result) || compute_small(instruction, values, result)) return result;
  if (instruction.type() == "pred") {
    return name == "not" ? (values.at(0) != 0 ? 0 : 1) : combine(instruction, values.at(0) != 0, values.at(1) != 0);
  }
  if (name == "cvt") return convert(instruction, values.at(0));
  if (name == "mov" && instruction.type() == "u16") return values.at(0) & 0xffff;
  if (name == "selp") return values.at(2) != 0 ? values.at(0) : values.at(1);
  if (name == "setp" && instruction.type().ends_with("f16")) {
    const bool holds = compare(instruction.suffix[0], as<float>(widened(instruction.type(), values.at(0))),
                               as<float>(widened(instruction.type(), values.at(1))));
    return values.size() < 3 ? holds : combine(instruction, holds, values[2] != 0);
  }
  return with_type(instruction.type(), [&](auto of_type) -> uint64_t {
    using T = decltype(of_type);
    if (name == "setp") {
      const bool holds = compare(instruction.suffix[0], as<T>(values.at(0)), as<T>(values.at(1)));
      return values.size() < 3 ? holds : combine(instruction, holds, values[2] != 0);
    }
    if constexpr (std::is_floating_point_v<T>) {
      return name == "mov" ? values.at(0) : compute_float<T>(instruction, values);
    } else if constexpr (sizeof(T) >= 4) {
      return compute_integer<T>(instruction, values);
    }
    throw Error("unknown instruction " + instruction.text);
  });
}

}  // namespace stagecraft::naive
