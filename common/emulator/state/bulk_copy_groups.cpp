#include "emulator/state/bulk_copy_groups.hpp"

#include <algorithm>

namespace stagecraft::emulator::machine {

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

void ThreadBulkGroups::forget_finished() {
  // Groups complete in the order of their commits, so only a finished prefix may be removed.
  while (!committed.empty() && committed.front()->unfinished == 0) committed.pop_front();
}

}  // namespace stagecraft::emulator::machine
