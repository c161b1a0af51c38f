// For functions of the driver API whose work a function of the runtime API does, with the same parameters.
#pragma once

#include "emulator/runtime/model/api_call.hpp"

namespace stagecraft::emulator::runtime {

/// Calls `Call` with these arguments, as the driver's function of this name.
template <auto Call, typename... Arguments>
CUresult through(const char* name, Arguments... arguments) noexcept {
  return driver_call_through(name, Needs::device, [&] { return Call(arguments...); });
}

/// A device address of the driver API, as a pointer of the runtime API.
inline void* pointer_of(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

/// A pointer to a type of the driver as one to the runtime's type, which has the same layout.
template <typename To, typename From>
To* same(From* from) {
  static_assert(sizeof(To) == sizeof(From));
  return reinterpret_cast<To*>(from);
}

/// The copy in the runtime's form. A pointer in it is null where the driver's names memory that is not supported, and
/// the runtime's function then refuses it.
cudaMemcpy3DParms runtime_copy(const CUDA_MEMCPY3D& what);
cudaMemcpy3DParms runtime_copy(const CUDA_MEMCPY2D& what);

}  // namespace stagecraft::emulator::runtime
