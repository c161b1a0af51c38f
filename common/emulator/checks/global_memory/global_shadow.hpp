// Who accessed each byte of global memory last, in bounded memory.
//
// Memory is divided into sectors of 32 bytes. A warp mostly accesses whole sectors, and one cell describes each of
// them; a sector of which parts were accessed has cells of 4 bytes or of 1. Pages of sectors are made when they are
// first touched. When all of it takes more than a limit, everything is forgotten, and a sentence says so.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "emulator/state/device_memory.hpp"
#include "emulator/state/lanes.hpp"

namespace stagecraft::emulator::checks {

/// An access of the bytes of a cell: the number of a record (GlobalHistory), and which lanes accessed which byte.
struct GlobalEntry {
  static constexpr uint8_t kTogether = 0xff;

  uint32_t record = 0;        ///< 0: none
  uint8_t lane = 0;           ///< the one that accessed the first byte of the cell
  uint8_t width = kTogether;  ///< log2 of the bytes of each lane, which follow each other; or all lanes of the record
  uint16_t first_byte = 0;    ///< of that lane's bytes, the number of the first one in the cell

  bool operator==(const GlobalEntry&) const = default;
  /// The same access, as the cell that begins so many bytes later sees it.
  GlobalEntry moved(uint32_t bytes) const {
    if (width == kTogether || record == 0) return *this;
    const uint32_t at = first_byte + bytes;
    return {record, static_cast<uint8_t>(lane + (at >> width)), width, static_cast<uint16_t>(at & ((1u << width) - 1))};
  }
  /// The lanes that accessed some bytes of the cell.
  /// @param all  those of the record
  machine::LaneMask lanes_of(uint32_t begin, uint32_t bytes, machine::LaneMask all) const {
    if (width == kTogether) return all;
    const uint32_t first = lane + ((first_byte + begin) >> width);
    const uint32_t last = lane + ((first_byte + begin + bytes - 1) >> width);
    return (machine::kAllLanes << first) & (machine::kAllLanes >> (machine::kWarpSize - 1 - last));
  }
};

/// What is remembered of the accesses of a cell.
struct GlobalCell {
  GlobalEntry write;
  std::array<GlobalEntry, 2> reads;  ///< since then: the first one, and the last that was not ordered after it
};

inline constexpr uint32_t kSectorBytes = 32;

struct GlobalSector {
  GlobalCell cell;       ///< of all of it, unless there is a detail
  uint32_t written = 0;  ///< bit i: something has written byte i
  uint32_t detail = 0;   ///< number of its detail plus 1; 0: none
};

/// The cells of a sector that was accessed in parts.
struct SectorDetail {
  uint32_t cell_bytes = 4;
  std::vector<GlobalCell> cells;
};

/// What is remembered of an allocation.
class GlobalAllocation {
 public:
  static constexpr uint64_t kSectorsPerPage = 128;
  using Page = std::array<GlobalSector, kSectorsPerPage>;

  uint64_t address = 0, size = 0;
  std::string label;
  machine::AllocationKind kind = machine::AllocationKind::device;
  /// Whether all of its writes are seen, so that a byte that nothing wrote is known as such.
  bool tracks_writes = false;
  std::vector<std::unique_ptr<Page>> pages;
};

class GlobalShadow {
 public:
  /// Most bytes that the record takes.
  static constexpr uint64_t kMostBytes = uint64_t{1} << 30;

  /// The record of the allocation that holds an address; null where accesses are not checked: what is no memory of the
  /// program's own (parameters, the workspace of a cooperative grid, the heap of malloc in kernels).
  GlobalAllocation* find(const machine::DeviceMemory& memory, uint64_t address) {
    if (generation_ == machine::DeviceMemory::generation()) {
      for (GlobalAllocation* const allocation : latest_) {
        if (allocation != nullptr && address - allocation->address < allocation->size) return allocation;
      }
    }
    return look_up(memory, address);
  }
  /// The sector of an allocation that holds the byte at this offset.
  GlobalSector& sector(GlobalAllocation& allocation, uint64_t offset) {
    const uint64_t number = offset / kSectorBytes;
    std::unique_ptr<GlobalAllocation::Page>& page = allocation.pages[number / GlobalAllocation::kSectorsPerPage];
    if (page == nullptr) make_page(allocation, number / GlobalAllocation::kSectorsPerPage);
    return (*page)[number % GlobalAllocation::kSectorsPerPage];
  }
  /// The detail of a sector, with cells of at most so many bytes (4 or 1).
  SectorDetail& detail(GlobalSector& sector, uint32_t cell_bytes);
  SectorDetail& existing_detail(const GlobalSector& sector) { return details_[sector.detail - 1]; }
  /// From now on one cell describes the sector.
  void drop_detail(GlobalSector& sector);

  uint64_t bytes() const { return bytes_; }
  /// Forgets all accesses, and which bytes nothing wrote.
  void forget();
  /// Drops the records of allocations that do not exist any more.
  void drop_freed(const machine::DeviceMemory& memory);

 private:
  GlobalAllocation* look_up(const machine::DeviceMemory& memory, uint64_t address);
  void make_page(GlobalAllocation& allocation, uint64_t number);
  void release(GlobalAllocation& allocation);

  std::map<uint64_t, GlobalAllocation> allocations_;  ///< by address
  std::array<GlobalAllocation*, 4> latest_{};         ///< found last; kernels go from one to the other
  uint32_t next_latest_ = 0;
  uint64_t generation_ = 0;
  std::vector<SectorDetail> details_;
  std::vector<uint32_t> spare_details_;
  uint64_t bytes_ = 0;
  bool has_forgotten_ = false;
};

}  // namespace stagecraft::emulator::checks
