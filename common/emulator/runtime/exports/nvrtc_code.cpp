// Replaces machine code that NVRTC compiled by its PTX.
//
// NVIDIA's compiler library makes PTX and, when asked for a real architecture (sm_100a), machine code from it. Programs
// load the machine code, which cannot be executed here. Where libcuda.so.1 is found before libnvrtc, which ./stagecraft
// run ensures, the functions that return machine code return the PTX instead, which loads in the same way.
#include <dlfcn.h>

#include <cstddef>

namespace {

constexpr int kInternalError = 11;  // NVRTC_ERROR_INTERNAL_ERROR

/// Calls NVRTC's own function of this name, which the program has loaded as well.
template <typename Result>
int call_nvrtc(const char* name, void* program, Result* result) {
  using Function = int(void*, Result*);
  auto* const function = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
  return function == nullptr ? kInternalError : function(program, result);
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] int nvrtcGetCUBINSize(void* program, size_t* size) {
  return call_nvrtc("nvrtcGetPTXSize", program, size);
}

[[gnu::visibility("default")]] int nvrtcGetCUBIN(void* program, char* code) {
  return call_nvrtc("nvrtcGetPTX", program, code);
}

}  // extern "C"
