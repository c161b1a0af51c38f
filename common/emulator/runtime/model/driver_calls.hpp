// The frame around the functions of the driver API.
#pragma once

#include <functional>

#include "emulator/runtime/model/state.hpp"

namespace stagecraft::emulator::runtime {

/// Runs `call`, a function of the runtime API that does the same thing, as the driver's function of this name: messages
/// name that, the result is the driver's, and the runtime's last error stays as it is.
CUresult driver_call_through(const char* name, Needs needs, const std::function<cudaError_t()>& call) noexcept;

}  // namespace stagecraft::emulator::runtime
