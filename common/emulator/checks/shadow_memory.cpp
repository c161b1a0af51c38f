#include "emulator/checks/shadow_memory.hpp"

namespace stagecraft::emulator::checks {

void ShadowMemory::add_page(uint32_t page) {
  if (page >= pages_.size()) pages_.resize(page + 1);
  pages_[page] = std::make_unique<Page>();
}

std::array<ShadowCell, ShadowMemory::kCellBytes>& ShadowMemory::bytes_of(ShadowCell& cell) {
  if (cell.write.agent != PastAccess::kByBytes) {
    std::array<ShadowCell, kCellBytes> bytes;
    bytes.fill(cell);
    if (cell.read.agent == PastAccess::kSeveral) {
      const std::vector<PastAccess> reads = several(cell.read);  // a copy: making lists may move it
      clear_reads(cell);
      for (ShadowCell& byte : bytes) {
        byte.read = {};
        make_several(byte) = reads;
      }
    }
    cell.read = {};
    cell.write = {};
    cell.write.agent = PastAccess::kByBytes;
    cell.write.time = static_cast<Time>(split_.size());
    split_.push_back(bytes);
  }
  return split_[cell.write.time];
}

std::vector<PastAccess>& ShadowMemory::make_several(ShadowCell& cell) {
  uint32_t index;
  if (free_lists_.empty()) {
    index = static_cast<uint32_t>(lists_.size());
    lists_.emplace_back();
  } else {
    index = free_lists_.back();
    free_lists_.pop_back();
  }
  std::vector<PastAccess>& list = lists_[index];
  list.clear();
  if (cell.read.agent != PastAccess::kNobody) list.push_back(cell.read);
  cell.read = {};
  cell.read.agent = PastAccess::kSeveral;
  cell.read.time = index;
  return list;
}

void ShadowMemory::clear_reads(ShadowCell& cell) {
  if (cell.read.agent == PastAccess::kSeveral) free_lists_.push_back(cell.read.time);
  cell.read = {};
}

}  // namespace stagecraft::emulator::checks
