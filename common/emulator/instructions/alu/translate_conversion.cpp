// cvt: translates the many forms of the instruction to chains of the few handlers that the catalog has.
#include <fmt/format.h>

#include <array>
#include <vector>

#include "emulator/instructions/alu/timing_classes.hpp"
#include "emulator/instructions/alu/translators.hpp"
#include "emulator/ptx/modifiers.hpp"

namespace stagecraft::emulator::machine::alu {
namespace {

using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

/// Returns the bytes of a lane of this type: 8-bit types have 16-bit lanes.
uint32_t lane_bytes(Type type) { return ptx::size_of(type) < 2 ? 2 : ptx::size_of(type); }

/// Handlers one after another: each reads the vector of the one before and writes a scratch vector, the last one the
/// destination.
class Chain {
 public:
  Chain(Translation& t, RegisterOffset source) : t_(t), source_(source) {}

  void add(Operation operation, Type type, unsigned variant, uint32_t result_bytes, uint64_t immediate = 0) {
    steps_.push_back({require_handlers(t_, operation, type, variant), result_bytes, immediate});
  }
  bool empty() const { return steps_.empty(); }

  /// Emits everything; the last step writes `destination`.
  void finish(RegisterOffset destination) {
    RegisterOffset current = source_;
    for (size_t i = 0; i < steps_.size(); ++i) {
      const bool last = i + 1 == steps_.size();
      const RegisterOffset target = last ? destination : t_.scratch(steps_[i].bytes);
      emit_op(t_, steps_[i].handlers, {target, current, kNoRegister, kNoRegister}, steps_[i].immediate);
      current = target;
    }
  }
  /// Emits everything, and returns the vector of the result, which is the source when there are no steps.
  RegisterOffset finish() {
    if (steps_.empty()) return source_;
    const RegisterOffset result = t_.scratch(steps_.back().bytes);
    finish(result);
    return result;
  }

