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

/// Returns the operand `a` of all lanes, for which `buffer` may be needed.
template <typename Element>
const Element* values_of(SyncPlaces places, std::array<Element, kWarpSize>& buffer) {
  const auto* first = lanes_at<Element>(places[0].fragment->registers, places[0].op->a);
  if (places.size() == 1) return first;
  // Lanes that do not take part may be read: they have what they have in the first place, so that runs do not differ.
  std::copy_n(first, kWarpSize, buffer.begin());
  for (const SyncPlace& place : places.subspan(1)) {
    const auto* from = lanes_at<Element>(place.fragment->registers, place.op->a);
    for_each_lane(place.lanes, [&](uint32_t lane) { buffer[lane] = from[lane]; });
  }
  return buffer.data();
}

/// Writes `result(lane)` to the destination of each lane.
template <typename Element, typename Result>
void write_results(SyncPlaces places, const Result& result) {
  for (const SyncPlace& place : places) {
    auto* to = lanes_at<Element>(place.fragment->registers, place.op->destination);
    for_each_lane(place.lanes, [&](uint32_t lane) { to[lane] = result(lane); });
  }
}

void announce_exchange(SyncPlaces places) {
  if (!observes_memory(*places[0].fragment)) return;
  for (const SyncPlace& place : places) announce_exchange_to_observers(*place.fragment, lanes_of(places));
}

// --- shfl ------------------------------------------------------------------------------------------------------

enum class Shuffle : uint8_t { up, down, butterfly, index };

struct ShuffleDetail : OpDetail {
  RegisterOffset clamp = kNoRegister, members = kNoRegister, in_range = kNoRegister;
};

