#include "emulator/checks/global_memory/global_shadow.hpp"

namespace stagecraft::emulator::checks {

using machine::Allocation;
using machine::AllocationKind;

namespace {

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

constexpr uint64_t bytes_of_detail(uint32_t cell_bytes) {
  return sizeof(SectorDetail) + kSectorBytes / cell_bytes * sizeof(GlobalCell);
}

}  // namespace

GlobalAllocation* GlobalShadow::look_up(const machine::DeviceMemory& memory, uint64_t address) {
  if (generation_ != machine::DeviceMemory::generation()) drop_freed(memory);
  GlobalAllocation*& latest = latest_[next_latest_++ % latest_.size()];
  latest = nullptr;
  auto after = allocations_.upper_bound(address);
  if (after != allocations_.begin()) {
    GlobalAllocation& known = std::prev(after)->second;
    if (address - known.address < known.size) return latest = &known;
  }
  const Allocation* const found = memory.find(address);
  if (found == nullptr || !is_checked(*found)) return nullptr;
  GlobalAllocation& made = allocations_[found->address];
  made.address = found->address;
  made.size = found->size;
  made.label = found->label;
  made.kind = found->kind;
  made.tracks_writes = found->kind == AllocationKind::device && !has_forgotten_;
  constexpr uint64_t kPageBytes = GlobalAllocation::kSectorsPerPage * kSectorBytes;
  made.pages.resize((found->size + kPageBytes - 1) / kPageBytes);
  return latest = &made;
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
  allocation.pages[number] = std::make_unique<GlobalAllocation::Page>();
  bytes_ += sizeof(GlobalAllocation::Page);
}

SectorDetail& GlobalShadow::detail(GlobalSector& sector, uint32_t cell_bytes) {
  if (sector.detail == 0) {
    if (spare_details_.empty()) {
      details_.emplace_back();
      sector.detail = static_cast<uint32_t>(details_.size());
    } else {
      sector.detail = spare_details_.back() + 1;
      spare_details_.pop_back();
    }
    details_[sector.detail - 1].cell_bytes = kSectorBytes;
  }
  SectorDetail& found = details_[sector.detail - 1];
  if (found.cell_bytes <= cell_bytes) return found;
  if (found.cell_bytes != kSectorBytes) bytes_ -= bytes_of_detail(found.cell_bytes);
  std::vector<GlobalCell> cells(kSectorBytes / cell_bytes);
  for (uint32_t i = 0; i < cells.size(); ++i) {
    const uint32_t at = i * cell_bytes;
    const GlobalCell& from = found.cells.empty() ? sector.cell : found.cells[at / found.cell_bytes];
    const uint32_t moved = at % found.cell_bytes;
    cells[i] = {from.write.moved(moved), {from.reads[0].moved(moved), from.reads[1].moved(moved)}};
  }
  found.cell_bytes = cell_bytes;
  found.cells = std::move(cells);
  bytes_ += bytes_of_detail(cell_bytes);
  return found;
}

void GlobalShadow::drop_detail(GlobalSector& sector) {
  if (sector.detail == 0) return;
  SectorDetail& dropped = details_[sector.detail - 1];
  bytes_ -= bytes_of_detail(dropped.cell_bytes);
  dropped.cells.clear();
  dropped.cells.shrink_to_fit();
  spare_details_.push_back(sector.detail - 1);
  sector.detail = 0;
}

void GlobalShadow::release(GlobalAllocation& allocation) {
  for (const auto& page : allocation.pages) {
    if (page == nullptr) continue;
    for (GlobalSector& sector : *page) drop_detail(sector);
    bytes_ -= sizeof(GlobalAllocation::Page);
  }
}

void GlobalShadow::forget() {
  for (auto& [address, allocation] : allocations_) {
    for (auto& page : allocation.pages) page.reset();
    allocation.tracks_writes = false;
  }
  details_.clear();
  details_.shrink_to_fit();
  spare_details_.clear();
  bytes_ = 0;
  has_forgotten_ = true;
}

}  // namespace stagecraft::emulator::checks
