#include "emulator/numerics/atomic_arithmetic.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <type_traits>

#include "emulator/numerics/narrow_floats.hpp"

namespace stagecraft::emulator::machine {
namespace {

using ptx::Type;

constexpr const char* kNames[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch"};

// ---- Operations: each has the type of its elements and `apply(old, operand)` -------------------------------------

template <typename Unsigned>
struct AddIntegers {
  using Element = Unsigned;
  static Unsigned apply(Unsigned old, Unsigned operand) { return static_cast<Unsigned>(old + operand); }
};
template <typename Integer>
struct Least {
  using Element = Integer;
  static Integer apply(Integer old, Integer operand) { return std::min(old, operand); }
};
template <typename Integer>
struct Greatest {
  using Element = Integer;
  static Integer apply(Integer old, Integer operand) { return std::max(old, operand); }
};
struct Increment {
  using Element = uint32_t;
  static uint32_t apply(uint32_t old, uint32_t operand) { return old >= operand ? 0 : old + 1; }
};
struct Decrement {
  using Element = uint32_t;
  static uint32_t apply(uint32_t old, uint32_t operand) { return old == 0 || old > operand ? operand : old - 1; }
};
template <typename Unsigned>
struct And {
  using Element = Unsigned;
  static Unsigned apply(Unsigned old, Unsigned operand) { return old & operand; }
};
template <typename Unsigned>
struct Or {
  using Element = Unsigned;
  static Unsigned apply(Unsigned old, Unsigned operand) { return old | operand; }
};
template <typename Unsigned>
struct Xor {
  using Element = Unsigned;
  static Unsigned apply(Unsigned old, Unsigned operand) { return old ^ operand; }
};
template <typename Unsigned>
struct Exchange {
  using Element = Unsigned;
  static Unsigned apply(Unsigned, Unsigned operand) { return operand; }
};

/// A sum that is not a number becomes the NaN that additions on the chip give.
struct AddFloats {
  using Element = float;
  static float apply(float old, float operand) {
    const float sum = old + operand;
    return std::isnan(sum) ? std::bit_cast<float>(0x7fff'ffffu) : sum;
  }
};
struct AddFloatsFlushing {
  using Element = float;
  static float apply(float old, float operand) { return flush(AddFloats::apply(flush(old), flush(operand))); }
  static float flush(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    return (bits & 0x7f80'0000u) == 0 ? std::bit_cast<float>(bits & 0x8000'0000u) : value;
  }
};
/// The processor of the host decides about payloads of NaN.
struct AddDoubles {
  using Element = double;
  static double apply(double old, double operand) { return old + operand; }
};

struct F16 {
  static float widen(uint16_t bits) { return from_f16(bits); }
  static uint16_t narrow(float value) { return std::isnan(value) ? 0x7fff : to_f16(value); }
};
struct Bf16 {
  static float widen(uint16_t bits) { return from_bf16(bits); }
  static uint16_t narrow(float value) { return std::isnan(value) ? 0x7fff : to_bf16(value); }
};

/// A sum of two 16-bit floats that is first rounded to float rounds to the same 16 bits as the exact sum.
template <typename Format>
struct AddHalves {
  using Element = uint16_t;
  static uint16_t apply(uint16_t old, uint16_t operand) {
    return Format::narrow(Format::widen(old) + Format::widen(operand));
  }
};
/// The number wins over a NaN, and +0 is above -0.
template <typename Format, bool TakesLess>
struct ExtremeOfHalves {
  using Element = uint16_t;
  static uint16_t apply(uint16_t old, uint16_t operand) {
    const float a = Format::widen(old), b = Format::widen(operand);
    if (std::isnan(a)) return std::isnan(b) ? 0x7fff : operand;
    if (std::isnan(b)) return old;
    const bool a_is_less = a < b || (a == b && std::signbit(a) && !std::signbit(b));
    return a_is_less == TakesLess ? old : operand;
  }
};
/// Two 16-bit floats in one word.
template <typename Operation>
struct Pair {
  using Element = uint32_t;
  static uint32_t apply(uint32_t old, uint32_t operand) {
    const uint32_t lower = Operation::apply(static_cast<uint16_t>(old), static_cast<uint16_t>(operand));
    const uint32_t upper = Operation::apply(static_cast<uint16_t>(old >> 16), static_cast<uint16_t>(operand >> 16));
    return lower | upper << 16;
  }
};

// ---- Which operation it is -----------------------------------------------------------------------------------------

/// `Make<Operation>::function` of the operation, or null where it does not exist for the type.
template <template <typename> typename Make, typename Function>
Function addition(Type type, bool flush) {
  switch (type) {
    case Type::u32:
    case Type::s32: return Make<AddIntegers<uint32_t>>::function;
    case Type::u64: return Make<AddIntegers<uint64_t>>::function;
    case Type::f32: return flush ? Make<AddFloatsFlushing>::function : Make<AddFloats>::function;
    case Type::f64: return Make<AddDoubles>::function;
    case Type::f16: return Make<AddHalves<F16>>::function;
    case Type::f16x2: return Make<Pair<AddHalves<F16>>>::function;
    case Type::bf16: return Make<AddHalves<Bf16>>::function;
    case Type::bf16x2: return Make<Pair<AddHalves<Bf16>>>::function;
    default: return nullptr;
  }
}

template <template <typename> typename Make, typename Function, template <typename> typename OfIntegers, bool TakesLess>
Function extreme(Type type) {
  switch (type) {
    case Type::u32: return Make<OfIntegers<uint32_t>>::function;
    case Type::s32: return Make<OfIntegers<int32_t>>::function;
    case Type::u64: return Make<OfIntegers<uint64_t>>::function;
    case Type::s64: return Make<OfIntegers<int64_t>>::function;
    case Type::f16: return Make<ExtremeOfHalves<F16, TakesLess>>::function;
    case Type::f16x2: return Make<Pair<ExtremeOfHalves<F16, TakesLess>>>::function;
    case Type::bf16: return Make<ExtremeOfHalves<Bf16, TakesLess>>::function;
    case Type::bf16x2: return Make<Pair<ExtremeOfHalves<Bf16, TakesLess>>>::function;
    default: return nullptr;
  }
}

template <template <typename> typename Make, typename Function, template <typename> typename OnBits>
Function bitwise(Type type) {
  switch (type) {
    case Type::b32: return Make<OnBits<uint32_t>>::function;
    case Type::b64: return Make<OnBits<uint64_t>>::function;
    default: return nullptr;
  }
}

template <template <typename> typename Make, typename Function>
Function choose(AtomicOperation operation, Type type, bool flush) {
  switch (operation) {
    case AtomicOperation::add: return addition<Make, Function>(type, flush);
    case AtomicOperation::min: return extreme<Make, Function, Least, true>(type);
    case AtomicOperation::max: return extreme<Make, Function, Greatest, false>(type);
    case AtomicOperation::inc: return type == Type::u32 ? Make<Increment>::function : nullptr;
    case AtomicOperation::dec: return type == Type::u32 ? Make<Decrement>::function : nullptr;
    case AtomicOperation::bit_and: return bitwise<Make, Function, And>(type);
    case AtomicOperation::bit_or: return bitwise<Make, Function, Or>(type);
    case AtomicOperation::bit_xor: return bitwise<Make, Function, Xor>(type);
    case AtomicOperation::exch: return bitwise<Make, Function, Exchange>(type);
  }
  return nullptr;
}

// ---- How it is applied ---------------------------------------------------------------------------------------------

template <typename Operation>
struct ToOne {
  using Element = typename Operation::Element;
  static AtomicValue function(AtomicValue old, AtomicValue operand) {
    AtomicValue result;
    const Element value = Operation::apply(element_of(old), element_of(operand));
    std::memcpy(&result.low, &value, sizeof value);
    return result;
  }
  static Element element_of(const AtomicValue& value) {
    Element element;
    std::memcpy(&element, &value.low, sizeof element);
    return element;
  }
};

template <typename Operation>
struct ToEach {
  using Element = typename Operation::Element;
  static void function(std::byte* memory, const std::byte* operands, size_t bytes) {
    for (size_t i = 0; i + sizeof(Element) <= bytes; i += sizeof(Element)) {
      Element old, operand;
      std::memcpy(&old, memory + i, sizeof old);
      std::memcpy(&operand, operands + i, sizeof operand);
      const Element result = Operation::apply(old, operand);
      std::memcpy(memory + i, &result, sizeof result);
    }
  }
};

AtomicValue exchange_all(AtomicValue, AtomicValue operand) { return operand; }

}  // namespace

AtomicOperation atomic_operation(std::string_view name) {
  const auto* const found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) throw std::logic_error("no atomic operation has this name");
  return static_cast<AtomicOperation>(found - std::begin(kNames));
}

const char* name_of(AtomicOperation operation) { return kNames[static_cast<size_t>(operation)]; }

AtomicFunction atomic_function(AtomicOperation operation, ptx::Type type, bool flush) {
  if (operation == AtomicOperation::exch && type == Type::b128) return exchange_all;
  return choose<ToOne, AtomicFunction>(operation, type, flush);
}

BulkFunction bulk_function(AtomicOperation operation, ptx::Type type, bool flush) {
  return choose<ToEach, BulkFunction>(operation, type, flush);
}

}  // namespace stagecraft::emulator::machine
