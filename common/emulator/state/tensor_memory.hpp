// The tensor memory of one multiprocessor: its cells, and the columns that each block has allocated.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "emulator/state/tensor_layouts.hpp"

namespace stagecraft::emulator::machine {
struct Block;
}

namespace stagecraft::emulator::machine {

/// The operations (mma, cp) that the tensor core has in flight for one block, alone or with its peer. They are executed
/// in the order of issue; the chip promises less, but programs rely on it. Times are cycles of the block's cluster.
struct TensorPipe {
  uint64_t busy_until = 0;                     ///< when the arithmetic of the latest operation ends
  std::map<uint32_t, uint64_t> completion_of;  ///< when the latest operation of a thread of the block completes
  uint32_t in_flight = 0;                      ///< operations issued and not completed
};

/// Whether an address looks like an unwritten word of shared memory, in which all bits are ones; the lane of a warp may
/// have been added.
bool is_unwritten_word(uint32_t address);
inline constexpr const char* kUnwrittenWord =
    "this looks like a word of shared memory that was not written yet: the address is there after tcgen05.alloc has "
    "stored it, and after a barrier that follows";

class TensorMemory {
 public:
  static constexpr uint32_t kUnitColumns = 32;  ///< allocations are made of such units
  static constexpr uint32_t kUnits = kTensorColumns / kUnitColumns;
  /// The content of unwritten cells: not a number as f32, f16 and bf16.
  static constexpr uint32_t kPoison = 0xfffbfffb;

  struct Allocation {
    uint32_t column = 0;
    uint32_t columns = 0;
  };

  TensorMemory();
  TensorMemory(const TensorMemory&) = delete;
  TensorMemory& operator=(const TensorMemory&) = delete;

  /// Allocates `columns` columns for the block and fills them with poison. Returns nullopt when no such range is free
  /// now: the caller waits for a `release` and asks again. Throws Fault for a number of columns that is never legal or
  /// larger than the block's previous allocation, and after `relinquish`.
  std::optional<Allocation> allocate(const Block& block, uint32_t columns);
  /// Frees columns. Throws Fault unless the block has exactly this allocation. `pc` is that of the instruction, for
  /// reports.
  void release(const Block& block, uint32_t address, uint32_t columns, uint32_t pc = 0);
  /// Ends the block's right to allocate.
  void relinquish(const Block& block);

  /// One sentence for each thing that a block which ends leaves behind: allocations, operations in flight.
  std::vector<std::string> leaks(const Block& block) const;
  /// Whether the block has columns that it has not released.
  bool has_allocation(const Block& block) const;
  /// Frees the columns of a block that has ended, and forgets it. The caller must then wake
  /// `Sm::waiting_for_tensor_memory`.
  void forget(const Block& block);

  /// Throws Fault unless lanes [cell.lane, +lanes) and columns [cell.column, +columns) exist and the block has
  /// allocated those columns. `what` is the access: "tcgen05.ld", "tcgen05.mma, accumulator".
  void require(const Block& block, TensorCell cell, uint32_t lanes, uint32_t columns, const char* what) const {
    require(block, cell, lanes, columns, what, address_of(cell));
  }
  /// @param given  the address as the program made it, where the cell does not follow from it alone
  void require(const Block& block, TensorCell cell, uint32_t lanes, uint32_t columns, const char* what,
               uint32_t given) const;
  bool owns(const Block& block, uint32_t column, uint32_t columns) const;

  /// Returns the 128 lanes of a column, which is not checked; the next column follows.
  uint32_t* column(uint32_t column) { return cells_.get() + size_t{column} * kTensorLanes; }
  uint32_t& cell(TensorCell cell) { return column(cell.column)[cell.lane]; }

  TensorPipe& pipe(const Block& block) { return use_of(block).pipe; }
  /// Returns a number that distinguishes a block from a later one at the same host address; 0 when the block is
  /// unknown.
  uint64_t serial_of(const Block& block) const;
  uint64_t serial(const Block& block) { return use_of(block).serial; }

 private:
  friend class TensorUnits;  // which allocates in two memories at once
  struct Use {
    std::vector<Allocation> allocations;
    std::vector<std::pair<Allocation, uint32_t>> freed;  ///< the latest few, with the instructions that freed them
    uint32_t latest_columns = 0;                         ///< of the latest allocation, live or not; 0 before the first
    bool relinquished = false;
    uint64_t serial = 0;
    TensorPipe pipe;
  };
  struct FreeCells {
    void operator()(uint32_t* cells) const;
  };

  Use& use_of(const Block& block);
  void check_request(const Block& block, uint32_t columns);
  bool is_free(const Allocation& range) const;
  void take(const Block& block, const Allocation& range);
  std::string describe_allocations(const Block& block) const;
  std::vector<std::string> advise(const Block& block, TensorCell cell) const;
  void set_owner(const Allocation& allocation, const Block* owner);

  std::unique_ptr<uint32_t[], FreeCells> cells_;
  std::array<const Block*, kUnits> owners_{};  ///< by unit; null when free
  std::map<const Block*, Use> uses_;
  uint64_t next_serial_ = 1;
};

}  // namespace stagecraft::emulator::machine
