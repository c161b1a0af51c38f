#include "emulator/checks/global_memory/global_shadow.hpp"

#include <algorithm>

namespace stagecraft::emulator::checks {

using machine::Allocation;
using machine::AllocationKind;

namespace {

constexpr uint32_t kWholeShift = 5;  ///< log2 of kSectorBytes

bool is_checked(const Allocation& allocation) {
  switch (allocation.kind) {
    case AllocationKind::device: return !allocation.label.starts_with("the workspace");
    case AllocationKind::managed:
    case AllocationKind::pinned_host:
    case AllocationKind::module:
    case AllocationKind::registered_host:
    case AllocationKind::mapped:
    case AllocationKind::managed_variable: return true;
    case AllocationKind::parameters:
    case AllocationKind::heap: break;
  }
  return false;
}

constexpr uint64_t bytes_of_parts(uint32_t shift) { return (kSectorBytes >> shift) * sizeof(GlobalCell); }

}  // namespace

GlobalAllocation* GlobalShadow::look_up(const machine::DeviceMemory& memory, uint64_t address) {
  if (generation_ != machine::DeviceMemory::generation()) drop_freed(memory);
  GlobalAllocation*& latest = latest_[next_latest_++ % latest_.size()];
  latest = find_known(address);
  if (latest != nullptr) return latest;
  const Allocation* const found = memory.find(address);
  if (found == nullptr || !is_checked(*found)) return nullptr;
  GlobalAllocation& made = allocations_[found->address];
  made.address = found->address;
  made.size = found->size;
  made.label = found->label;
  made.kind = found->kind;
  made.tracks_writes = found->kind == AllocationKind::device && !has_forgotten_;
  made.pages.resize((found->size + GlobalAllocation::kPageBytes - 1) / GlobalAllocation::kPageBytes);
  made.uses.resize(made.pages.size());
  made.all_written.resize(made.pages.size());
  made.serial = next_serial_++;
  return latest = &made;
}

GlobalAllocation* GlobalShadow::find_known(uint64_t address) {
  const auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return nullptr;
  GlobalAllocation& known = std::prev(after)->second;
  return address - known.address < known.size ? &known : nullptr;
}

void GlobalShadow::drop_freed(const machine::DeviceMemory& memory) {
  generation_ = machine::DeviceMemory::generation();
  latest_ = {};
  for (auto each = allocations_.begin(); each != allocations_.end();) {
    const Allocation* const live = memory.find(each->first);
    const bool is_same = live != nullptr && live->address == each->first && live->size == each->second.size &&
                         live->label == each->second.label;
    if (!is_same) release(each->second);
    each = is_same ? std::next(each) : allocations_.erase(each);
  }
}

void GlobalShadow::make_page(GlobalAllocation& allocation, uint64_t number) {
  std::unique_ptr<GlobalAllocation::Page>& page = allocation.pages[number];
  page = std::make_unique<GlobalAllocation::Page>();
  if (allocation.all_written[number]) {
    for (GlobalSector& sector : *page) sector.written = ~0u;
  }
  bytes_ += sizeof(GlobalAllocation::Page);
}

void GlobalShadow::split(GlobalSector& sector, uint32_t shift) {
  const uint32_t before = sector.parts;
  const SectorParts from = before == 0 ? SectorParts{&sector.cell, kWholeShift} : parts_.of(sector);
  const SectorParts made = parts_.make(sector, shift);
  for (uint32_t at = 0; at < kSectorBytes; at += 1u << shift) {
    const GlobalCell& of = from.cells[at >> from.shift];
    const uint32_t moved = at & ((1u << from.shift) - 1);
    made.cells[at >> shift] = {of.write.moved(moved), {of.reads[0].moved(moved), of.reads[1].moved(moved)}};
  }
  bytes_ += bytes_of_parts(shift);
  if (before == 0) return;
  parts_.release(before);
  bytes_ -= bytes_of_parts(from.shift);
}

void GlobalShadow::drop_parts(GlobalSector& sector) {
  if (sector.parts == 0) return;
  bytes_ -= bytes_of_parts(parts_.of(sector).shift);
  parts_.release(sector.parts);
  sector.parts = 0;
}

void GlobalShadow::release(GlobalAllocation& allocation) {
  for (const auto& page : allocation.pages) {
    if (page == nullptr) continue;
    for (GlobalSector& sector : *page) drop_parts(sector);
    bytes_ -= sizeof(GlobalAllocation::Page);
  }
}

void GlobalShadow::forget_before(uint32_t record) {
  const auto is_kept = [record](GlobalEntry& entry) {
    if (entry.record() < record) entry = {};
    return entry.record() != 0;
  };
  const auto is_used = [&](GlobalCell& cell) {
    const bool written = is_kept(cell.write), first = is_kept(cell.reads[0]), last = is_kept(cell.reads[1]);
    if (!first) cell.reads = {cell.reads[1], {}};
    return written || first || last;
  };
  for (auto& [address, allocation] : allocations_) {
    for (size_t number = 0; number < allocation.pages.size(); ++number) {
      std::unique_ptr<GlobalAllocation::Page>& page = allocation.pages[number];
      if (page == nullptr) continue;
      bool used = false, none_written = true;
      for (GlobalSector& sector : *page) {
        none_written = none_written && sector.written == 0;
        if (sector.parts == 0) {
          used = is_used(sector.cell) || used;
          continue;
        }
        const SectorParts parts = parts_.of(sector);
        bool part_used = false;
        for (uint32_t i = 0; i < kSectorBytes >> parts.shift; ++i) part_used = is_used(parts.cells[i]) || part_used;
        used = used || part_used;
        if (part_used) continue;
        drop_parts(sector);
        sector.cell = {};
      }
      const bool all_written = is_all_written(allocation, number);
      if (used || (allocation.tracks_writes && !all_written && !none_written)) continue;
      allocation.all_written[number] = all_written;
      page.reset();
      bytes_ -= sizeof(GlobalAllocation::Page);
    }
  }
}

bool GlobalShadow::is_all_written(const GlobalAllocation& allocation, uint64_t number) {
  const GlobalAllocation::Page* const page = allocation.pages[number].get();
  if (page == nullptr) return allocation.all_written[number];
  uint64_t left = std::min(allocation.size - number * GlobalAllocation::kPageBytes, GlobalAllocation::kPageBytes);
  for (const GlobalSector& sector : *page) {
    const uint32_t all = left >= kSectorBytes ? ~0u : (1u << left) - 1;
    if ((all & ~sector.written) != 0) return false;
    left -= std::min<uint64_t>(left, kSectorBytes);
  }
  return true;
}

void GlobalShadow::forget() {
  for (auto& [address, allocation] : allocations_) {
    for (auto& page : allocation.pages) page.reset();
    allocation.tracks_writes = false;
  }
  parts_ = {};
  bytes_ = 0;
  has_forgotten_ = true;
}

}  // namespace stagecraft::emulator::checks
