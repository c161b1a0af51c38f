#include "emulator/checks/global_memory/read_log.hpp"

#include <bit>
#include <cstddef>
#include <utility>

namespace stagecraft::emulator::checks {

using machine::kAllLanes;
using machine::kWarpSize;
using machine::LaneMask;

namespace {

/// What is written of each read. The addresses of the lanes in `given` follow, relative to `least`; each other lane
/// is the next one after the lane before, or at the same place.
struct Header {
  LoggedRead read;
  LaneMask given, repeats;
  uint64_t least;
};
constexpr size_t kHeaderWords = sizeof(Header) / sizeof(uint32_t);

/// From so many on all are given, which needs no search for them.
constexpr int kManyGiven = 8;

}  // namespace

uint32_t ReadLog::add_reader(Reader reader) {
  readers_.push_back(std::move(reader));
  return static_cast<uint32_t>(readers_.size()) - 1;
}

void ReadLog::add(const LoggedRead& read, const uint64_t* addresses, const LaneLayout& layout) {
  if (chunks_.empty() || used_ + kHeaderWords + kWarpSize > kChunkWords) {
    if (!chunks_.empty()) ends_.push_back(used_);
    chunks_.push_back(std::unique_ptr<uint32_t[]>(new uint32_t[kChunkWords]));
    used_ = 0;
  }
  uint32_t* at = chunks_.back().get() + used_;
  const uint64_t least = layout.least;
  LaneMask given = ~(layout.pattern.follows | layout.pattern.repeats) | 1u;
  if (std::popcount(given) >= kManyGiven) given = kAllLanes;
  const Header header{read, given, layout.pattern.repeats, least};
  std::memcpy(at, &header, sizeof header);
  at += kHeaderWords;
  if (given == kAllLanes) {
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) at[lane] = static_cast<uint32_t>(addresses[lane] - least);
    at += kWarpSize;
  } else {
    machine::for_each_lane(given, [&](uint32_t lane) { *at++ = static_cast<uint32_t>(addresses[lane] - least); });
  }
  used_ = static_cast<size_t>(at - chunks_.back().get());
}

const uint32_t* ReadLog::unpack(const uint32_t* words, LoggedRead& read, std::array<uint64_t, kWarpSize>& addresses) {
  Header header;
  std::memcpy(&header, words, sizeof header);
  words += kHeaderWords;
  read = header.read;
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    if ((header.given >> lane & 1) != 0) {
      addresses[lane] = header.least + *words++;
    } else {
      addresses[lane] = addresses[lane - 1] + ((header.repeats >> lane & 1) != 0 ? 0 : read.bytes);
    }
  }
  return words;
}

}  // namespace stagecraft::emulator::checks
