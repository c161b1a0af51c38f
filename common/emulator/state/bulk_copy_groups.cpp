#include "emulator/state/bulk_copy_groups.hpp"

#include <algorithm>

namespace stagecraft::emulator::machine {

const StoreUnderWay* find_store(const std::list<StoreUnderWay>& stores, uint64_t address, uint64_t bytes) {
  for (const StoreUnderWay& store : stores) {
    // Nearly always other memory is concerned, and a store of a tile has many rows.
    if (store.writes.empty() || address + bytes <= store.writes.front().address) continue;
    if (address >= store.writes.back().address + store.writes.back().bytes) continue;
    const auto concerns = [&](const GlobalRange& range) {
      return address < range.address + range.bytes && range.address < address + bytes;
    };
    if (std::any_of(store.writes.begin(), store.writes.end(), concerns)) return &store;
  }
  return nullptr;
}

std::shared_ptr<BulkCopyGroup> ThreadBulkGroups::join() {
  if (!open) open = std::make_shared<BulkCopyGroup>();
  ++open->unread;
  ++open->unfinished;
  return open;
}

void ThreadBulkGroups::commit() {
  forget_finished();
  // An empty group counts among the youngest ones that a wait may leave pending, so it is kept too.
  committed.push_back(open ? std::move(open) : std::make_shared<BulkCopyGroup>());
  open.reset();
}

bool ThreadBulkGroups::reached(uint32_t keep, bool read_only) const {
  const size_t count = committed.size() > keep ? committed.size() - keep : 0;
  return std::all_of(committed.begin(), committed.begin() + static_cast<std::ptrdiff_t>(count),
                     [&](const auto& group) { return (read_only ? group->unread : group->unfinished) == 0; });
}

void ThreadBulkGroups::note_read(uint32_t keep) {
  for (size_t i = 0; i + keep < committed.size(); ++i) committed[i]->read_awaited = true;
}

void ThreadBulkGroups::forget_finished() {
  // Groups complete in the order of their commits, so only a finished prefix may be removed.
  while (!committed.empty() && committed.front()->unfinished == 0) committed.pop_front();
}

}  // namespace stagecraft::emulator::machine
