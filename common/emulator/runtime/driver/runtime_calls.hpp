// Functions of the driver API that a function of the runtime API does the work of, with the same parameters.
#pragma once

#include "emulator/runtime/model/api_call.hpp"

namespace stagecraft::emulator::runtime {

/// `Call` with these arguments, as the driver's function of this name.
template <auto Call, typename... Arguments>
CUresult through(const char* name, Arguments... arguments) noexcept {
  return driver_call_through(name, Needs::device, [&] { return Call(arguments...); });
}

/// The runtime's name for a type of the driver, which is laid out the same.
template <typename To, typename From>
To* same(From* from) {
  static_assert(sizeof(To) == sizeof(From));
  return reinterpret_cast<To*>(from);
}

/// Null stands for an error that the runtime's function then tells.
cudaMemcpy3DParms runtime_copy(const CUDA_MEMCPY3D& what);
cudaMemcpy3DParms runtime_copy(const CUDA_MEMCPY2D& what);

}  // namespace stagecraft::emulator::runtime
