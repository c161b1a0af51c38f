// Who accessed which bytes of a block's shared memory last.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "emulator/checks/vector_clock.hpp"
#include "emulator/machine/lanes.hpp"

namespace stagecraft::emulator::checks {

/// An access that a later one may race with: lanes of a warp at a time of that warp, or an asynchronous operation.
struct PastAccess {
  static constexpr uint32_t kNobody = 0x7fffffffu;
  static constexpr uint32_t kSeveral = 0x7ffffffeu;  ///< in place of reads: `time` is the index of a list
  static constexpr uint32_t kByBytes = 0x7ffffffdu;  ///< in place of a write: `time` is the index of cells of the bytes
  static constexpr uint32_t kAsynchronous = 0x80000000u;  ///< `agent` holds the number of an operation beside it

  static constexpr uint32_t kStrong = 0x80000000u;
  static constexpr uint32_t kWrites = 0x40000000u;
  static constexpr uint32_t kPcMask = 0x3fffffffu;

  uint32_t agent = kNobody;  ///< number of the warp in the cluster, or an operation
  machine::LaneMask lanes = 0;
  Time time = 0;
  uint32_t pc_and_flags = 0;

  bool operator==(const PastAccess&) const = default;

  bool is_asynchronous() const { return (agent & kAsynchronous) != 0; }
  uint32_t operation() const { return agent & ~kAsynchronous; }
  bool strong() const { return (pc_and_flags & kStrong) != 0; }
  bool writes() const { return (pc_and_flags & kWrites) != 0; }
  uint32_t pc() const { return pc_and_flags & kPcMask; }
};

/// What is remembered of four bytes, or of one: the last write, and the reads since. Strong writes that nothing orders
/// before the last one, which is no race among strong ones, are kept with the reads.
struct ShadowCell {
  PastAccess write, read;
  bool operator==(const ShadowCell&) const = default;
};

/// The cells of one block's shared memory; pages of them come into being when they are touched.
class ShadowMemory {
 public:
  static constexpr uint32_t kCellBytes = 4;

  static constexpr uint32_t kPageBytes = 1024;

  /// The cell of a byte; those behind it follow, up to the end of its page.
  ShadowCell& cell(uint32_t offset) {
    const uint32_t page = offset / kPageBytes;
    if (page >= pages_.size() || !pages_[page]) add_page(page);
    return pages_[page]->cells[offset % kPageBytes / kCellBytes];
  }
  /// Threads, or what writes as they do, have written here: most pages are written by copies only.
  void note_thread_write(uint32_t offset, uint32_t bytes) {
    for (uint32_t page = offset / kPageBytes; page <= (offset + bytes - 1) / kPageBytes; ++page) {
      cell(page * kPageBytes);
      pages_[page]->written_by_threads = true;
    }
  }
  bool is_written_by_threads(uint32_t offset) const {
    const uint32_t page = offset / kPageBytes;
    return page < pages_.size() && pages_[page] && pages_[page]->written_by_threads;
  }
  /// The cells of the single bytes of a cell, which are made from it when it has none.
  std::array<ShadowCell, kCellBytes>& bytes_of(ShadowCell& cell);

  std::vector<PastAccess>& several(const PastAccess& reads) { return lists_[reads.time]; }
  /// Turns a cell's one read into a list that holds it.
  std::vector<PastAccess>& make_several(ShadowCell& cell);
  /// Forgets the reads of a cell.
  void clear_reads(ShadowCell& cell);

 private:
  static constexpr uint32_t kPageCells = kPageBytes / kCellBytes;
  struct Page {
    std::array<ShadowCell, kPageCells> cells;
    bool written_by_threads = false;
  };

  void add_page(uint32_t page);

  std::vector<std::unique_ptr<Page>> pages_;
  std::vector<std::array<ShadowCell, kCellBytes>> split_;
  std::vector<std::vector<PastAccess>> lists_;
  std::vector<uint32_t> free_lists_;
};

}  // namespace stagecraft::emulator::checks
