#include "emulator/checks/synchronisation/member_mask_check.hpp"

#include <utility>

#include "emulator/checks/reporting/place.hpp"
#include "emulator/state/fragments.hpp"

namespace stagecraft::emulator::checks {

void MemberMaskCheck::grid_started(const machine::Grid& grid) { findings_.start(*grid.kernel); }

void MemberMaskCheck::lanes_left_out(const machine::Fragment& fragment, machine::LaneMask lanes,
                                     machine::LaneMask members) {
  auto identity = findings_.claim("member mask", fragment.pc);
  if (!identity) return;
  machine::Diagnostic finding;
  finding.kind = "wrong member mask";
  finding.message = machine::describe_left_out(members);
  finding.place = place_of(fragment);
  finding.place.lanes = lanes;
  finding.details.emplace_back(machine::kMembersAdvice);
  finding.tolerated = "an H200 lets all lanes of a warp that is together take part";
  findings_.add(machine::time_of(fragment.cluster()), std::move(*identity), std::move(finding));
}

}  // namespace stagecraft::emulator::checks
