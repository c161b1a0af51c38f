// The video instructions: sums, differences, extremes, shifts and comparisons of bytes and half-words in 32-bit
// registers; one (vadd), two (vadd2) or four (vadd4) at a time. The chip emulates nearly all of them, and nvcc makes
// them for few functions (__vabsdiffu4), so they are computed lane by lane, without vector code. Source: PTX ISA,
// "Scalar Video Instructions" and "SIMD Video Instructions".
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>

#include "emulator/instructions/alu/translators.hpp"
#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine::alu {
namespace {

using ptx::Type;

enum class Video : uint8_t { add, subtract, difference, average, least, greatest, shift_left, shift_right, compare };
enum class Second : uint8_t { none, add, least, greatest, merge };
enum class Comparison : uint8_t { eq, ne, lt, le, gt, ge };

/// Bits of a register: `width` of them from `first` on.
struct Part {
  uint32_t first = 0, width = 32;
};

struct VideoDetail : OpDetail {
  Video operation = Video::add;
  Second second = Second::none;
  Comparison comparison = Comparison::eq;
  bool signed_d = false, signed_a = false, signed_b = false;
  bool saturate = false;
  bool wrap = false;  ///< shifts: by the low 5 bits of b
  Part a, b, d;       ///< scalar: the selected parts
  // SIMD: the place of each source among the bytes or halves of A and then of B, and which results are written.
  uint32_t parts = 1;
  std::array<uint8_t, 4> from_a{}, from_b{};
  uint32_t taken = 1;
};

uint32_t mask_of(uint32_t width) { return width == 32 ? ~0u : (1u << width) - 1; }

int64_t extract(uint64_t value, Part part, bool is_signed) {
  const uint32_t bits = static_cast<uint32_t>(value >> part.first) & mask_of(part.width);
  if (!is_signed) return bits;
  return static_cast<int64_t>(uint64_t{bits} << (64 - part.width)) >> (64 - part.width);
}

int64_t clamp_to(int64_t value, uint32_t width, bool is_signed) {
  if (is_signed) return std::clamp<int64_t>(value, -(int64_t{1} << (width - 1)), (int64_t{1} << (width - 1)) - 1);
  return std::clamp<int64_t>(value, 0, (int64_t{1} << width) - 1);
}

bool holds(Comparison comparison, int64_t a, int64_t b) {
  switch (comparison) {
    case Comparison::eq: return a == b;
    case Comparison::ne: return a != b;
    case Comparison::lt: return a < b;
    case Comparison::le: return a <= b;
    case Comparison::gt: return a > b;
    case Comparison::ge: return a >= b;
  }
  return false;
}

int64_t compute(const VideoDetail& detail, int64_t a, int64_t b) {
  switch (detail.operation) {
    case Video::add: return a + b;
    case Video::subtract: return a - b;
    case Video::difference: return std::abs(a - b);
    case Video::average: return (a + b + (a + b >= 0 ? 1 : 0)) >> 1;
    case Video::least: return std::min(a, b);
    case Video::greatest: return std::max(a, b);
    case Video::shift_left:
    case Video::shift_right: {
      const auto amount = static_cast<uint32_t>(b);
      const uint32_t by = detail.wrap ? amount & 31 : std::min(amount, 32u);
      return detail.operation == Video::shift_left ? static_cast<int64_t>(static_cast<uint64_t>(a) << by) : a >> by;
    }
    case Video::compare: return holds(detail.comparison, a, b) ? 1 : 0;
  }
  return 0;
}

/// The sources of an Op, for one lane.
struct Sources {
  uint32_t a, b, c;
};

template <typename Compute>
void for_each_source(Fragment& fragment, const Op& op, LaneMask mask, Compute compute_lane) {
  const auto* a = lanes_at<uint32_t>(fragment.registers, op.a);
  const auto* b = lanes_at<uint32_t>(fragment.registers, op.b);
  const auto* c = lanes_at<uint32_t>(fragment.registers, op.c);
  auto* d = lanes_at<uint32_t>(fragment.registers, op.destination);
  for_each_lane(mask, [&](uint32_t lane) { d[lane] = compute_lane(Sources{a[lane], b[lane], c[lane]}); });
}

Outcome execute_scalar(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& detail = *static_cast<const VideoDetail*>(op.detail);
  for_each_source(fragment, op, mask, [&](const Sources& from) {
    int64_t value =
        compute(detail, extract(from.a, detail.a, detail.signed_a), extract(from.b, detail.b, detail.signed_b));
    if (detail.saturate) value = clamp_to(value, detail.d.width, detail.signed_d);
    const auto result = static_cast<uint32_t>(value);
    const auto ordered = [&](uint32_t bits) { return extract(bits, {}, detail.signed_d); };
    switch (detail.second) {
      case Second::none: return result;
      case Second::add: return result + from.c;
      case Second::least: return static_cast<uint32_t>(std::min(ordered(result), ordered(from.c)));
      case Second::greatest: return static_cast<uint32_t>(std::max(ordered(result), ordered(from.c)));
      case Second::merge: {
        const uint32_t covered = mask_of(detail.d.width) << detail.d.first;
        return (result << detail.d.first & covered) | (from.c & ~covered);
      }
    }
    return result;
  });
  return Outcome::next;
}

Outcome execute_parts(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& detail = *static_cast<const VideoDetail*>(op.detail);
  const uint32_t width = 32 / detail.parts;
  for_each_source(fragment, op, mask, [&](const Sources& from) {
    const uint64_t both = uint64_t{from.b} << 32 | from.a;
    uint32_t result = from.c;
    for (uint32_t i = 0; i < detail.parts; ++i) {
      if ((detail.taken >> i & 1) == 0) continue;
      int64_t value = compute(detail, extract(both, {detail.from_a[i] * width, width}, detail.signed_a),
                              extract(both, {detail.from_b[i] * width, width}, detail.signed_b));
      if (detail.saturate) value = clamp_to(value, width, detail.signed_d);
      if (detail.second == Second::add) {
        result += static_cast<uint32_t>(value);
      } else {
        const uint32_t covered = mask_of(width) << i * width;
        result = (static_cast<uint32_t>(value) << i * width & covered) | (result & ~covered);
      }
    }
    return result;
  });
  return Outcome::next;
}

// ---- vmad ----------------------------------------------------------------------------------------------------------

struct MultiplyDetail : OpDetail {
  Part a, b;
  bool signed_a = false, signed_b = false, signed_result = false;
  bool plus_one = false, negate_product = false, negate_c = false, saturate = false;
};

Outcome execute_multiply(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& detail = *static_cast<const MultiplyDetail*>(op.detail);
  for_each_source(fragment, op, mask, [&](const Sources& from) {
    using Wide = __int128;
    const Wide product = Wide{extract(from.a, detail.a, detail.signed_a)} * extract(from.b, detail.b, detail.signed_b);
    const Wide c = extract(from.c, {}, detail.signed_result);
    const Wide sum =
        (detail.negate_product ? -product : product) + (detail.negate_c ? -c : c) + (detail.plus_one ? 1 : 0);
    if (!detail.saturate) return static_cast<uint32_t>(sum);
    const Wide low = detail.signed_result ? std::numeric_limits<int32_t>::min() : 0;
    const Wide high =
        detail.signed_result ? Wide{std::numeric_limits<int32_t>::max()} : Wide{std::numeric_limits<uint32_t>::max()};
    return static_cast<uint32_t>(std::clamp(sum, low, high));
  });
  return Outcome::next;
}

// ---- Translation ---------------------------------------------------------------------------------------------------

/// Returns what follows the register in an operand: "b0" of "%r1.b0"; empty for the whole register.
std::string_view part_of(const ptx::Operand& operand) {
  const size_t dot = operand.kind == ptx::OperandKind::reg ? operand.name.rfind('.') : std::string::npos;
  return dot == std::string::npos ? std::string_view() : std::string_view(operand.name).substr(dot + 1);
}

Part scalar_part(Translation& t, const ptx::Operand& operand) {
  const std::string_view name = part_of(operand);
  if (name.empty()) return {};
  if (name.size() == 2 && name[0] == 'b' && name[1] >= '0' && name[1] <= '3') return {8u * (name[1] - '0'), 8};
  if (name.size() == 2 && name[0] == 'h' && name[1] >= '0' && name[1] <= '1') return {16u * (name[1] - '0'), 16};
  t.illegal(fmt::format("`.{}` is no part of a register; legal here: .b0, .b1, .b2, .b3, .h0, .h1", name));
}

bool take_signed(Translation& t) { return t.modifiers.require_type({Type::u32, Type::s32}) == Type::s32; }

Comparison take_comparison(Translation& t) {
  constexpr std::array<std::string_view, 6> kNames{"eq", "ne", "lt", "le", "gt", "ge"};
  const std::string_view name = t.modifiers.require_one_of({"eq", "ne", "lt", "le", "gt", "ge"});
  return static_cast<Comparison>(std::find(kNames.begin(), kNames.end(), name) - kNames.begin());
}

Second take_second(Translation& t) {
  const std::optional<std::string_view> name = t.modifiers.take_one_of({"add", "min", "max"});
  if (!name) return Second::none;
  return *name == "add" ? Second::add : *name == "min" ? Second::least : Second::greatest;
}

void take_types(Translation& t, VideoDetail& detail) {
  if (detail.operation == Video::compare) {
    detail.signed_a = take_signed(t);
    detail.signed_b = take_signed(t);
    detail.comparison = take_comparison(t);
    return;
  }
  detail.signed_d = take_signed(t);
  detail.signed_a = take_signed(t);
  detail.signed_b = take_signed(t);
  detail.saturate = t.modifiers.take("sat");
}

void emit_video(Translation& t, Handler handler, std::unique_ptr<OpDetail> detail, bool has_c) {
  require_operands(t, has_c ? 4 : 3, has_c ? 4 : 3);
  const RegisterOffset destination = exact_destination(t, 0, Type::b32);
  const RegisterOffset a = exact_source(t, 1, Type::b32), b = exact_source(t, 2, Type::b32);
  const RegisterOffset c = has_c ? exact_source(t, 3, Type::b32) : t.constant(0, 4);
  Op& op = t.emit(handler);
  op.destination = destination;
  op.a = a;
  op.b = b;
  op.c = c;
  op.detail = t.keep(std::move(detail));
}

/// Refuses a form for which an H200 gives another result than PTX (tests/conformance/video.cu).
[[noreturn]] void differs_from_ptx(Translation& t, std::string_view what) {
  t.unsupported(fmt::format("{} is not implemented: an H200 gives another result than PTX, as it is read here", what));
}

void translate_scalar(Translation& t, Video operation) {
  auto detail = std::make_unique<VideoDetail>();
  detail->operation = operation;
  take_types(t, *detail);
  if (operation == Video::shift_left || operation == Video::shift_right) {
    if (detail->signed_b) t.illegal("the amount of a shift is .u32");
    detail->wrap = t.modifiers.require_one_of({"clamp", "wrap"}) == "wrap";
  }
  detail->second = take_second(t);
  detail->a = scalar_part(t, t.operand(1));
  detail->b = scalar_part(t, t.operand(2));
  detail->d = scalar_part(t, t.operand(0));
  const bool merges = !part_of(t.operand(0)).empty();
  const bool shifts = operation == Video::shift_left || operation == Video::shift_right;
  const bool whole = part_of(t.operand(1)).empty() || part_of(t.operand(2)).empty();
  if (detail->saturate && (shifts || (merges && whole))) {
    differs_from_ptx(t, shifts ? ".sat of a shift" : ".sat into a part of the destination, of a whole register");
  }
  const bool ordered = detail->second == Second::least || detail->second == Second::greatest;
  // The amount of a shift has no sign.
  const bool same_sources = shifts || detail->signed_a == detail->signed_b;
  const bool alike = same_sources && detail->signed_a == detail->signed_d;
  if (operation != Video::compare && ((ordered && !alike) || (merges && !same_sources))) {
    differs_from_ptx(
        t, ordered ? ".min and .max of types of both signs" : "a part of the destination, of types of both signs");
  }
  if (merges && detail->second != Second::none) t.illegal("a part of the destination and a second operation");
  if (merges) detail->second = Second::merge;
  const bool has_c = detail->second != Second::none;
  emit_video(t, execute_scalar, std::move(detail), has_c);
}

/// Returns the places that "h10" or "b3210" names, from the lowest result on: `parts` digits below 2 * parts.
std::array<uint8_t, 4> places_of(Translation& t, const ptx::Operand& operand, uint32_t parts, uint32_t first) {
  std::array<uint8_t, 4> places{};
  const std::string_view name = part_of(operand);
  for (uint32_t i = 0; i < parts; ++i) places[i] = static_cast<uint8_t>(first + i);
  if (name.empty()) return places;
  bool legal = name.size() == parts + 1 && name[0] == (parts == 2 ? 'h' : 'b');
  for (uint32_t i = 0; i < parts && legal; ++i) {
    const auto digit = static_cast<uint32_t>(name[parts - i] - '0');
    legal = digit < 2 * parts;
    places[i] = static_cast<uint8_t>(digit);
  }
  if (!legal) {
    t.illegal(fmt::format("`.{}` selects nothing; legal here: .{} and {} digits below {}", name, parts == 2 ? 'h' : 'b',
                          parts, 2 * parts));
  }
  return places;
}

/// Returns the results that "h0" or "b310" names, as bits.
uint32_t results_of(Translation& t, const ptx::Operand& operand, uint32_t parts) {
  const std::string_view name = part_of(operand);
  if (name.empty()) return (1u << parts) - 1;
  uint32_t taken = 0;
  bool legal = name.size() > 1 && name[0] == (parts == 2 ? 'h' : 'b');
  for (const char digit : name.substr(1)) {
    const auto number = static_cast<uint32_t>(digit - '0');
    legal = legal && number < parts;
    if (legal) taken |= 1u << number;
  }
  if (!legal) t.illegal(fmt::format("`.{}` is no part of the destination", name));
  return taken;
}

template <uint32_t Parts>
void translate_parts(Translation& t, Video operation) {
  auto detail = std::make_unique<VideoDetail>();
  detail->operation = operation;
  detail->parts = Parts;
  take_types(t, *detail);
  detail->second = t.modifiers.take("add") ? Second::add : Second::merge;
  if (detail->saturate && detail->second == Second::add) t.illegal(".sat and .add exclude each other");
  detail->from_a = places_of(t, t.operand(1), Parts, 0);
  detail->from_b = places_of(t, t.operand(2), Parts, Parts);
  detail->taken = results_of(t, t.operand(0), Parts);
  emit_video(t, execute_parts, std::move(detail), true);
}

void translate_video_multiply(Translation& t) {
  auto detail = std::make_unique<MultiplyDetail>();
  take_signed(t);  // the destination's has no effect: the sources decide
  detail->signed_a = take_signed(t);
  detail->signed_b = take_signed(t);
  detail->plus_one = t.modifiers.take("po");
  detail->saturate = t.modifiers.take("sat");
  if (t.modifiers.has("shr7") || t.modifiers.has("shr15")) differs_from_ptx(t, "the scaling of vmad");
  detail->a = scalar_part(t, t.operand(1));
  detail->b = scalar_part(t, t.operand(2));
  detail->negate_product = t.operand(1).negated != t.operand(2).negated;
  detail->negate_c = t.operand(3).negated;
  detail->signed_result = detail->signed_a || detail->signed_b || detail->negate_product || detail->negate_c;
  emit_video(t, execute_multiply, std::move(detail), true);
}

template <Video Operation>
void add_both(InstructionSet& set, const char* scalar, const char* of_two, const char* of_four) {
  if (scalar != nullptr)
    set.add(
        scalar, [](Translation& t) { translate_scalar(t, Operation); }, kOrdinary, InstructionClass::logic);
  if (of_two == nullptr) return;
  set.add(
      of_two, [](Translation& t) { translate_parts<2>(t, Operation); }, kOrdinary, InstructionClass::logic);
  set.add(
      of_four, [](Translation& t) { translate_parts<4>(t, Operation); }, kOrdinary, InstructionClass::logic);
}

}  // namespace

void add_video_translators(InstructionSet& set) {
  add_both<Video::add>(set, "vadd", "vadd2", "vadd4");
  add_both<Video::subtract>(set, "vsub", "vsub2", "vsub4");
  add_both<Video::difference>(set, "vabsdiff", "vabsdiff2", "vabsdiff4");
  add_both<Video::average>(set, nullptr, "vavrg2", "vavrg4");
  add_both<Video::least>(set, "vmin", "vmin2", "vmin4");
  add_both<Video::greatest>(set, "vmax", "vmax2", "vmax4");
  add_both<Video::shift_left>(set, "vshl", nullptr, nullptr);
  add_both<Video::shift_right>(set, "vshr", nullptr, nullptr);
  add_both<Video::compare>(set, "vset", "vset2", "vset4");
  set.add("vmad", translate_video_multiply, kOrdinary, InstructionClass::multiply);
}

}  // namespace stagecraft::emulator::machine::alu
