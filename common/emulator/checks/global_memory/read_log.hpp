// Reads that are kept as they were made, for as long as nothing depends on what they leave in the record of memory.
//
// Most reads are of memory that nothing writes meanwhile. Such a read races with nothing, and it matters to a later
// write only, which mostly comes when everybody knows that the reader has ended. So it is noted in a few words, and the
// cells of its bytes (sector_parts.hpp) learn of it when somebody is about to look at them, or never.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "emulator/checks/global_memory/lane_pattern.hpp"
#include "emulator/checks/ordering/vector_clock.hpp"
#include "emulator/state/lanes.hpp"

namespace stagecraft::emulator::checks {

/// A warp that reads, as long as it does not come to know more.
struct Reader {
  uint32_t cluster = 0, warp = 0;
  Time time = 0;
  SharedClock known;  ///< by all lanes that read
};

/// One instruction of a warp.
struct LoggedRead {
  uint32_t reader;  ///< number of it in the log
  uint32_t site;    ///< GlobalHistory
  machine::LaneMask lanes;
  uint32_t bytes;       ///< that each lane reads
  uint32_t allocation;  ///< GlobalAllocation::serial
};

/// The reads of one work, in their order.
class ReadLog {
 public:
  uint32_t add_reader(Reader reader);
  const Reader& reader(uint32_t number) const { return readers_[number]; }

  /// @param addresses  of all lanes of a warp, those that do not read among them, within 4 GiB of each other
  void add(const LoggedRead& read, const uint64_t* addresses, const LaneLayout& layout);

  bool is_empty() const { return chunks_.empty(); }
  /// What it takes, clocks included that others share.
  uint64_t bytes() const { return chunks_.size() * kChunkWords * sizeof(uint32_t) + readers_.size() * kReaderBytes; }

  /// Calls `visit(read, addresses)` for each read.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (size_t i = 0; i < chunks_.size(); ++i) {
      const uint32_t* const end = chunks_[i].get() + (i + 1 == chunks_.size() ? used_ : ends_[i]);
      for (const uint32_t* at = chunks_[i].get(); at != end;) {
        LoggedRead read;
        std::array<uint64_t, machine::kWarpSize> addresses;
        at = unpack(at, read, addresses);
        visit(read, addresses.data());
      }
    }
  }

 private:
  static constexpr size_t kChunkWords = size_t{1} << 12;
  static constexpr size_t kReaderBytes = 512;  // with a clock of a block of 32 warps

  static const uint32_t* unpack(const uint32_t* words, LoggedRead& read,
                                std::array<uint64_t, machine::kWarpSize>& addresses);

  std::vector<Reader> readers_;
  std::vector<std::unique_ptr<uint32_t[]>> chunks_;
  std::vector<size_t> ends_;  ///< words used, of all chunks but the last
  size_t used_ = 0;           ///< words of the last one
};

}  // namespace stagecraft::emulator::checks
