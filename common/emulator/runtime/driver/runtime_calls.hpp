// For functions of the driver API whose work a function of the runtime API does, with the same parameters.
#pragma once

#include <algorithm>
#include <bit>

#include "emulator/runtime/exports/jumps.hpp"
#include "emulator/runtime/model/api_call.hpp"

namespace stagecraft::emulator::runtime {

/// Calls `Call` with these arguments, as the driver's function of this name.
template <auto Call, typename... Arguments>
CUresult through(const char* name, Arguments... arguments) noexcept {
  return driver_call_through(name, Needs::device, [&] { return Call(arguments...); });
}

/// The name of a function without the version of its form.
template <size_t Size>
struct PlainName {
  char text[Size];
  constexpr PlainName(const char (&form)[Size]) {
    std::copy(form, form + Size, text);
    if (Size > 4 && form[Size - 4] == '_' && form[Size - 3] == 'v') text[Size - 4] = 0;
  }
};

/// `Driver` as `Runtime`, whose parameters are the same, under the runtime's names of their types.
template <auto Driver, auto Runtime, PlainName Name>
struct Through;
template <typename... From, CUresult (*Driver)(From...), typename... To, cudaError_t (*Runtime)(To...), PlainName Name>
struct Through<Driver, Runtime, Name> {
  static CUresult call(From... arguments) noexcept {
    return through<Runtime>(Name.text, std::bit_cast<To>(arguments)...);
  }
};

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

/// Defines `name`, a function of the driver API, as the function of the runtime API that does the same.
#define STAGECRAFT_THROUGH(name, runtime_name)                                                             \
  extern "C" [[gnu::visibility("hidden"), gnu::used]] void* const stagecraft_through_##name =              \
      reinterpret_cast<void*>(&stagecraft::emulator::runtime::Through<&name, &runtime_name, #name>::call); \
  STAGECRAFT_DEFINE_JUMP(name, STAGECRAFT_JUMP_THROUGH(stagecraft_through_##name));
