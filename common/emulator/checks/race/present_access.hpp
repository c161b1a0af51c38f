// An access that is being checked.
#pragma once

#include "emulator/checks/ordering/past_access.hpp"

namespace stagecraft::emulator::checks {

struct PresentAccess {
  PastAccess record;
  uint32_t warp;            ///< number of the warp whose clock counts: that of the thread, or of the issuer
  machine::LaneMask lanes;  ///< the lanes whose clock counts, when the record is not scattered
  const VectorClock* known;
  const char* what = "";                  ///< name of an operation, for reports
  const VectorClock* together = nullptr;  ///< for a wgmma: what its four warps knew, beyond what PTX lets it rely on
  bool changes_nothing = false;           ///< a write of what is there already
  bool was_deferred = false;
};

}  // namespace stagecraft::emulator::checks
