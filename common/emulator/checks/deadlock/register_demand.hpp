// What the warps of a block have of its registers and ask for, where setmaxnreg.inc waits for ever.
#pragma once

#include <string>
#include <vector>

#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::checks {

/// "waits for 240 registers per thread (setmaxnreg.inc): its warp has 168, and 64 are free"
std::string describe_register_wait(const machine::Fragment& fragment);
/// Who has how many, by warps that are alike: "warps 0-3 have 40, since setmaxnreg at gemm.cu:88".
std::vector<std::string> describe_register_shares(const machine::Block& block);
/// Why the demand cannot be met: the sum of it, what there is, and who could release more.
std::string explain_register_demand(const machine::Block& block);

}  // namespace stagecraft::emulator::checks
