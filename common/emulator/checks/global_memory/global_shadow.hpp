// Who accessed each byte of global memory last, in bounded memory.
//
// Memory is divided into sectors of 32 bytes. A warp mostly accesses whole sectors, and one cell describes each of
// them; a sector of which parts were accessed has cells of 4 bytes or of 1 (sector_parts.hpp). Pages of sectors are
// made when they are first touched. When all of it takes more than a limit, the oldest accesses are forgotten, and a
// sentence says so.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "emulator/checks/global_memory/sector_parts.hpp"
#include "emulator/state/device_memory.hpp"

namespace stagecraft::emulator::checks {

/// What is remembered of an allocation.
class GlobalAllocation {
 public:
  static constexpr uint64_t kSectorsPerPage = 128, kPageBytes = kSectorsPerPage * kSectorBytes;
  using Page = std::array<GlobalSector, kSectorsPerPage>;

  uint64_t address = 0, size = 0;
  std::string label;
  machine::AllocationKind kind = machine::AllocationKind::device;
  /// Whether all of its writes are seen, so that a byte that nothing wrote is known as such.
  bool tracks_writes = false;
  std::vector<std::unique_ptr<Page>> pages;
  std::vector<bool> all_written;  ///< for each page that is not there, whether something has written all of it
  /// For each page, how the work that runs now may read it (GlobalHistory::PageUse); anything else: not asked yet.
  std::vector<uint32_t> uses;
  uint32_t conflicts = 0, conflicting_work = 0;  ///< logged reads of one work that had to be settled
  uint32_t serial = 0;                           ///< among all allocations that the record ever had
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
  /// The record of an allocation that has one already.
  GlobalAllocation* find_known(uint64_t address);
  /// The sector of an allocation that holds the byte at this offset.
  GlobalSector& sector(GlobalAllocation& allocation, uint64_t offset) {
    const uint64_t number = offset / kSectorBytes;
    std::unique_ptr<GlobalAllocation::Page>& page = allocation.pages[number / GlobalAllocation::kSectorsPerPage];
    if (page == nullptr) make_page(allocation, number / GlobalAllocation::kSectorsPerPage);
    return (*page)[number % GlobalAllocation::kSectorsPerPage];
  }
  /// The parts of a sector that has some, or gets them, of at most 2^shift bytes (2 or 0).
  SectorParts parts(GlobalSector& sector, uint32_t shift) {
    if (sector.parts != 0) {
      const SectorParts known = parts_.of(sector);
      if (known.shift <= shift) return known;
    }
    split(sector, shift);
    return parts_.of(sector);
  }
  /// The parts of a sector that has some.
  SectorParts existing_parts(const GlobalSector& sector) { return parts_.of(sector); }
  /// Fetches what is soon asked about bytes of a sector that has parts. Returns their cell, if there is one of just
  /// these bytes; else null.
  GlobalCell* fetch_part(const GlobalSector& sector, uint64_t offset, uint32_t bytes) {
    if (sector.parts == 0) return nullptr;
    const SectorParts parts = parts_.of(sector);
    GlobalCell* const cell = &parts.cells[offset % kSectorBytes >> parts.shift];
    __builtin_prefetch(cell);
    return 1u << parts.shift == bytes && offset % bytes == 0 ? cell : nullptr;
  }
  /// Calls `visit(cell)` for each cell of a page.
  template <typename Visit>
  void for_each_cell_of_page(const GlobalAllocation::Page& page, Visit&& visit) {
    for (const GlobalSector& sector : page) {
      if (sector.parts == 0) {
        visit(sector.cell);
        continue;
      }
      const SectorParts parts = parts_.of(sector);
      for (uint32_t i = 0; i < kSectorBytes >> parts.shift; ++i) visit(parts.cells[i]);
    }
  }
  /// From now on one cell describes the sector.
  void drop_parts(GlobalSector& sector);

  /// Whether something has written each byte of a page.
  static bool is_all_written(const GlobalAllocation& allocation, uint64_t page);

  uint64_t bytes() const { return bytes_; }
  /// Forgets the accesses whose records have lower numbers.
  void forget_before(uint32_t record);
  /// Forgets all accesses, and which bytes nothing wrote.
  void forget();
  /// Drops the records of allocations that do not exist any more.
  void drop_freed(const machine::DeviceMemory& memory);

 private:
  GlobalAllocation* look_up(const machine::DeviceMemory& memory, uint64_t address);
  void split(GlobalSector& sector, uint32_t shift);
  void make_page(GlobalAllocation& allocation, uint64_t number);
  void release(GlobalAllocation& allocation);

  std::map<uint64_t, GlobalAllocation> allocations_;  ///< by address
  std::array<GlobalAllocation*, 4> latest_{};         ///< found last; kernels go from one to the other
  uint32_t next_latest_ = 0;
  uint64_t generation_ = 0;
  uint32_t next_serial_ = 1;
  PartsOfSectors parts_;
  uint64_t bytes_ = 0;
  bool has_forgotten_ = false;
};

}  // namespace stagecraft::emulator::checks
