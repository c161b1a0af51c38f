// Finds lanes that execute a .sync operation of a warp and are not in its member mask, where the chip carries on; and
// shuffles that take a value from a lane that does not take part.
#pragma once

#include <vector>

#include "emulator/checks/reporting/finding_log.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::checks {

class MemberMaskCheck final : public machine::Observer {
 public:
  void grid_started(const machine::Grid& grid) override;
  void lanes_left_out(const machine::Fragment& fragment, machine::LaneMask lanes, machine::LaneMask members) override;
  void absent_lanes_read(const machine::Fragment& fragment, machine::LaneMask readers,
                         machine::LaneMask absent) override;
  std::vector<machine::Finding> findings() override { return findings_.take(); }

 private:
  FindingLog findings_;
};

}  // namespace stagecraft::emulator::checks
