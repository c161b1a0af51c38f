// How reports name what the record knows: warps, barriers, accesses, lines.
#pragma once

#include <cstdint>
#include <string>

#include "emulator/checks/ordering/ordering_record.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::checks {

/// @param warp  its number in the cluster
machine::Place place_of(const ClusterRecord& cluster, uint32_t warp, machine::LaneMask lanes, uint32_t pc);
machine::Place place_of(const ClusterRecord& cluster, const machine::AsyncOperation& operation);

/// "block (1,0,0)", also of one that has ended.
std::string spell_block(const ClusterRecord& cluster, uint32_t rank);
/// "block (0,0,0) warp 1 [lane 3]"; `warp` is its number in the cluster.
std::string spell_thread(const ClusterRecord& cluster, uint32_t warp, machine::LaneMask lanes);
/// "block (0,0,0) warp 1 [lane 3] reads it at ring.cu:41", "cp.async.bulk issued by ... at ring.cu:20 writes it"
std::string describe(const ClusterRecord& cluster, const PastAccess& access);
/// " at ring.cu:41"; empty when the program has no lines.
std::string line_of(const ClusterRecord& cluster, uint32_t pc);
/// "full" of "full[2]", "tile" of "tile+0x40": the variable (Diagnostic::subject).
std::string variable_of(const std::string& name);
/// The variable that a barrier is in.
std::string variable_of(const ClusterRecord& cluster, const BarrierOrder& barrier);
/// "full[2]", "storage.full[2]"
std::string name_of(const ClusterRecord& cluster, const BarrierOrder& barrier);

}  // namespace stagecraft::emulator::checks
