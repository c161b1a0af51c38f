#include "emulator/checks/page_ledger.hpp"

#include <algorithm>

namespace stagecraft::emulator::checks {

using machine::kWarpSize;

namespace {

// A thread is a number for its warp, from 1 on, and its lane below that.
constexpr uint32_t kLaneBits = 6;
constexpr uint32_t kNobody = 0, kMany = 0xffffffffu;
constexpr uint32_t kSomeLanes = kWarpSize;  // of one warp, in place of a lane

uint32_t number_of(uint32_t warp, uint32_t lane) { return (warp + 1) << kLaneBits | lane; }
uint32_t some_of(uint32_t thread) { return (thread >> kLaneBits << kLaneBits) | kSomeLanes; }
/// Of some lanes nobody knows whether they are the same as before.
bool is_one_lane(uint32_t thread) { return (thread & kSomeLanes) == 0; }

constexpr uint32_t kBlock = 8;  // units at once, in a loop that becomes vector code

/// All ones where it is true.
uint32_t mask_of(bool condition) { return condition ? ~0u : 0u; }

/// The part of an access that is looked at: `first` units are behind where its first thread, `who`, begins, of whose
/// units there are 1 << shift.
struct Part {
  uint32_t who, shift, first;
  Time now, known;
};

/// Takes note of kBlock units. Returns zero when there is no race. Not inlined, because there the compiler forgets that
/// the columns do not overlap.
template <bool kWrites>
[[gnu::noinline]] uint32_t note_block(uint32_t* __restrict writers, Time* __restrict written,
                                      uint32_t* __restrict readers, Time* __restrict read, const Part& part) {
  const auto [who, shift, first, now, known] = part;
  const uint32_t one_lane = mask_of(is_one_lane(who));
  uint32_t orders = ~0u;
  for (uint32_t i = 0; i < kBlock; ++i) {
    const uint32_t me = who + ((first + i) >> shift);
    const uint32_t writer = writers[i], reader = readers[i];
    const uint32_t own_writer = mask_of((writer ^ me) >> kLaneBits == 0) & mask_of(written[i] <= known);
    const uint32_t own_reader = mask_of((reader ^ me) >> kLaneBits == 0);
    const uint32_t behind_reader =
        mask_of(reader == kNobody) | (mask_of(reader == me) & one_lane) | (own_reader & mask_of(read[i] <= known));
    orders &= mask_of(writer == kNobody) | (mask_of(writer == me) & one_lane) | own_writer;
    if constexpr (kWrites) {
      orders &= behind_reader;
      writers[i] = me;
      written[i] = now;
      readers[i] = kNobody;
    } else {
      const uint32_t both = (own_reader & some_of(me)) | ~own_reader;
      readers[i] = (behind_reader & me) | (~behind_reader & both);
      read[i] = now;
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
  written_.resize(units);
  read_.resize(units);
}

/// The same for one unit, which nearly always nobody else has accessed.
[[gnu::always_inline]] inline bool PageLedger::note_unit(uint32_t unit, uint32_t who, const LedgerEntry& entry) {
  const auto behind = [&](uint32_t last, Time when) {
    return last == kNobody || (last == who && is_one_lane(who)) ||
           ((last ^ who) >> kLaneBits == 0 && when <= entry.known);
  };
  const bool behind_writer = behind(writers_[unit], written_[unit]);
  uint32_t& reader = readers_[unit];
  const bool behind_reader = behind(reader, read_[unit]);
  if (entry.writes) {
    writers_[unit] = who;
    written_[unit] = entry.time;
    reader = kNobody;
    return behind_writer && behind_reader;
  }
  if (!behind_reader) who = (reader ^ who) >> kLaneBits == 0 ? some_of(who) : kMany;
  reader = who;
  read_[unit] = entry.time;
  return behind_writer;
}

bool PageLedger::note_row(uint32_t unit, uint32_t count, uint32_t who, uint32_t shift, uint32_t before,
                          const LedgerEntry& entry) {
  Part part{who, shift, before, entry.time, entry.known};
  const auto note = entry.writes ? note_block<true> : note_block<false>;
  uint32_t races = 0;
  const uint32_t end = unit + count;
  for (; unit + kBlock <= end; unit += kBlock, part.first += kBlock) {
    races |= note(&writers_[unit], &written_[unit], &readers_[unit], &read_[unit], part);
  }
  bool right = races == 0;
  for (; unit < end; ++unit, ++part.first) right &= note_unit(unit, who + (part.first >> shift), entry);
  return right;
}

bool PageLedger::note(const WarpAddresses& access, uint32_t page, uint32_t page_bytes, const LedgerEntry& entry) {
  const uint32_t units = access.bytes >> shift_;
  bool right = true;
  if (access.is_row()) {
    const uint32_t end = access.begin + access.bytes + access.bytes_behind_first();
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
