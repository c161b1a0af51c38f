// What is remembered of the accesses of a sector, and of its parts where they were accessed apart.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "emulator/state/lanes.hpp"

namespace stagecraft::emulator::checks {

/// An access of the bytes of a cell: the number of a record (GlobalHistory), and which lanes accessed which byte.
///
/// It is one number: a struct that the compiler stores in pieces and then copies as a whole would wait for its pieces.
class GlobalEntry {
 public:
  static constexpr uint8_t kTogether = 0xff;

  GlobalEntry() = default;
  /// All lanes of the record.
  explicit GlobalEntry(uint32_t record) : GlobalEntry(record, 0, kTogether) {}
  GlobalEntry(uint32_t record, uint8_t lane, uint8_t width, uint16_t first_byte = 0)
      : bits_(record | uint64_t{lane} << kLaneShift | uint64_t{width} << kWidthShift |
              uint64_t{first_byte} << kFirstByteShift) {}

  bool operator==(const GlobalEntry&) const = default;

  uint32_t record() const { return static_cast<uint32_t>(bits_); }  ///< 0: none
  /// The one that accessed the first byte of the cell.
  uint8_t lane() const { return static_cast<uint8_t>(bits_ >> kLaneShift); }
  /// log2 of the bytes of each lane, which follow each other; or kTogether: all lanes of the record.
  uint8_t width() const { return static_cast<uint8_t>(bits_ >> kWidthShift); }
  /// The number of the cell's first byte among that lane's bytes.
  uint16_t first_byte() const { return static_cast<uint16_t>((bits_ & ~kFlags) >> kFirstByteShift); }
  /// Whether both say that the same lane accessed each byte.
  bool has_pattern_of(GlobalEntry other) const { return ((bits_ ^ other.bits_) & ~kFlags) >> kLaneShift == 0; }
  /// Whether it is a strong write in whose place others were that matter still (hidden_writes.hpp).
  bool hides() const { return (bits_ & kHides) != 0; }
  /// Whether no more of them are kept, and a strong write need not be held against those that are.
  bool keeps_no_more() const { return (bits_ & kFull) != 0; }
  /// The same access, with other answers to these two.
  GlobalEntry like(bool hides, bool keeps_no_more) const {
    GlobalEntry entry = *this;
    entry.bits_ = (bits_ & ~kFlags) | (hides ? kHides : 0) | (keeps_no_more ? kFull : 0);
    return entry;
  }

  /// The same access, as the cell that begins so many bytes later sees it.
  GlobalEntry moved(uint32_t bytes) const {
    if (width() == kTogether || record() == 0) return *this;
    const uint32_t at = first_byte() + bytes;
    return GlobalEntry{record(), static_cast<uint8_t>(lane() + (at >> width())), width(),
                       static_cast<uint16_t>(at & ((1u << width()) - 1))}
        .like(hides(), keeps_no_more());
  }
  /// The lanes that accessed some bytes of the cell.
  /// @param all  those of the record
  machine::LaneMask lanes_of(uint32_t begin, uint32_t bytes, machine::LaneMask all) const {
    if (width() == kTogether) return all;
    const uint32_t first = lane() + ((first_byte() + begin) >> width());
    const uint32_t last = lane() + ((first_byte() + begin + bytes - 1) >> width());
    return (machine::kAllLanes << first) & (machine::kAllLanes >> (machine::kWarpSize - 1 - last));
  }

 private:
  static constexpr uint32_t kLaneShift = 32, kWidthShift = 40, kFirstByteShift = 48;
  static constexpr uint64_t kHides = uint64_t{1} << 63, kFull = uint64_t{1} << 62, kFlags = kHides | kFull;

  uint64_t bits_ = uint64_t{kTogether} << kWidthShift;
};

/// What is remembered of the accesses of a cell.
struct GlobalCell {
  GlobalEntry write;
  std::array<GlobalEntry, 2> reads;  ///< since then: the first one, and the last that was not ordered after it
};

inline constexpr uint32_t kSectorBytes = 32;

/// It is aligned so that fetching its first byte ahead fetches all of it.
struct alignas(32) GlobalSector {
  GlobalCell cell;       ///< of all of it, unless there are parts
  uint32_t written = 0;  ///< bit i: something has written byte i
  uint32_t parts = 0;    ///< where its parts are (PartsOfSectors); 0: it has none
};

/// The cells of a sector that was accessed in parts.
struct SectorParts {
  GlobalCell* cells;
  uint32_t shift;  ///< log2 of the bytes of each
};

/// Arrays of cells that sectors take and release. They stay where they are.
template <size_t kCells>
class CellArrays {
 public:
  uint32_t take() {
    if (spare_.empty()) {
      if (count_ % kPerChunk == 0) chunks_.push_back(std::make_unique<Chunk>());
      return count_++;
    }
    const uint32_t number = spare_.back();
    spare_.pop_back();
    return number;
  }
  void release(uint32_t number) { spare_.push_back(number); }
  GlobalCell* operator[](uint32_t number) { return (*chunks_[number / kPerChunk])[number % kPerChunk].data(); }

 private:
  static constexpr uint32_t kPerChunk = 64;
  using Chunk = std::array<std::array<GlobalCell, kCells>, kPerChunk>;

  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<uint32_t> spare_;
  uint32_t count_ = 0;
};

/// The parts of all sectors that have some: words or bytes.
class PartsOfSectors {
 public:
  static constexpr uint32_t kWordShift = 2, kByteShift = 0;

  [[gnu::always_inline]] SectorParts of(const GlobalSector& sector) {
    const uint32_t number = (sector.parts >> 1) - 1;
    return (sector.parts & 1) != 0 ? SectorParts{bytes_[number], kByteShift} : SectorParts{words_[number], kWordShift};
  }
  /// Makes parts; those that the sector has are not released.
  SectorParts make(GlobalSector& sector, uint32_t shift) {
    sector.parts = shift == kByteShift ? (bytes_.take() + 1) << 1 | 1 : (words_.take() + 1) << 1;
    return of(sector);
  }
  /// @param parts  of a sector
  void release(uint32_t parts) {
    const uint32_t number = (parts >> 1) - 1;
    return (parts & 1) != 0 ? bytes_.release(number) : words_.release(number);
  }

 private:
  static constexpr uint32_t kWords = kSectorBytes >> kWordShift;

  CellArrays<kWords> words_;
  CellArrays<kSectorBytes> bytes_;
};

}  // namespace stagecraft::emulator::checks
