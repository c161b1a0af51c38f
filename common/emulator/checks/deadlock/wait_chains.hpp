// Which sleeping threads could end the wait of others.
//
// A wait is followed to the threads that could end it: the lanes that have not come to a barrier of the warp, the block
// or the cluster, and the warps that have arrived at an mbarrier before. The mistake is where such a chain ends: at a
// wait that no thread which sleeps elsewhere could end, or in a ring of waits for each other.
#pragma once

#include <cstddef>
#include <vector>

#include "emulator/checks/deadlock/sleepers.hpp"

namespace stagecraft::emulator::checks {

/// The groups one of which must continue before this one can, as indices.
std::vector<size_t> needs_of(const Sleepers& sleepers, const Group& group);

/// Marks the groups at which a chain of needs ends.
void find_roots(std::vector<Group>& groups);

}  // namespace stagecraft::emulator::checks
