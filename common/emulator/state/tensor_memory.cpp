#include "emulator/state/tensor_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <new>

#include "emulator/state/fault.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/state/tensor_units.hpp"

namespace stagecraft::emulator::machine {

namespace {

constexpr size_t kCells = size_t{kTensorLanes} * kTensorColumns;
constexpr size_t kFreedKept = 16;
constexpr std::align_val_t kAlignment{64};  // the widest vector of the host, so that no lane group crosses cache lines

std::string describe(const TensorMemory::Allocation& allocation) {
  return fmt::format("columns {} to {}", allocation.column, allocation.column + allocation.columns - 1);
}

}  // namespace

void TensorMemory::FreeCells::operator()(uint32_t* cells) const { ::operator delete[](cells, kAlignment); }

TensorMemory::TensorMemory() : cells_(static_cast<uint32_t*>(::operator new[](kCells * sizeof(uint32_t), kAlignment))) {
  std::fill_n(cells_.get(), kCells, kPoison);
}

TensorMemory::Use& TensorMemory::use_of(const Block& block) {
  Use& use = uses_[&block];
  if (use.serial == 0) use.serial = next_serial_++;
  return use;
}

uint64_t TensorMemory::serial_of(const Block& block) const {
  const auto found = uses_.find(&block);
  return found == uses_.end() ? 0 : found->second.serial;
}

void TensorMemory::check_request(const Block& block, uint32_t columns) {
  const Use& use = use_of(block);
  if (!std::has_single_bit(columns) || columns < kUnitColumns || columns > kTensorColumns) {
    throw Fault(FaultKind::illegal_instruction, fmt::format("tcgen05.alloc of {} columns", columns),
                {"legal: 32, 64, 128, 256 or 512 columns"});
  }
  if (use.relinquished) {
    throw Fault(FaultKind::illegal_instruction,
                fmt::format("tcgen05.alloc of {} columns after tcgen05.relinquish_alloc_permit", columns),
                {"the block has given up its right to allocate; relinquish after the last allocation"});
  }
  if (use.latest_columns != 0 && columns > use.latest_columns) {
    throw Fault(FaultKind::illegal_instruction,
                fmt::format("tcgen05.alloc of {} columns after one of {}", columns, use.latest_columns),
                {"the allocations of a block must not grow: make the largest first"});
  }
}

bool TensorMemory::is_free(const Allocation& range) const {
  const auto begin = owners_.begin() + range.column / kUnitColumns;
  return std::all_of(begin, begin + range.columns / kUnitColumns, [](const Block* owner) { return owner == nullptr; });
}

void TensorMemory::take(const Block& block, const Allocation& range) {
  Use& use = use_of(block);
  set_owner(range, &block);
  std::fill_n(column(range.column), size_t{range.columns} * kTensorLanes, kPoison);
  use.allocations.push_back(range);
  use.latest_columns = range.columns;
}

std::optional<TensorMemory::Allocation> TensorMemory::allocate(const Block& block, uint32_t columns) {
  return TensorUnits(block, *this).allocate(columns);
}

void TensorMemory::release(const Block& block, uint32_t address, uint32_t columns, uint32_t pc) {
  Use& use = use_of(block);
  const auto found = std::find_if(use.allocations.begin(), use.allocations.end(), [&](const Allocation& allocation) {
    return address == address_of({0, allocation.column}) && columns == allocation.columns;
  });
  if (found == use.allocations.end()) {
    throw Fault(
        FaultKind::illegal_instruction,
        fmt::format("tcgen05.dealloc of {} columns at address 0x{:x}, which is no allocation of this block", columns,
                    address),
        {describe_allocations(block), "dealloc takes the address that alloc gave, and the same number of columns"});
  }
  set_owner(*found, nullptr);
  if (use.freed.size() == kFreedKept) use.freed.erase(use.freed.begin());
  use.freed.emplace_back(*found, pc);
  use.allocations.erase(found);
}

void TensorMemory::relinquish(const Block& block) { use_of(block).relinquished = true; }

std::vector<std::string> TensorMemory::leaks(const Block& block) const {
  std::vector<std::string> result;
  const auto found = uses_.find(&block);
  if (found == uses_.end()) return result;
  for (const Allocation& allocation : found->second.allocations) {
    result.push_back(
        fmt::format("{} columns of tensor memory ({}) were still allocated when the block ended: "
                    "tcgen05.dealloc is missing",
                    allocation.columns, describe(allocation)));
  }
  if (found->second.pipe.in_flight != 0) {
    result.push_back(
        fmt::format("{} tcgen05 operations were still in flight when the block ended: commit them to an "
                    "mbarrier and wait for it",
                    found->second.pipe.in_flight));
  }
  return result;
}

bool TensorMemory::has_allocation(const Block& block) const {
  const auto found = uses_.find(&block);
  return found != uses_.end() && !found->second.allocations.empty();
}

void TensorMemory::forget(const Block& block) {
  const auto found = uses_.find(&block);
  if (found == uses_.end()) return;
  for (const Allocation& allocation : found->second.allocations) set_owner(allocation, nullptr);
  uses_.erase(found);
}

bool TensorMemory::owns(const Block& block, uint32_t column, uint32_t columns) const {
  if (columns == 0 || column >= kTensorColumns || columns > kTensorColumns - column) return false;
  const uint32_t last = (column + columns - 1) / kUnitColumns;
  for (uint32_t unit = column / kUnitColumns; unit <= last; ++unit) {
    if (owners_[unit] != &block) return false;
  }
  return true;
}

void TensorMemory::require(const Block& block, TensorCell cell, uint32_t lanes, uint32_t columns, const char* what,
                           uint32_t given) const {
  const bool lanes_exist = cell.lane < kTensorLanes && lanes <= kTensorLanes - cell.lane;
  if (lanes_exist && owns(block, cell.column, columns)) return;

  const TensorCell named = cell_at(given);
  const std::string place =
      fmt::format("address 0x{:x} (lane {}, column {}{})", given, named.lane, named.column,
                  named.column == cell.column ? "" : fmt::format("; the second half from column {}", cell.column));
  if (!lanes_exist) {
    throw Fault(FaultKind::illegal_address, fmt::format("{}: {} lanes from {} leave tensor memory", what, lanes, place),
                {"tensor memory has lanes 0 to 127; an address is lane << 16 | column", advise(block, cell).front()});
  }
  if (uint64_t{cell.column} + columns > kTensorColumns) {
    throw Fault(FaultKind::illegal_address,
                fmt::format("{}: {} columns from {} leave tensor memory", what, columns, place),
                {"tensor memory has columns 0 to 511; an address is lane << 16 | column", advise(block, cell).front()});
  }
  uint32_t column = cell.column;
  while (owners_[column / kUnitColumns] == &block) column = (column / kUnitColumns + 1) * kUnitColumns;
  const bool of_another = owners_[column / kUnitColumns] != nullptr;
  throw Fault(FaultKind::illegal_address,
              fmt::format("{}: {} columns from {}: column {} {}", what, columns, place, column,
                          of_another ? "belongs to another block" : "is not allocated"),
              advise(block, {cell.lane, column}));
}

std::vector<std::string> TensorMemory::advise(const Block& block, TensorCell cell) const {
  std::vector<std::string> advice{describe_allocations(block)};
  if (is_unwritten_word(address_of(cell))) advice = {kUnwrittenWord};
  const auto found = uses_.find(&block);
  if (found == uses_.end()) return advice;
  for (auto each = found->second.freed.rbegin(); each != found->second.freed.rend(); ++each) {
    const auto& [allocation, pc] = *each;
    if (cell.column < allocation.column || cell.column >= allocation.column + allocation.columns) continue;
    const std::string source =
        block.cluster == nullptr ? std::string() : block.cluster->grid->kernel->describe_source(pc);
    advice.push_back(
        fmt::format("{} were freed before, by the tcgen05.dealloc{}: free them after the last use and "
                    "after a barrier",
                    describe(allocation), source.empty() ? "" : " at " + source));
    break;
  }
  return advice;
}

std::string TensorMemory::describe_allocations(const Block& block) const {
  const auto found = uses_.find(&block);
  if (found == uses_.end() || found->second.allocations.empty()) {
    return "the block has no tensor memory allocated: tcgen05.alloc gives the address of some";
  }
  std::string text;
  for (const Allocation& allocation : found->second.allocations) {
    text += (text.empty() ? "" : ", ") + describe(allocation);
  }
  return "the block has allocated " + text;
}

bool is_unwritten_word(uint32_t address) { return cell_at(address).column >= 0xff00; }

void TensorMemory::set_owner(const Allocation& allocation, const Block* owner) {
  std::fill_n(owners_.begin() + allocation.column / kUnitColumns, allocation.columns / kUnitColumns, owner);
}

}  // namespace stagecraft::emulator::machine
