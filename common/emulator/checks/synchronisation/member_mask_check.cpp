#include "emulator/checks/synchronisation/member_mask_check.hpp"

#include <fmt/format.h>

#include <bit>
#include <utility>

#include "emulator/checks/reporting/place.hpp"
#include "emulator/checks/reporting/report.hpp"
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

/// Source: NVIDIA CUDA C++ Guidelines for Robust and Safety-Critical Programming, rule 2.3: the source lane of a
/// shuffle must be active and in the mask, or what the shuffle gets is undefined. An exited lane in the mask is no
/// mistake itself.
void MemberMaskCheck::absent_lanes_read(const machine::Fragment& fragment, machine::LaneMask readers,
                                        machine::LaneMask absent) {
  auto identity = findings_.claim("absent lanes", fragment.pc);
  if (!identity) return;
  const machine::LaneMask exited = absent & ~fragment.warp->live;
  machine::Diagnostic finding;
  finding.kind = "missing lanes";
  finding.place = place_of(fragment);
  finding.place.lanes = readers;
  finding.message = fmt::format("takes a value from {}, which {} not take part", describe_lanes(absent),
                                std::has_single_bit(absent) ? "does" : "do");
  finding.details.emplace_back(exited == absent ? "they have exited, or the block has no such threads"
                               : exited != 0    ? "some of them have exited, the others are not in the member mask"
                                                : "they are not in the member mask");
  finding.details.emplace_back("what a shuffle gets from a lane that does not take part is not defined");
  finding.likely_cause =
      "shuffle among the lanes that are there: give all of them in the mask, and a width (the last argument) that "
      "holds no others";
  findings_.add(machine::time_of(fragment.cluster()), std::move(*identity), std::move(finding));
}

}  // namespace stagecraft::emulator::checks
