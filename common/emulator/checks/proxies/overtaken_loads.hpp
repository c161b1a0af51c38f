// Finds loads that an arrival at an mbarrier may have overtaken, and copies that then overwrite what they read.
//
// To PTX an arrival releases the reads before it, but a copy writes through another proxy, and the order of a read and
// such a write is promised with a fence.proxy.async between them only. Nearly all kernels do without, and are right
// where something has used the values: then they are in their registers. Where nothing has, the arrival can come first.
// It did on an H200, whose `ldmatrix` with 32-way bank conflicts waited its turn (chapter 19).
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "emulator/checks/ordering/ordering_record.hpp"
#include "emulator/checks/proxies/loads_in_flight.hpp"
#include "emulator/checks/proxies/proxy_fences.hpp"

namespace stagecraft::emulator::checks {

/// The loads of the warps of one cluster.
class OvertakenLoads {
 public:
  /// A load that nothing had used when lanes of its warp arrived.
  struct Load {
    PastAccess access;
    uint32_t bytes = 0;                                 ///< that each lane reads
    std::array<uint32_t, machine::kWarpSize> shared{};  ///< by lane
    uint32_t arrival_pc = 0, arrival_lane = 0;
    Time arrival = 0;  ///< who knows of the arrival knows of this time of the warp
    /// The same for the warp's next arrival by which something had used it; 0: there was none.
    Time over = 0;

    bool overlaps(const machine::SharedRange& range) const;
  };

  explicit OvertakenLoads(uint32_t warps) : latest_(warps), overtaken_(warps) {}

  void note_read(const RecordedAccess& recorded);
  /// Lanes of a warp have executed a fence.proxy.async.
  void note_fence(uint32_t warp, machine::LaneMask lanes);
  /// @param time  of the warp, by which others will know of the arrival
  void note_arrival(const UnreadLoads& unread, const machine::BarrierEvent& event, uint32_t warp, Time time);
  /// The warp has come to another barrier, which shows that its loads are over.
  void note_meeting(uint32_t warp, Time time);
  /// Calls `visit(load, address)` for each load that a copy, which is issued now, may come before.
  template <typename Visit>
  void for_each_before(const ClusterOrder& order, const UnreadLoads& unread, const machine::AsyncOperation& copy,
                       const Visit& visit) {
    const uint32_t issuer = order.warp_number(*copy.fragment);
    const VectorClock& known = *order.known(issuer, copy.lane);
    for (uint32_t warp = 0; warp < overtaken_.size(); ++warp) {
      std::erase_if(overtaken_[warp], [&](const Load& load) {
        const Time seen = known.at(ThreadKnowledge::component_of(warp, load.arrival_lane));
        if (seen < load.arrival) return false;  // its threads are not ordered, or in another way
        for (const machine::SharedRange& range : copy.writes) {
          if (!load.overlaps(range)) continue;
          const bool used = warp == issuer && !unread.is_unread(load.access.pc(), copy.fragment->pc);
          if (!used && (load.over == 0 || seen < load.over)) visit(load, range.address);
          return true;
        }
        return false;
      });
    }
  }

 private:
  std::vector<std::vector<Load>> latest_;    ///< by warp: the last execution of each load that may be overtaken
  std::vector<std::deque<Load>> overtaken_;  ///< by warp, the latest
};

}  // namespace stagecraft::emulator::checks
