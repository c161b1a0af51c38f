// How many passes over the banks an access takes. Apart from bank_conflicts.cpp, because `--timing` asks for each
// access of a launch: compiled for speed, and without JSON.
#include <algorithm>
#include <array>

#include "emulator/trace/bank_conflicts.hpp"

namespace stagecraft::emulator::trace {

using machine::kWarpSize;
using machine::LaneMask;

namespace {

/// Number of lanes that are served together.
uint32_t group_of(uint32_t bytes) { return bytes <= kBankBytes ? kWarpSize : kWarpSize * kBankBytes / bytes; }

LaneMask mask_of(uint32_t first, uint32_t count) {
  return count == kWarpSize ? machine::kAllLanes : ((1u << count) - 1) << first;
}

uint32_t passes_of_group(const uint32_t* addresses, LaneMask lanes, uint32_t bytes) {
  // Few words share a bank in good programs, so they are compared one by one.
  std::array<std::array<uint32_t, kWarpSize>, kBanks> words;
  std::array<uint32_t, kBanks> counts{};
  uint32_t most = 0, latest = 0;
  machine::for_each_lane(lanes, [&](uint32_t lane) {
    const uint32_t address = addresses[lane];
    if (most != 0 && address == latest) return;
    latest = address;
    const uint32_t last_word = (address + bytes - 1) / kBankBytes;
    for (uint32_t word = address / kBankBytes; word <= last_word; ++word) {
      const uint32_t bank = word % kBanks;
      const auto begin = words[bank].begin(), end = begin + counts[bank];
      if (std::find(begin, end, word) != end) continue;
      words[bank][counts[bank]++] = word;
      most = std::max(most, counts[bank]);
    }
  });
  return most;
}

/// Whether each even lane accesses what the next one does.
bool are_pairs(const uint32_t* addresses, LaneMask lanes) {
  constexpr LaneMask kEven = 0x55555555;
  bool same = ((lanes ^ lanes >> 1) & kEven) == 0;
  machine::for_each_lane(lanes & kEven, [&](uint32_t lane) { same = same && addresses[lane] == addresses[lane + 1]; });
  return same;
}

}  // namespace

uint32_t wavefronts_of(const uint32_t* addresses, LaneMask lanes, uint32_t bytes, bool load) {
  uint32_t group = group_of(bytes);
  if (load && group < kWarpSize && are_pairs(addresses, lanes)) group *= 2;
  uint32_t sum = 0;
  for (uint32_t first = 0; first < kWarpSize; first += group) {
    sum += passes_of_group(addresses, lanes & mask_of(first, group), bytes);
  }
  return sum;
}

uint32_t fewest_wavefronts(LaneMask lanes, uint32_t bytes) {
  const uint32_t group = group_of(bytes);
  uint32_t sum = 0;
  for (uint32_t first = 0; first < kWarpSize; first += group) sum += (lanes & mask_of(first, group)) != 0 ? 1 : 0;
  return sum;
}

}  // namespace stagecraft::emulator::trace
