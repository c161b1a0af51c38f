// Operations among the lanes of one warp: shfl, vote, match, redux, elect, activemask.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "emulator/instructions/families.hpp"
#include "emulator/state/announcements.hpp"
#include "emulator/state/fragments.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

namespace {

void write_predicate(Fragment& fragment, RegisterOffset offset, LaneMask mask, LaneMask value) {
  auto& to = *lanes_at<LaneMask>(fragment.registers, offset);
  to = (to & ~mask) | (value & mask);
}

// --- shfl ------------------------------------------------------------------------------------------------------

enum class Shuffle : uint8_t { up, down, butterfly, index };

struct ShuffleDetail : OpDetail {
  Shuffle mode = Shuffle::index;
  RegisterOffset clamp = kNoRegister, members = kNoRegister, in_range = kNoRegister;
};

void shuffle_among(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& detail = *static_cast<const ShuffleDetail*>(op.detail);
  std::array<uint32_t, kWarpSize> values;
  std::memcpy(values.data(), fragment.registers + op.a, sizeof values);
  const auto* distances = lanes_at<uint32_t>(fragment.registers, op.b);
  const auto* clamps = lanes_at<uint32_t>(fragment.registers, detail.clamp);
  auto* to = lanes_at<uint32_t>(fragment.registers, op.destination);
  std::array<uint32_t, kWarpSize> results;
  LaneMask in_range = 0;
  for_each_lane(mask, [&](uint32_t lane) {
    // PTX ISA, "shfl.sync": the clamp operand holds the clamp value in bits 4:0 and the segment mask in bits 12:8.
    const uint32_t distance = distances[lane] & 31;
    const uint32_t clamp = clamps[lane] & 31;
    const uint32_t segment = (clamps[lane] >> 8) & 31;
    const uint32_t most = (lane & segment) | (clamp & ~segment);
    const uint32_t least = lane & segment;
    uint32_t from = 0;
    bool valid = false;
    switch (detail.mode) {
      case Shuffle::up:
        from = lane - distance;
        valid = static_cast<int32_t>(from) >= static_cast<int32_t>(most);
        break;
      case Shuffle::down:
        from = lane + distance;
        valid = from <= most;
        break;
      case Shuffle::butterfly:
        from = lane ^ distance;
        valid = from <= most;
        break;
      case Shuffle::index:
        from = least | (distance & ~segment);
        valid = from <= most;
        break;
    }
    if (!valid) from = lane;
    in_range |= (valid ? 1u : 0u) << lane;
    results[lane] = values[from & 31];
  });
  for_each_lane(mask, [&](uint32_t lane) { to[lane] = results[lane]; });
  if (detail.in_range != kNoRegister) write_predicate(fragment, detail.in_range, mask, in_range);
}

Outcome shuffle(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& detail = *static_cast<const ShuffleDetail*>(op.detail);
  return among_members(fragment, mask, detail.members, [&](LaneMask group) {
    announce_exchange(fragment, group);
    shuffle_among(fragment, op, group);
  });
}

void translate_shfl(Translation& t) {
  auto detail = std::make_unique<ShuffleDetail>();
  if (!t.modifiers.take("sync")) {
    t.illegal("without .sync it does not exist since sm_70: write shfl.sync, with the mask of its lanes at the end");
  }
  const std::string_view mode = t.modifiers.require_one_of({"up", "down", "bfly", "idx"});
  detail->mode = mode == "up"     ? Shuffle::up
                 : mode == "down" ? Shuffle::down
                 : mode == "bfly" ? Shuffle::butterfly
                                  : Shuffle::index;
  t.modifiers.require("b32");
  const ptx::Operand* to = &t.operand(0);
  if (to->kind == ptx::OperandKind::pair) {
    detail->in_range = t.destination(to->list.at(1), ptx::Type::pred);
    to = &to->list.at(0);
  }
  const RegisterOffset destination = t.destination(*to, ptx::Type::b32);
  const RegisterOffset value = t.source(1, ptx::Type::b32);
  const RegisterOffset distance = t.source(2, ptx::Type::b32);
  detail->clamp = t.source(3, ptx::Type::b32);
  detail->members = t.source(4, ptx::Type::b32);
  const auto* kept = t.keep(std::move(detail));
  Op& op = t.emit(shuffle);
  op.destination = destination;
  op.a = value;
  op.b = distance;
  op.detail = kept;
}

// --- vote, match, activemask, elect -------------------------------------------------------------------------------

enum class Vote : uint64_t { all, any, uniform, ballot };

/// op.a is the predicate, op.b the member mask, op.immediate Vote | flip << 32.
Outcome vote(Fragment& fragment, const Op& op, LaneMask mask) {
  return among_members(fragment, mask, op.b, [&](LaneMask group) {
    announce_exchange(fragment, group);
    const LaneMask votes =
        (*lanes_at<LaneMask>(fragment.registers, op.a) ^ static_cast<LaneMask>(op.immediate >> 32)) & group;
    switch (static_cast<Vote>(op.immediate & 3)) {
      case Vote::all: write_predicate(fragment, op.destination, group, votes == group ? group : 0); break;
      case Vote::any: write_predicate(fragment, op.destination, group, votes != 0 ? group : 0); break;
      case Vote::uniform:
        write_predicate(fragment, op.destination, group, votes == 0 || votes == group ? group : 0);
        break;
      case Vote::ballot: {
        auto* to = lanes_at<uint32_t>(fragment.registers, op.destination);
        for_each_lane(group, [&](uint32_t lane) { to[lane] = votes; });
        break;
      }
    }
  });
}

void translate_vote(Translation& t) {
  t.modifiers.require("sync");
  const std::string_view name = t.modifiers.require_one_of({"all", "any", "uni", "ballot"});
  const Vote kind = name == "all"   ? Vote::all
                    : name == "any" ? Vote::any
                    : name == "uni" ? Vote::uniform
                                    : Vote::ballot;
  t.modifiers.require(kind == Vote::ballot ? "b32" : "pred");
  const RegisterOffset destination = t.destination(0, kind == Vote::ballot ? ptx::Type::b32 : ptx::Type::pred);
  const Translation::Predicate votes = t.predicate(t.operand(1));
  const RegisterOffset members = t.source(2, ptx::Type::b32);
  Op& op = t.emit(vote);
  op.destination = destination;
  op.a = votes.offset;
  op.b = members;
  op.immediate = static_cast<uint64_t>(kind) | uint64_t{votes.flip} << 32;
}

struct MatchDetail : OpDetail {
  RegisterOffset all_equal = kNoRegister;
  bool all = false;
};

template <typename Element>
Outcome match(Fragment& fragment, const Op& op, LaneMask mask) {
  return among_members(fragment, mask, op.b, [&](LaneMask group) {
    announce_exchange(fragment, group);
    const auto& detail = *static_cast<const MatchDetail*>(op.detail);
    const auto* values = lanes_at<Element>(fragment.registers, op.a);
    // One pass over all lanes for each value that occurs: the compiler makes vector code of it.
    std::array<LaneMask, kWarpSize> equal;
    LaneMask same = 0;
    for (LaneMask rest = group; rest != 0; rest &= ~same) {
      const Element value = values[first_lane(rest)];
      same = 0;
      for (uint32_t lane = 0; lane < kWarpSize; ++lane) same |= (values[lane] == value ? 1u : 0u) << lane;
      same &= group;
      for_each_lane(same, [&](uint32_t lane) { equal[lane] = same; });
    }
    const bool all_equal = same == group;
    auto* to = lanes_at<uint32_t>(fragment.registers, op.destination);
    for_each_lane(group, [&](uint32_t lane) { to[lane] = !detail.all ? equal[lane] : all_equal ? group : 0; });
    if (detail.all_equal != kNoRegister) write_predicate(fragment, detail.all_equal, group, all_equal ? group : 0);
  });
}

void translate_match(Translation& t) {
  auto detail = std::make_unique<MatchDetail>();
  detail->all = t.modifiers.require_one_of({"any", "all"}) == "all";
  t.modifiers.require("sync");
  const ptx::Type type = t.modifiers.require_type({ptx::Type::b32, ptx::Type::b64});
  const ptx::Operand* to = &t.operand(0);
  if (to->kind == ptx::OperandKind::pair) {
    if (!detail->all) t.illegal("match.any gives no predicate; match.all does");
    detail->all_equal = t.destination(to->list.at(1), ptx::Type::pred);
    to = &to->list.at(0);
  }
  const RegisterOffset destination = t.destination(*to, ptx::Type::b32);
  const RegisterOffset value = t.source(1, type);
  const RegisterOffset members = t.source(2, ptx::Type::b32);
  const auto* kept = t.keep(std::move(detail));
  Op& op = type == ptx::Type::b32 ? t.emit(match<uint32_t>) : t.emit(match<uint64_t>);
  op.destination = destination;
  op.a = value;
  op.b = members;
  op.detail = kept;
}

Outcome active_mask(Fragment& fragment, const Op& op, LaneMask mask) {
  auto* to = lanes_at<uint32_t>(fragment.registers, op.destination);
  for_each_lane(mask, [&](uint32_t lane) { to[lane] = mask; });
  return Outcome::next;
}

/// Elects the lowest member, as an H200 does; PTX says only that the choice depends on the mask alone. op.a is the
/// member mask, op.destination the number of the elected lane, op.b the predicate.
Outcome elect(Fragment& fragment, const Op& op, LaneMask mask) {
  return among_members(fragment, mask, op.a, [&](LaneMask group) {
    const uint32_t elected = first_lane(group);
    auto* to = lanes_at<uint32_t>(fragment.registers, op.destination);
    for_each_lane(group, [&](uint32_t lane) { to[lane] = elected; });
    write_predicate(fragment, op.b, group, 1u << elected);
  });
}

void translate_elect(Translation& t) {
  t.modifiers.require("sync");
  const ptx::Operand& to = t.operand(0);
  if (to.kind != ptx::OperandKind::pair) t.illegal("the destination must be a pair: lane|predicate");
  const RegisterOffset lane = t.destination(to.list.at(0), ptx::Type::b32);
  const RegisterOffset predicate = t.destination(to.list.at(1), ptx::Type::pred);
  const RegisterOffset members = t.source(1, ptx::Type::b32);
  Op& op = t.emit(elect);
  op.destination = lane;
  op.b = predicate;
  op.a = members;
}

// --- redux --------------------------------------------------------------------------------------------------------

template <typename Element, typename Combine>
Outcome reduce(Fragment& fragment, const Op& op, LaneMask mask) {
  return among_members(fragment, mask, op.b, [&](LaneMask group) {
    announce_exchange(fragment, group);
    const auto* values = lanes_at<Element>(fragment.registers, op.a);
    Element result = values[first_lane(group)];
    for_each_lane(group & (group - 1), [&](uint32_t lane) { result = Combine{}(result, values[lane]); });
    auto* to = lanes_at<Element>(fragment.registers, op.destination);
    for_each_lane(group, [&](uint32_t lane) { to[lane] = result; });
  });
}

struct Least {
  template <typename T>
  T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};
struct Greatest {
  template <typename T>
  T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};

/// Minimum or maximum of floats. A number wins over a NaN unless `Nan`, and -0 is below +0.
template <bool IsMax, bool Nan, bool Absolute>
struct FloatExtreme {
  float operator()(float a, float b) const {
    if (Absolute) a = std::fabs(a), b = std::fabs(b);
    if (std::isnan(a) || std::isnan(b)) {
      if (Nan || (std::isnan(a) && std::isnan(b))) {
        const uint32_t canonical = 0x7fffffff;
        float nan;
        std::memcpy(&nan, &canonical, sizeof nan);
        return nan;
      }
      return std::isnan(a) ? b : a;
    }
    if (a == b) return std::signbit(a) != IsMax ? a : b;
    return (a < b) != IsMax ? a : b;
  }
};

Handler float_reduction(bool is_max, bool nan, bool absolute) {
  if (is_max) {
    if (nan)
      return absolute ? reduce<float, FloatExtreme<true, true, true>> : reduce<float, FloatExtreme<true, true, false>>;
    return absolute ? reduce<float, FloatExtreme<true, false, true>> : reduce<float, FloatExtreme<true, false, false>>;
  }
  if (nan)
    return absolute ? reduce<float, FloatExtreme<false, true, true>> : reduce<float, FloatExtreme<false, true, false>>;
  return absolute ? reduce<float, FloatExtreme<false, false, true>> : reduce<float, FloatExtreme<false, false, false>>;
}

void translate_redux(Translation& t) {
  t.modifiers.require("sync");
  const std::string_view name = t.modifiers.require_one_of({"add", "min", "max", "and", "or", "xor"});
  Handler handler = nullptr;
  if (name == "and" || name == "or" || name == "xor") {
    t.modifiers.require("b32");
    handler = name == "and"  ? reduce<uint32_t, std::bit_and<>>
              : name == "or" ? reduce<uint32_t, std::bit_or<>>
                             : reduce<uint32_t, std::bit_xor<>>;
  } else {
    const bool absolute = t.modifiers.take("abs");
    const bool nan = t.modifiers.take("NaN");
    const ptx::Type type = t.modifiers.require_type({ptx::Type::u32, ptx::Type::s32, ptx::Type::f32});
    if (type == ptx::Type::f32) {
      if (name == "add") t.illegal("redux.sync.add has no .f32");
      if (t.architecture().major < 10) t.illegal("redux.sync of .f32 needs sm_100a");
      handler = float_reduction(name == "max", nan, absolute);
    } else if (absolute || nan) {
      t.illegal("`.abs` and `.NaN` are for .f32");
    } else if (name == "add") {
      handler = reduce<uint32_t, std::plus<>>;
    } else if (name == "min") {
      handler = type == ptx::Type::u32 ? reduce<uint32_t, Least> : reduce<int32_t, Least>;
    } else {
      handler = type == ptx::Type::u32 ? reduce<uint32_t, Greatest> : reduce<int32_t, Greatest>;
    }
  }
  const RegisterOffset destination = t.destination(0, ptx::Type::b32);
  const RegisterOffset value = t.source(1, ptx::Type::b32);
  const RegisterOffset members = t.source(2, ptx::Type::b32);
  Op& op = t.emit(handler);
  op.destination = destination;
  op.a = value;
  op.b = members;
}

void translate_activemask(Translation& t) {
  t.modifiers.require("b32");
  const RegisterOffset to = t.destination(0, ptx::Type::b32);
  t.emit(active_mask).destination = to;
}

}  // namespace

void add_warp_operations(InstructionSet& set) {
  set.add("shfl", translate_shfl, kOrdinary);
  set.add("vote", translate_vote, kOrdinary);
  set.add("match", translate_match, kOrdinary);
  set.add("redux", translate_redux, kOrdinary);
  set.add("elect", translate_elect, kOrdinary);
  set.add("activemask", translate_activemask, kOrdinary);
}

}  // namespace stagecraft::emulator::machine
