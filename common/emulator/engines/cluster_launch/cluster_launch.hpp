// The family of cluster launch control: clusterlaunchcontrol.
#pragma once

#include "emulator/translation/registration.hpp"

namespace stagecraft::emulator::machine {

void add_cluster_launch(InstructionSet& set);

}  // namespace stagecraft::emulator::machine
