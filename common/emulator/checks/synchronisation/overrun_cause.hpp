// Why more arrivals come to an mbarrier in one instruction than its phase waits for.
#pragma once

#include <string>

#include "emulator/checks/ordering/ordering_record.hpp"

namespace stagecraft::emulator::checks {

/// The likely cause, for an arrival that ends a phase and counts for the next as well.
std::string cause_of_overrun(const ClusterRecord& cluster, const machine::BarrierEvent& event,
                             const BarrierOrder& barrier);

}  // namespace stagecraft::emulator::checks