/// Finds what the lanes of a place get from others, of which `present` take part, and returns which of them read in
/// range.
LaneMask find_results(const SyncPlace& place, LaneMask present, const uint32_t* values,
                      std::array<uint32_t, kWarpSize>& results) {
  const Op& op = *place.op;
  std::byte* const registers = place.fragment->registers;
  const auto* distances = lanes_at<uint32_t>(registers, op.b);
  const auto* clamps = lanes_at<uint32_t>(registers, static_cast<const ShuffleDetail*>(op.detail)->clamp);
  LaneMask in_range = 0, readers = 0, absent = 0;
  for_each_lane(place.lanes, [&](uint32_t lane) {
    // PTX ISA, "shfl.sync": the clamp operand holds the clamp value in bits 4:0 and the segment mask in bits 12:8.
    const uint32_t distance = distances[lane] & 31;
    const uint32_t clamp = clamps[lane] & 31;
    const uint32_t segment = (clamps[lane] >> 8) & 31;
    const uint32_t most = (lane & segment) | (clamp & ~segment);
    const uint32_t least = lane & segment;
    uint32_t from = 0;
    bool valid = false;
    switch (static_cast<Shuffle>(op.immediate)) {
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
    if ((present >> (from & 31) & 1) == 0) {
      readers |= 1u << lane;
      absent |= 1u << (from & 31);
    }
    results[lane] = values[from & 31];
  });
  // What the last lanes of a group get by `up` and `down` is often of no use to anybody.
  const bool names_source = op.immediate == static_cast<uint64_t>(Shuffle::index) ||
                            op.immediate == static_cast<uint64_t>(Shuffle::butterfly);
  if (readers != 0 && names_source) {
    for (Observer* observer : place.fragment->grid().observers) {
      observer->absent_lanes_read(*place.fragment, readers, absent);
    }
  }
  return in_range;
}

void shuffle_among(SyncPlaces places) {
  std::array<uint32_t, kWarpSize> buffer, results;
  const uint32_t* values = values_of(places, buffer);
  LaneMask in_range = 0;
  const LaneMask present = lanes_of(places);
  for (const SyncPlace& place : places) in_range |= find_results(place, present, values, results);
  write_results<uint32_t>(places, [&](uint32_t lane) { return results[lane]; });
  for (const auto& [to, shuffle, lanes] : places) {
    const RegisterOffset predicate = static_cast<const ShuffleDetail*>(shuffle->detail)->in_range;
    if (predicate != kNoRegister) write_predicate(*to, predicate, lanes, in_range);
  }
}

Outcome shuffle(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& detail = *static_cast<const ShuffleDetail*>(op.detail);
  return among_members(fragment, op, mask, detail.members, [](SyncPlaces places) {
    announce_exchange(places);
    shuffle_among(places);
  });
}

void translate_shfl(Translation& t) {
  auto detail = std::make_unique<ShuffleDetail>();
  if (!t.modifiers.take("sync")) {
    t.illegal("without .sync it does not exist since sm_70: write shfl.sync, with the mask of its lanes at the end");
  }
  const std::string_view mode = t.modifiers.require_one_of({"up", "down", "bfly", "idx"});
  const Shuffle kind = mode == "up"     ? Shuffle::up
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
  op.immediate = static_cast<uint64_t>(kind);
  op.detail = kept;
}

// --- vote, match, activemask, elect -------------------------------------------------------------------------------

enum class Vote : uint64_t { all, any, uniform, ballot };

/// op.a is the predicate, op.b the member mask, op.immediate Vote | flip << 32.
Outcome vote(Fragment& fragment, const Op& op, LaneMask mask) {
  return among_members(fragment, op, mask, op.b, [](SyncPlaces places) {
    announce_exchange(places);
    const LaneMask group = lanes_of(places);
    LaneMask votes = 0;
    for (const auto& [from, vote, lanes] : places) {
      votes |= (*lanes_at<LaneMask>(from->registers, vote->a) ^ static_cast<LaneMask>(vote->immediate >> 32)) & lanes;
    }
    const auto write = [&](bool result) {
      for (const auto& [to, vote, lanes] : places) write_predicate(*to, vote->destination, lanes, result ? lanes : 0);
    };
    switch (static_cast<Vote>(places[0].op->immediate & 3)) {
      case Vote::all: write(votes == group); break;
      case Vote::any: write(votes != 0); break;
      case Vote::uniform: write(votes == 0 || votes == group); break;
      case Vote::ballot: write_results<uint32_t>(places, [&](uint32_t) { return votes; }); break;
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
};

/// op.immediate is 1 for `.all`.
template <typename Element>
Outcome match(Fragment& fragment, const Op& op, LaneMask mask) {
  return among_members(fragment, op, mask, op.b, [](SyncPlaces places) {
    announce_exchange(places);
    const LaneMask group = lanes_of(places);
    std::array<Element, kWarpSize> buffer;
    const Element* values = values_of(places, buffer);
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
    const bool all = places[0].op->immediate != 0;
    write_results<uint32_t>(places, [&](uint32_t lane) { return !all ? equal[lane] : all_equal ? group : 0; });
    for (const auto& [to, match, lanes] : places) {
      const RegisterOffset predicate = static_cast<const MatchDetail*>(match->detail)->all_equal;
      if (predicate != kNoRegister) write_predicate(*to, predicate, lanes, all_equal ? lanes : 0);
    }
  });
}

void translate_match(Translation& t) {
  auto detail = std::make_unique<MatchDetail>();
  const bool all = t.modifiers.require_one_of({"any", "all"}) == "all";
  t.modifiers.require("sync");
  const ptx::Type type = t.modifiers.require_type({ptx::Type::b32, ptx::Type::b64});
  const ptx::Operand* to = &t.operand(0);
  if (to->kind == ptx::OperandKind::pair) {
    if (!all) t.illegal("match.any gives no predicate; match.all does");
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
  op.immediate = all ? 1 : 0;
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
  return among_members(fragment, op, mask, op.a, [](SyncPlaces places) {
    const uint32_t elected = first_lane(lanes_of(places));
    write_results<uint32_t>(places, [&](uint32_t) { return elected; });
    for (const auto& [to, elect, lanes] : places) write_predicate(*to, elect->b, lanes, 1u << elected);
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
  op.immediate = kMeetsInOnePlace;  // on an H200 it elects one lane for several, which no program can mean
}

// --- redux --------------------------------------------------------------------------------------------------------

template <typename Element, typename Combine>
Outcome reduce(Fragment& fragment, const Op& op, LaneMask mask) {
  return among_members(fragment, op, mask, op.b, [](SyncPlaces places) {
    announce_exchange(places);
    const LaneMask group = lanes_of(places);
    std::array<Element, kWarpSize> buffer;
    const Element* values = values_of(places, buffer);
    Element result = values[first_lane(group)];
    for_each_lane(group & (group - 1), [&](uint32_t lane) { result = Combine{}(result, values[lane]); });
    write_results<Element>(places, [&](uint32_t) { return result; });
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
      if (t.architecture().major != 10) {
        t.not_on_this_chip("redux.sync of .f32 needs an sm_100a", "exchange the values with shfl.sync");
      }
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
  op.immediate = kMeetsInOnePlace;
}

void translate_activemask(Translation& t) {
  t.modifiers.require("b32");
  const RegisterOffset to = t.destination(0, ptx::Type::b32);
  t.emit(active_mask).destination = to;
}

}  // namespace

void add_warp_operations(InstructionSet& set) {
  InstructionTraits exchanges = kOrdinary;
  exchanges.exchanges = true;
  InstructionTraits hands_over = exchanges;  // a vote or a match may be about the answers of polls
  hands_over.ends_polling = true;
  set.add("shfl", translate_shfl, hands_over, InstructionClass::shuffle);
  set.add("vote", translate_vote, exchanges, InstructionClass::vote);
  set.add("match", translate_match, exchanges, InstructionClass::match);
  set.add("redux", translate_redux, hands_over, InstructionClass::reduce);
  set.add("elect", translate_elect, kOrdinary, InstructionClass::vote);
  set.add("activemask", translate_activemask, kOrdinary, InstructionClass::vote);
}

}  // namespace stagecraft::emulator::machine
