// What the threads of a block do between two barriers of all of them, as far as it need not be looked at yet.
//
// At such a barrier every thread learns of all that was done before it. So a read where nothing was written since can
// race with nothing before it: it matters only to writes that come in the same interval. Such reads are put off. A
// write to where they were has them looked at first (RaceCheck::catch_up); otherwise the next barrier forgets them.
// Most of the work of most kernels is reads of this kind.
//
// Only for clusters of one block: the threads of others would not have come to the barrier.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "emulator/checks/shadow_memory.hpp"

namespace stagecraft::emulator::checks {

class BarrierInterval {
 public:
  /// A read that was put off. `access.lanes` is as in histories, but of a scattered one the number of its offsets here.
  struct Read {
    PastAccess access;
    uint32_t begin;  ///< of the first lane
    uint32_t bytes;  ///< of each lane
    machine::LaneMask lanes;
  };
  using Offsets = std::array<uint32_t, machine::kWarpSize>;  ///< of the lanes; of those that take no part: anything

  /// Room for a read of these bytes, to be filled in; null when it may race with a write before it, or there is none.
  Read* put_off(uint32_t offset, uint32_t bytes) {
    const uint32_t first = offset / kPageBytes, last = (offset + bytes - 1) / kPageBytes;
    if (last >= kPages) return nullptr;
    uint32_t written = 0;
    for (uint32_t page = first; page <= last; ++page) written = std::max(written, pages_[page].written);
    if (written >= number_ || count_ == reads_.size()) return nullptr;
    for (uint32_t page = first; page <= last; ++page) pages_[page].read = number_;
    return &reads_[count_++];
  }
  /// Room for the offsets of the latest read, which is scattered.
  Offsets& offsets_of(Read& read) {
    if (scattered_ == offsets_.size()) offsets_.resize(std::max<size_t>(64, 2 * offsets_.size()));
    read.access.lanes = scattered_;
    return offsets_[scattered_++];
  }

  /// Whether some of what was put off may have been in these bytes.
  bool concerns(uint32_t offset, uint32_t bytes) const {
    if (count_ == 0) return false;
    const uint32_t end = std::min((offset + bytes - 1) / kPageBytes + 1, kPages);
    for (uint32_t page = offset / kPageBytes; page < end; ++page) {
      if (pages_[page].read == number_) return true;
    }
    return false;
  }
  std::span<const Read> reads() const { return {reads_.data(), count_}; }
  const Offsets& offsets(const Read& read) const { return offsets_[read.access.lanes]; }
  void forget() { count_ = scattered_ = 0; }

  void note_write(const PastAccess& write, uint32_t offset, uint32_t bytes);
  /// All threads have met. `is_over(write)` says of an asynchronous one whether they know it to be over.
  template <typename IsOver>
  void begin_next(IsOver&& is_over) {
    forget();
    ++number_;
    std::erase_if(under_way_, [&](const UnderWay& each) { return is_over(each.write); });
    for (Page& page : pages_) page.written = page.written == kUnderWay ? 0 : page.written;
    for (const UnderWay& each : under_way_) mark(each.first_page, each.last_page, kUnderWay);
  }
  /// Of a block that begins.
  void reset();

 private:
  static constexpr uint32_t kPageBytes = ShadowMemory::kPageBytes;
  static constexpr uint32_t kPages = 256;  // a block has 228 KiB, and the start of the window
  static constexpr uint32_t kMostReads = 4096, kMostUnderWay = 4096;
  static constexpr uint32_t kUnderWay = 0xfffffffeu, kAlways = 0xffffffffu;

  struct Page {
    uint32_t written = 0;  ///< the last interval in which threads wrote, kUnderWay or kAlways
    uint32_t read = 0;     ///< the last interval in which a read was put off
  };
  struct UnderWay {
    PastAccess write;
    uint32_t first_page, last_page;
  };

  void mark(uint32_t first, uint32_t last, uint32_t written) {
    const uint32_t end = std::min(last + 1, kPages);
    for (uint32_t page = first; page < end; ++page) pages_[page].written = std::max(pages_[page].written, written);
  }

  uint32_t number_ = 1;
  uint32_t count_ = 0, scattered_ = 0;  ///< reads, and those of them with offsets
  std::vector<Page> pages_{kPages};
  std::vector<Read> reads_{kMostReads};
  std::vector<Offsets> offsets_;
  std::vector<UnderWay> under_way_;  ///< asynchronous writes of which not all threads knew at the last barrier
};

}  // namespace stagecraft::emulator::checks
