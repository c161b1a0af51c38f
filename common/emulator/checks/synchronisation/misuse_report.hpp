// Words what stops a kernel that misuses an mbarrier: what happened, the barrier's state, and the likely cause.
#pragma once

#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::checks {

class MisuseReport final : public machine::Observer {
 public:
  void barrier_misused(const machine::BarrierMisuse& misuse, machine::Diagnostic& report) override;
};

}  // namespace stagecraft::emulator::checks
