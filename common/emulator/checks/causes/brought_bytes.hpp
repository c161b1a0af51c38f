// Which bytes of shared memory the copies brought for one phase of an mbarrier, as far as nothing was written there
// since. It is looked up in the history of the memory, for reports.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/checks/ordering/ordering_record.hpp"

namespace stagecraft::emulator::checks {

/// Neighbouring bytes of one block.
struct BroughtRange {
  uint32_t rank = 0, begin = 0, end = 0;
  uint32_t pc = 0;  ///< of the first copy
};

/// In the order of blocks and addresses.
std::vector<BroughtRange> brought_in(const ClusterRecord& cluster, uint32_t barrier, Time phase);

/// "16384 bytes to tiles+0x8000 and 8192 to tiles+0x14000"; empty when there are none, or too many to be said.
std::string spell_brought(const ClusterRecord& cluster, const std::vector<BroughtRange>& ranges);

}  // namespace stagecraft::emulator::checks