 private:
  struct Step {
    Handlers handlers;
    uint32_t bytes;
    uint64_t immediate;
  };
  Translation& t_;
  RegisterOffset source_;
  std::vector<Step> steps_;
};

/// The modifiers of a cvt between fundamental types.
struct Modifiers {
  std::optional<RoundingMode> rounding;  ///< .rn ...
  std::optional<RoundingMode> integral;  ///< .rni ...
  bool flush = false, saturate = false, relu = false, finite = false;
};

Modifiers take_modifiers(Translation& t) {
  Modifiers modifiers;
  modifiers.rounding = take_rounding(t);
  if (const auto name = t.modifiers.take_one_of({"rni", "rzi", "rmi", "rpi"})) {
    modifiers.integral = *name == "rni"   ? RoundingMode::nearest
                         : *name == "rzi" ? RoundingMode::zero
                         : *name == "rmi" ? RoundingMode::down
                                          : RoundingMode::up;
  }
  modifiers.flush = t.modifiers.take("ftz");
  modifiers.saturate = t.modifiers.take("sat");
  modifiers.relu = t.modifiers.take("relu");
  modifiers.finite = t.modifiers.take("satfinite");
  return modifiers;
}

/// Adds `Operation::extend` from lanes of `from` bytes, read as the type, to lanes of `to` bytes.
void add_extension(Chain& chain, Type value, uint32_t from, uint32_t to) {
  chain.add(Operation::extend, value, from | to << 4, to);
}

Type integer_of(bool with_sign, uint32_t bytes) {
  if (bytes <= 1) return with_sign ? Type::s8 : Type::u8;
  if (bytes == 2) return with_sign ? Type::s16 : Type::u16;
  if (bytes == 4) return with_sign ? Type::s32 : Type::u32;
  return with_sign ? Type::s64 : Type::u64;
}

/// Returns the highest value of an integer type in the form that `Operation::clamp_integer` takes.
uint64_t range_of(Type type) {
  const uint32_t bits = 8 * ptx::size_of(type);
  const uint64_t highest = ~uint64_t{0} >> (64 - bits);
  if (is_signed(type)) return highest >> 1 | uint64_t{1} << 63;
  return bits == 64 ? highest >> 1 : highest;
}

/// Adds the steps that make lanes of `from` bytes of a `type` 64-bit, and clamp them to the range of another integer
/// type.
void add_clamp(Chain& chain, Type type, uint32_t from, Type to) {
  const bool with_sign = is_signed(type);
  if (from != 8 || ptx::size_of(type) != 8) add_extension(chain, type, from, 8);
  const bool fits = ptx::size_of(to) == 8 && (is_signed(to) == with_sign);
  if (fits) return;
  // A signed number below 2^63 fits u64 when it is not negative, and no unsigned clamp needs the lowest value.
  chain.add(Operation::clamp_integer, with_sign ? Type::s64 : Type::u64, 0, 8,
            with_sign && to == Type::u64 ? 0x7fffffffffffffffu : range_of(to));
}

void convert_integers(Chain& chain, Type to, uint32_t to_bytes, Type from, uint32_t from_bytes, bool saturate) {
  if (saturate) {
    add_clamp(chain, from, from_bytes, to);
    return add_extension(chain, to, 8, to_bytes);
  }
  if (ptx::size_of(to) <= ptx::size_of(from)) return add_extension(chain, to, from_bytes, to_bytes);
  // Widening keeps the value's own sign up to the new type, which then fills the rest of the register by its own.
  if (is_signed(from) && !is_signed(to) && to_bytes > lane_bytes(to)) {
    add_extension(chain, from, from_bytes, lane_bytes(to));
    return add_extension(chain, to, lane_bytes(to), to_bytes);
  }
  add_extension(chain, from, from_bytes, to_bytes);
}

unsigned variant_of(Type source, RoundingMode mode) {
  return static_cast<unsigned>(source) | static_cast<unsigned>(mode) << 8;
}

/// Returns the mode under which a handler is listed: to f32 and f64 all directed modes have one, under `zero`.
RoundingMode filed(Type to, RoundingMode mode) {
  const bool wide = to == Type::f32 || to == Type::f64;
  return wide && mode != RoundingMode::nearest ? RoundingMode::zero : mode;
}

void convert_integer_to_float(Chain& chain, Type to, Type from, uint32_t from_bytes, RoundingMode mode, bool saturate) {
  Type wide = integer_of(is_signed(from), ptx::size_of(from) == 8 ? 8 : 4);
  if (saturate) {
    // The range [0, 1] of an integer is 0 and 1.
    if (from_bytes != 8 || ptx::size_of(from) != 8) add_extension(chain, from, from_bytes, 8);
    wide = integer_of(is_signed(from), 8);
    chain.add(Operation::clamp_integer, wide, 0, 8, 1);
  } else if (from_bytes != ptx::size_of(wide) || from != wide) {
    add_extension(chain, from, from_bytes, ptx::size_of(wide));
  }
  chain.add(Operation::integer_to_float, to, variant_of(wide, filed(to, mode)), lane_bytes(to),
            static_cast<uint64_t>(mode));
}

/// Adds the step that makes halves f32, exactly; f32 is flushed if `flush`.
Type widen(Chain& chain, Type from, bool flush) {
  const bool is_half = from == Type::f16 || from == Type::bf16;
  if (is_half) chain.add(Operation::float_to_float, Type::f32, static_cast<unsigned>(from), 4);
  if (flush && (from == Type::f32 || from == Type::bf16)) chain.add(Operation::flush, Type::f32, 0, 4);
  return is_half ? Type::f32 : from;
}

void convert_float_to_integer(Chain& chain, Type to, uint32_t to_bytes, Type from, RoundingMode mode, bool flush) {
  const Type wide = widen(chain, from, flush);
  const uint32_t bytes = ptx::size_of(to) == 8 ? 8 : 4;
  chain.add(Operation::float_to_integer, to, variant_of(wide, mode), bytes);
  if (bytes != to_bytes) add_extension(chain, to, bytes, to_bytes);
}

uint64_t largest_finite(Type type) {
  switch (type) {
    case Type::f16:
    case Type::f16x2: return 0x477fe000u;  // 65504
    case Type::bf16:
    case Type::bf16x2: return 0x7f7f0000u;
    default: return 0x7f7fe000u;  // tf32
  }
}

/// Adds .relu, .satfinite and .sat on an f32, before it is rounded to a narrower type. The order does not matter,
/// because zero, one and the largest numbers are numbers of every format.
void add_clamps(Chain& chain, Type to, const Modifiers& modifiers) {
  if (modifiers.relu) chain.add(Operation::relu, Type::f32, 0, 4);
  if (modifiers.finite) chain.add(Operation::clamp_magnitude, Type::f32, 0, 4, largest_finite(to));
  if (modifiers.saturate) chain.add(Operation::saturate, Type::f32, 0, 4);
}

void convert_floats(Chain& chain, Type to, Type from, const Modifiers& modifiers) {
  const RoundingMode mode = modifiers.rounding.value_or(RoundingMode::nearest);
  if (to == Type::f64 || (from == Type::f64 && to == Type::f64)) {
    if (from != Type::f64) {
      const Type wide = from == Type::f16 ? from : widen(chain, from, modifiers.flush);
      chain.add(Operation::float_to_float, Type::f64, static_cast<unsigned>(wide), 8);
    }
    if (modifiers.integral) {
      chain.add(Operation::round_to_integral, Type::f64, static_cast<unsigned>(*modifiers.integral), 8);
    }
    if (modifiers.saturate) chain.add(Operation::saturate, Type::f64, 0, 8);
    return;
  }
  if (from == Type::f64) {
    if (to == Type::f32) {
      chain.add(Operation::float_to_float, Type::f32, variant_of(Type::f64, filed(to, mode)), 4,
                static_cast<uint64_t>(mode));
      if (modifiers.flush) chain.add(Operation::flush, Type::f32, 1, 4);
    } else if (!modifiers.relu && !modifiers.finite && !modifiers.saturate) {
      chain.add(Operation::float_to_float, to, variant_of(Type::f64, mode), 2);
      return;
    } else {
      chain.add(Operation::odd_float, Type::f32, 0, 4);
    }
  } else {
    // The chip does not flush for f16: directed modes still round a subnormal f32 to the least f16 (measured).
    widen(chain, from, modifiers.flush && to != Type::f16);
  }
  if (modifiers.integral) {
    chain.add(Operation::round_to_integral, Type::f32, static_cast<unsigned>(*modifiers.integral), 4);
  }
  add_clamps(chain, to, modifiers);
  if (to != Type::f32) chain.add(Operation::float_to_float, to, variant_of(Type::f32, mode), 2);
}

/// Checks the rounding modifiers of a pair of types (PTX ISA, "cvt"): we refuse what ptxas refuses.
void check_rounding(Translation& t, Type to, Type from, const Modifiers& modifiers) {
  const auto refuse = [&](std::string_view what) { t.illegal(std::string(what)); };
  const bool to_integer = is_integer(to), from_integer = is_integer(from);
  if (to_integer && from_integer) {
    if (modifiers.rounding || modifiers.integral) refuse("a conversion between integers has no rounding modifier");
  } else if (to_integer) {
    if (!modifiers.integral) refuse("a conversion from floating point to an integer needs .rni, .rzi, .rmi or .rpi");
  } else if (from_integer) {
    if (!modifiers.rounding) refuse("a conversion from an integer to floating point needs .rn, .rz, .rm or .rp");
  } else {
    // Between f16 and bf16 it may be missing and is then .rn.
    const bool loses = ptx::size_of(to) < ptx::size_of(from);
    if (loses && !modifiers.rounding) refuse("this conversion can lose digits and needs .rn, .rz, .rm or .rp");
    const bool exact = !loses && from != Type::bf16 && (ptx::size_of(to) > 2 || to == from);
    if (exact && modifiers.rounding) refuse("this conversion is exact and has no rounding modifier");
    if (modifiers.integral && to != from) refuse(".rni, .rzi, .rmi and .rpi need source and destination of one type");
  }
  if (modifiers.flush && to != Type::f32 && from != Type::f32) refuse(".ftz applies to .f32 only");
  const bool narrow = from == Type::f32 && (to == Type::f16 || to == Type::bf16);
  if ((modifiers.relu || modifiers.finite) && !narrow)
    refuse(".relu and .satfinite need an .f32 source and a 16-bit result");
}

/// cvt.rnd.{f16x2,bf16x2}.f32 d, a, b: a to the upper half.
void translate_pack_halves(Translation& t, Type to) {
  const std::string_view rounding = t.modifiers.require_one_of({"rn", "rz"});
  const RoundingMode mode = rounding == "rn" ? RoundingMode::nearest : RoundingMode::zero;
  t.modifiers.require("f32");
  Modifiers modifiers;
  modifiers.relu = t.modifiers.take("relu");
  modifiers.finite = t.modifiers.take("satfinite");
  require_operands(t, 3, 3);
  Chain upper(t, exact_source(t, 1, Type::f32)), lower(t, exact_source(t, 2, Type::f32));
  add_clamps(upper, to, modifiers);
  add_clamps(lower, to, modifiers);
  const RegisterOffset a = upper.finish(), b = lower.finish();
  emit_op(t, require_handlers(t, Operation::pack_halves, to, static_cast<unsigned>(mode)),
          {exact_destination(t, size_t{0}, to), a, b, kNoRegister});
}

/// Returns a source of cvt.rs, prepared for its rounding.
RegisterOffset clamped_source(Translation& t, const Operand& operand, Type to, const Modifiers& modifiers) {
  Chain chain(t, exact_source(t, operand, Type::f32));
  add_clamps(chain, to, modifiers);
  return chain.finish();
}

/// Translates cvt.rs{.relu}{.satfinite}.{f16x2,bf16x2}.f32 d, a, b, rbits.
void translate_stochastic_halves(Translation& t, Type to) {
  Modifiers modifiers;
  modifiers.relu = t.modifiers.take("relu");
  modifiers.finite = t.modifiers.take("satfinite");
  t.modifiers.require("f32");
  require_operands(t, 4, 4);
  const RegisterOffset a = clamped_source(t, t.operand(1), to, modifiers);
  const RegisterOffset b = clamped_source(t, t.operand(2), to, modifiers);
  const RegisterOffset random = exact_source(t, 3, Type::b32);
  emit_op(t, require_handlers(t, Operation::stochastic_halves, to),
          {exact_destination(t, size_t{0}, to), a, b, random});
}

/// Translates cvt.rs{.relu}.satfinite.{e4m3x4,...,e2m1x4}.f32 d, {a, b, e, f}, rbits, where a goes to the highest bits;
/// two at a time, as on the chip.
void translate_stochastic(Translation& t) {
  if (const auto halves = t.modifiers.take_type({Type::f16x2, Type::bf16x2})) {
    return translate_stochastic_halves(t, *halves);
  }
  constexpr std::array<std::string_view, 5> kNames{"e4m3x4", "e5m2x4", "e2m3x4", "e3m2x4", "e2m1x4"};  // NarrowFormat
  const std::string_view name = t.modifiers.require_one_of({"e4m3x4", "e5m2x4", "e2m3x4", "e3m2x4", "e2m1x4"});
  unsigned format = 0;
  while (kNames[format] != name) ++format;
  Modifiers modifiers;
  modifiers.relu = t.modifiers.take("relu");
  t.modifiers.require("satfinite");
  t.modifiers.require("f32");
  require_operands(t, 3, 3);
  if (t.operand(1).kind != ptx::OperandKind::vector || t.operand(1).list.size() != 4) {
    t.illegal("the source must be a vector of four");
  }
  std::array<RegisterOffset, 4> sources;
  for (size_t i = 0; i < 4; ++i) sources[i] = clamped_source(t, t.operand(1).list[i], Type::f32, modifiers);
  const RegisterOffset random = exact_source(t, 2, Type::b32);
  const Type result = name == "e2m1x4" ? Type::b16 : Type::b32;
  const Handlers handlers = require_handlers(t, Operation::stochastic_pair, Type::f32, format);
  const RegisterOffset upper = t.scratch(lane_bytes(result)), lower = t.scratch(lane_bytes(result));
  emit_op(t, handlers, {upper, sources[0], sources[1], random}, 1);
  emit_op(t, handlers, {lower, sources[2], sources[3], random}, 0);
  emit_op(t, require_handlers(t, Operation::bit_or, result), {exact_destination(t, size_t{0}, result), upper, lower});
}

void translate_to_tf32(Translation& t) {
  const std::string_view rounding = t.modifiers.require_one_of({"rna", "rn", "rz"});
  t.modifiers.require("f32");
  Modifiers modifiers;
  modifiers.relu = rounding != "rna" && t.modifiers.take("relu");
  modifiers.finite = t.modifiers.take("satfinite");
  require_operands(t, 2, 2);
  Chain chain(t, exact_source(t, 1, Type::f32));
  const bool away = rounding == "rna";
  if (!away) add_clamps(chain, Type::none, modifiers);
  chain.add(Operation::to_tf32, Type::f32, away ? (modifiers.finite ? 3 : 1) : rounding == "rn" ? 0 : 2, 4);
  chain.finish(exact_destination(t, size_t{0}, Type::b32));
}

std::optional<NarrowFormat> take_narrow(Translation& t) {
  const auto name = t.modifiers.take_one_of({"e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "e2m1x2"});
  if (!name) return std::nullopt;
  return *name == "e4m3x2"   ? NarrowFormat::e4m3
         : *name == "e5m2x2" ? NarrowFormat::e5m2
         : *name == "e2m3x2" ? NarrowFormat::e2m3
         : *name == "e3m2x2" ? NarrowFormat::e3m2
                             : NarrowFormat::e2m1;
}

/// Returns the register type of a packed pair: 16 bits, or 8 for two 4-bit numbers.
Type pair_register(NarrowFormat format) { return format == NarrowFormat::e2m1 ? Type::b8 : Type::b16; }

void translate_to_narrow(Translation& t, NarrowFormat format) {
  t.modifiers.require("rn");
  t.modifiers.require("satfinite");
  const uint64_t flags = t.modifiers.take("relu") ? uint64_t{kNarrowRelu} : 0;
  const Type from = t.modifiers.require_type({Type::f32, Type::f16x2});
  const Type result = pair_register(format);
  if (from == Type::f16x2) {
    const Handlers handlers = require_handlers(t, Operation::narrow_halves, from, static_cast<unsigned>(format));
    return emit_plain(t, handlers, result, {Type::b32}, flags);
  }
  emit_plain(t, require_handlers(t, Operation::narrow_pair, from, static_cast<unsigned>(format)), result, {from, from},
             flags);
}

void translate_to_scale(Translation& t) {
  uint64_t flags = t.modifiers.require_one_of({"rz", "rp"}) == "rp" ? uint64_t{kNarrowUp} : 0;
  if (t.modifiers.take("satfinite")) flags |= kNarrowFinite;
  const Type from = t.modifiers.require_type({Type::f32, Type::bf16x2});
  const Handlers handlers = require_handlers(t, Operation::scale_pair, Type::f32);
  if (from == Type::f32) return emit_plain(t, handlers, Type::b16, {from, from}, flags);

  // Make the halves of a bf16x2 floats: the upper one already is one, except for the low bits; the lower one is shifted
  // up.
  require_operands(t, 2, 2);
  const RegisterOffset source = exact_source(t, 1, Type::b32);
  const RegisterOffset upper = t.scratch(4), lower = t.scratch(4);
  emit_op(t, require_handlers(t, Operation::bit_and, Type::b32),
          {upper, source, t.constant(0xffff0000u, 4), kNoRegister});
  emit_op(t, require_handlers(t, Operation::shift_left, Type::b32), {lower, source, t.constant(16, 4), kNoRegister});
  emit_op(t, handlers, {exact_destination(t, size_t{0}, Type::b16), upper, lower, kNoRegister}, flags);
}

/// Translates cvt.rn.f16x2.e4m3x2 and the like, and cvt.rn.bf16x2.ue8m0x2.
bool translate_from_narrow(Translation& t, Type to) {
  if (to == Type::bf16x2 && t.modifiers.take("ue8m0x2")) {
    t.modifiers.require("rn");
    emit_plain(t, require_handlers(t, Operation::widen_scale, to), Type::b32, {Type::b16});
    return true;
  }
  if (to != Type::f16x2) return false;
  const std::optional<NarrowFormat> format = take_narrow(t);
  if (!format) return false;
  t.modifiers.require("rn");
  const uint64_t flags = t.modifiers.take("relu") ? uint64_t{kNarrowRelu} : 0;
  emit_plain(t, require_handlers(t, Operation::widen_pair, to, static_cast<unsigned>(*format)), Type::b32,
             {pair_register(*format)}, flags);
  return true;
}

/// Translates cvt.pack.sat.{u,s}{2,4,8,16}.s32{.b32} d, a, b{, c}.
void translate_pack(Translation& t) {
  t.modifiers.require("sat");
  const std::string_view to = t.modifiers.require_one_of({"u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2"});
  t.modifiers.require("s32");
  const bool shifted = t.modifiers.take("b32");
  const uint64_t bits = to.substr(1) == "16" ? 16 : static_cast<uint64_t>(to[1] - '0');
  if (shifted != (bits < 16))
    t.illegal("cvt.pack to fields of less than 16 bits, and only that, has .b32 and a third source");
  const uint64_t immediate = bits | (to[0] == 's' ? 0x100u : 0u);
  const Handlers handlers = require_handlers(t, Operation::pack_integers, Type::s32);
  if (shifted) return emit_plain(t, handlers, Type::b32, {Type::s32, Type::s32, Type::b32}, immediate);
  require_operands(t, 3, 3);
  const RegisterOffset a = exact_source(t, 1, Type::s32), b = exact_source(t, 2, Type::s32);
  emit_op(t, handlers, {exact_destination(t, size_t{0}, Type::b32), a, b, t.constant(0, 4)}, immediate);
}

/// Returns the bytes of a lane of an operand's vector.
uint32_t operand_lane_bytes(Translation& t, const Operand& operand, Type type) {
  const Type declared = t.register_type(operand);
  return lane_bytes(declared == Type::none ? type : declared);
}

void translate_cvt(Translation& t) {
  if (t.modifiers.take("pack")) return translate_pack(t);
  if (t.modifiers.take("rs")) {
    if (t.architecture().major != 10) t.not_on_this_chip("cvt.rs needs an sm_100a", "round to the nearest, with .rn");
    return translate_stochastic(t);
  }
  // A narrow type is the destination when it comes before any other type.
  for (const std::string& modifier : t.instruction.modifiers) {
    if (modifier == "tf32") {
      t.modifiers.take("tf32");
      return translate_to_tf32(t);
    }
    if (modifier == "ue8m0x2") {
      t.modifiers.take("ue8m0x2");
      return translate_to_scale(t);
    }
    if (modifier.size() == 6 && modifier[0] == 'e' && modifier.ends_with("x2")) {
      if (const auto format = take_narrow(t)) return translate_to_narrow(t, *format);
    }
    if (ptx::type_from_name(modifier) != Type::none) break;
  }
  const Type to =
      t.modifiers.require_type({Type::u8, Type::u16, Type::u32, Type::u64, Type::s8, Type::s16, Type::s32, Type::s64,
                                Type::f16, Type::f16x2, Type::bf16, Type::bf16x2, Type::f32, Type::f64});
  if (to == Type::f16x2 || to == Type::bf16x2) {
    if (translate_from_narrow(t, to)) return;
    return translate_pack_halves(t, to);
  }
  const Type from = t.modifiers.require_type({Type::u8, Type::u16, Type::u32, Type::u64, Type::s8, Type::s16, Type::s32,
                                              Type::s64, Type::f16, Type::bf16, Type::f32, Type::f64});
  const Modifiers modifiers = take_modifiers(t);
  check_rounding(t, to, from, modifiers);
  require_operands(t, 2, 2);

  // Integer operands may be wider than the type; floating-point ones may not.
  const Operand& source = t.operand(1);
  const bool to_integer = is_integer(to), from_integer = is_integer(from);
  Chain chain(t, from_integer ? t.source(source, from) : exact_source(t, source, from));
  const uint32_t from_bytes = operand_lane_bytes(t, source, from);
  const RegisterOffset destination = to_integer ? t.destination(size_t{0}, to) : exact_destination(t, size_t{0}, to);
  const uint32_t to_bytes = operand_lane_bytes(t, t.operand(0), to);
  const RoundingMode integral = modifiers.integral.value_or(RoundingMode::zero);

  if (to_integer && from_integer) {
    convert_integers(chain, to, to_bytes, from, from_bytes, modifiers.saturate);
  } else if (to_integer) {
    convert_float_to_integer(chain, to, to_bytes, from, integral, modifiers.flush);
  } else if (from_integer) {
    convert_integer_to_float(chain, to, from, from_bytes, modifiers.rounding.value_or(RoundingMode::nearest),
                             modifiers.saturate);
  } else {
    convert_floats(chain, to, from, modifiers);
    // cvt.f32.f32 and the like have nothing to do.
    if (chain.empty()) add_extension(chain, integer_of(false, lane_bytes(to)), lane_bytes(to), lane_bytes(to));
  }
  chain.finish(destination);
}

}  // namespace

void add_conversion_translators(InstructionSet& set) {
  InstructionTraits converts = computing(Computation::conversion);
  converts.takes_wider_registers = true;
  set.add("cvt", translate_cvt, converts, class_of_conversion);
}

}  // namespace stagecraft::emulator::machine::alu
