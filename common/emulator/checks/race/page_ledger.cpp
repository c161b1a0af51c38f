#include "emulator/checks/race/page_ledger.hpp"

#include <algorithm>

namespace stagecraft::emulator::checks {

using machine::kWarpSize;

namespace {

// An access is packed as a time, and in the lower bits a thread: the number of its warp, from 1 on, and its lane.
constexpr uint32_t kLaneBits = 6, kThreadBits = 12;
constexpr uint32_t kNobody = 0, kMany = (1u << kThreadBits) - 1;
constexpr uint32_t kSomeLanes = kWarpSize;  // in place of a lane: some lanes of the warp
constexpr Time kLatest = (1u << (32 - kThreadBits)) - 1;

uint32_t number_of(uint32_t warp, uint32_t lane) { return (warp + 1) << kLaneBits | lane; }
uint32_t some_of(uint32_t thread) { return (thread >> kLaneBits << kLaneBits) | kSomeLanes; }
/// Whether it is one thread, which can be recognised. "Some lanes" may be others than before.
bool is_one_lane(uint32_t thread) { return (thread & kSomeLanes) == 0; }
bool are_of_one_warp(uint32_t thread, uint32_t other) { return (thread ^ other) >> kLaneBits == 0; }

constexpr uint32_t kBlock = 8;  // units at once, in a loop that becomes vector code

/// All ones where it is true.
uint32_t mask_of(bool condition) { return condition ? ~0u : 0u; }

/// A part of a row: it begins `first` units after the first unit of the thread `who`. Each thread has 1 << shift units.
struct Part {
  uint32_t who, shift, first;
  Time now, known;
};

/// Takes note of kBlock units. Returns zero when there is no race. It is not inlined, because an inlining compiler
/// forgets that the columns do not overlap.
template <bool kWrites>
[[gnu::noinline]] uint32_t note_block(uint32_t* __restrict writers, uint32_t* __restrict readers, const Part& part) {
  const auto [who, shift, first, now, known] = part;
  const uint32_t one_lane = mask_of(is_one_lane(who));
  uint32_t orders = ~0u;
  for (uint32_t i = 0; i < kBlock; ++i) {
    const uint32_t me = who + ((first + i) >> shift), now_me = now << kThreadBits | me;
    const uint32_t writer = writers[i] & kMany, reader = readers[i] & kMany;
    const uint32_t own_writer = mask_of(are_of_one_warp(writer, me)) & mask_of(writers[i] >> kThreadBits <= known);
    const uint32_t own_reader = mask_of(are_of_one_warp(reader, me));
    const uint32_t after_reader = mask_of(reader == kNobody) | (mask_of(reader == me) & one_lane) |
                                  (own_reader & mask_of(readers[i] >> kThreadBits <= known));
    orders &= mask_of(writer == kNobody) | (mask_of(writer == me) & one_lane) | own_writer;
    if constexpr (kWrites) {
      orders &= after_reader;
      writers[i] = now_me;
      readers[i] = kNobody;
    } else {
      const uint32_t both = (own_reader & (now << kThreadBits | some_of(me))) | (~own_reader & kMany);
      readers[i] = (after_reader & now_me) | (~after_reader & both);
    }
  }
  return ~orders;
}

}  // namespace

void PageLedger::begin(uint32_t page_bytes, uint32_t shift) {
  shift_ = shift;
  const uint32_t units = page_bytes >> shift;
  writers_.assign(units, kNobody);
  readers_.assign(units, kNobody);
}

/// Takes note of one unit, which nearly always nobody else has accessed.
[[gnu::always_inline]] inline bool PageLedger::note_unit(uint32_t unit, uint32_t who, const LedgerEntry& entry) {
  const auto is_after = [&](uint32_t last) {
    const uint32_t thread = last & kMany;
    return thread == kNobody || (thread == who && is_one_lane(who)) ||
           (are_of_one_warp(thread, who) && last >> kThreadBits <= entry.known);
  };
  uint32_t &writer = writers_[unit], &reader = readers_[unit];
  const bool after_writer = is_after(writer), after_reader = is_after(reader);
  if (entry.writes) {
    writer = entry.time << kThreadBits | who;
    reader = kNobody;
    return after_writer && after_reader;
  }
  if (!after_reader) who = are_of_one_warp(reader & kMany, who) ? some_of(who) : kMany;
  reader = entry.time << kThreadBits | who;
  return after_writer;
}

bool PageLedger::note_row(uint32_t unit, uint32_t count, uint32_t who, uint32_t shift, uint32_t before,
                          const LedgerEntry& entry) {
  Part part{who, shift, before, entry.time, entry.known};
  const auto note = entry.writes ? note_block<true> : note_block<false>;
  uint32_t races = 0;
  const uint32_t end = unit + count;
  for (; unit + kBlock <= end; unit += kBlock, part.first += kBlock) {
    races |= note(&writers_[unit], &readers_[unit], part);
  }
  bool right = races == 0;
  for (; unit < end; ++unit, ++part.first) right &= note_unit(unit, who + (part.first >> shift), entry);
  return right;
}

bool PageLedger::note(const WarpAddresses& access, uint32_t page, uint32_t page_bytes, const LedgerEntry& entry) {
  if (entry.time > kLatest) return false;
  const uint32_t units = access.bytes >> shift_;
  bool right = true;
  if (access.is_row()) {
    const uint32_t end = access.begin + access.bytes + access.bytes_after_first();
    const uint32_t from = std::max(access.begin, page), to = std::min(end, page + page_bytes);
    if (from >= to) return true;
    const auto shift = static_cast<uint32_t>(std::countr_zero(units));
    return note_row((from - page) >> shift_, (to - from) >> shift_, number_of(entry.warp, access.first), shift,
                    (from - access.begin) >> shift_, entry);
  }
  const auto note_place = [&](uint32_t address, uint32_t who) {
    const uint32_t unit = (address - page) >> shift_;
    for (uint32_t each = unit; each < unit + units; ++each) right &= note_unit(each, who, entry);
  };
  machine::LaneMask here = 0;
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    here |= (access.addresses[lane] - page < page_bytes ? 1u : 0u) << lane;
  }
  here &= access.lanes;
  if (access.is_one_place()) {
    const bool alone = (access.lanes & (access.lanes - 1)) == 0;
    note_place(access.begin, number_of(entry.warp, alone ? access.first : kSomeLanes));
  } else {
    machine::for_each_lane(here,
                           [&](uint32_t lane) { note_place(access.addresses[lane], number_of(entry.warp, lane)); });
  }
  return right;
}

}  // namespace stagecraft::emulator::checks
