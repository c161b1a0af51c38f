#include "emulator/checks/ordering/wording.hpp"

#include <fmt/format.h>

#include "emulator/checks/reporting/place.hpp"
#include "emulator/checks/reporting/report.hpp"
#include "emulator/state/mbarrier_table.hpp"

namespace stagecraft::emulator::checks {

using machine::LaneMask;

namespace {

machine::Extent3 position_of(const machine::Cluster& cluster, uint32_t rank) {
  // While a cluster starts, its blocks are not all there.
  return rank < cluster.blocks.size() ? cluster.blocks[rank]->index : cluster.first_block;
}

}  // namespace

machine::Place place_of(const ClusterRecord& cluster, uint32_t warp, LaneMask lanes, uint32_t pc) {
  const uint32_t warps = cluster.order().warps_per_block();
  return place_of(cluster.kernel(), position_of(cluster.cluster(), warp / warps), warp % warps, lanes, pc);
}

machine::Place place_of(const ClusterRecord& cluster, const machine::AsyncOperation& operation) {
  return place_of(cluster, cluster.order().warp_number(*operation.fragment), 1u << operation.lane,
                  operation.fragment->pc);
}

std::string spell_block(const ClusterRecord& cluster, uint32_t rank) {
  const machine::Extent3 &first = cluster.cluster().first_block, &shape = cluster.cluster().shape;
  return fmt::format("block ({},{},{})", first.x + rank % shape.x, first.y + rank / shape.x % shape.y,
                     first.z + rank / (shape.x * shape.y));
}

std::string spell_thread(const ClusterRecord& cluster, uint32_t warp, LaneMask lanes) {
  const uint32_t warps = cluster.order().warps_per_block();
  const machine::Extent3 block = position_of(cluster.cluster(), warp / warps);
  return fmt::format("block ({},{},{}) warp {} [{}]", block.x, block.y, block.z, warp % warps, describe_lanes(lanes));
}

std::string describe(const ClusterRecord& cluster, const PastAccess& access) {
  const char* verb = access.writes() ? "writes" : "reads";
  const std::string line = line_of(cluster, access.pc());
  const std::string where =
      line.empty() ? fmt::format(" ({})", cluster.kernel().describe_instruction(access.pc())) : line;
  if (access.is_asynchronous()) {
    const Operation& operation = cluster.order().operation(access.operation());
    return fmt::format("{} issued by {}{} {} it", operation.what,
                       spell_thread(cluster, operation.warp, 1u << operation.lane), where, verb);
  }
  return fmt::format("{} {} it{}", spell_thread(cluster, access.agent, access.lanes), verb, where);
}

std::string line_of(const ClusterRecord& cluster, uint32_t pc) { return at_line(cluster.kernel(), pc); }

std::string variable_of(const std::string& name) { return name.substr(0, name.find_first_of("[+")); }

std::string variable_of(const ClusterRecord& cluster, const BarrierOrder& barrier) {
  return variable_of(cluster.kernel().name_of_shared(barrier.offset, machine::kMbarrierBytes));
}

std::string name_of(const ClusterRecord& cluster, const BarrierOrder& barrier) {
  return cluster.kernel().name_of_barrier(barrier.offset);
}

}  // namespace stagecraft::emulator::checks
