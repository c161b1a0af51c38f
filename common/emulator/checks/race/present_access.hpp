// An access that is being checked.
#pragma once

#include "emulator/checks/ordering/past_access.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::checks {

struct PresentAccess {
  PastAccess record;
  uint32_t warp;            ///< number of the warp whose clock counts: that of the thread, or of the issuer
  machine::LaneMask lanes;  ///< the lanes whose clock counts, when the record is not scattered
  const VectorClock* known;
  const char* what = "";                  ///< name of an operation, for reports
  const VectorClock* together = nullptr;  ///< for a wgmma: what its four warps knew, beyond what PTX lets it rely on
  /// A weak write of threads that has just been executed; null for others, and where the check was deferred.
  const machine::MemoryAccess* written = nullptr;
  bool was_deferred = false;
};

}  // namespace stagecraft::emulator::checks
