// Finds loads from global memory that a bulk store of a thread has not written yet.
//
// Other races in global memory are not checked. Here the machine knows that the store is under way at the time of the
// load, so that what is read is certainly old.
#pragma once

#include "emulator/checks/ordering/memory_check.hpp"

namespace stagecraft::emulator::checks {

class StoreReadCheck final : public MemoryCheck {
 public:
  using MemoryCheck::MemoryCheck;

  void store_read_early(ClusterRecord& cluster, const machine::EarlyRead& event) override;
};

}  // namespace stagecraft::emulator::checks
