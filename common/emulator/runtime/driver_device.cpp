// The driver API: the device, contexts, errors, and functions by name.
//
// One process has one device with one context, the primary one; every context handle is that one.
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "emulator/runtime/device_attributes.hpp"
#include "emulator/runtime/driver_calls.hpp"
#include "emulator/runtime/driver_table.hpp"
#include "emulator/runtime/state.hpp"

namespace stagecraft::emulator::runtime {
namespace {

CUcontext the_context() {
  static char context;
  return reinterpret_cast<CUcontext>(&context);
}

void check_context(CUcontext context) {
  if (context != the_context()) {
    throw ApiError(cudaErrorDeviceUninitialized,
                   fmt::format("{} is no context; cuDevicePrimaryCtxRetain gives one", fmt::ptr(context)));
  }
}

CUresult set_context(const char* name, CUcontext context) {
  return run_driver_call(name, Needs::nothing, [&](State&) {
    if (context != nullptr) check_context(context);
    set_current_context(context != nullptr);
  });
}

CUresult create_context(const char* name, CUcontext* context, CUdevice device) {
  return run_driver_call(name, Needs::nothing, [&](State& state) {
    check_device(device);
    state.machine();
    *required(context, "pctx") = the_context();
    set_current_context(true);
  });
}

}  // namespace
}  // namespace stagecraft::emulator::runtime

using namespace stagecraft::emulator::runtime;

extern "C" {

CUresult cuInit(unsigned flags) {
  State& state = State::instance();
  const bool before = std::exchange(state.driver_initialised, true);
  const CUresult result = run_driver_call("cuInit", Needs::nothing, [&](State& known) {
    if (flags != 0) throw ApiError(cudaErrorInvalidValue, fmt::format("flags are {}; legal is 0", flags));
    known.settings();
  });
  if (result != CUDA_SUCCESS) state.driver_initialised = before;
  return result;
}

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = kCudaVersion;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** name) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = driver_error_name(error);
  return *name != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *text = driver_error_text(error);
  return *text != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetProcAddress_v2(const char* name, void** function, int version, cuuint64_t,
                             CUdriverProcAddressQueryResult* status) {
  if (name == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *function = find_driver_function(name, version);
  if (status != nullptr) {
    *status = *function != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return *function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

// The form before CUDA 12, which has no status.
#undef cuGetProcAddress
CUresult cuGetProcAddress(const char* name, void** function, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}

CUresult cuDeviceGetCount(int* count) {
  return run_driver_call("cuDeviceGetCount", Needs::nothing, [&](State&) { *required(count, "count") = 1; });
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return run_driver_call("cuDeviceGet", Needs::nothing, [&](State&) {
    check_device(ordinal);
    *required(device, "device") = 0;
  });
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  return run_driver_call("cuDeviceGetName", Needs::nothing, [&](State& state) {
    check_device(device);
    if (length < 1) throw ApiError(cudaErrorInvalidValue, fmt::format("a text of {} characters", length));
    const std::string text = state.architecture().name.substr(0, static_cast<size_t>(length) - 1);
    std::memcpy(required(name, "name"), text.c_str(), text.size() + 1);
  });
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  return run_driver_call("cuDeviceGetUuid", Needs::nothing, [&](State& state) {
    check_device(device);
    std::memcpy(required(uuid, "uuid"), device_properties(state.architecture()).uuid.bytes, sizeof uuid->bytes);
  });
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  return run_driver_call("cuDeviceTotalMem", Needs::nothing, [&](State& state) {
    check_device(device);
    *required(bytes, "bytes") = state.architecture().memory_bytes;
  });
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return driver_call_through("cuDeviceGetAttribute", Needs::nothing, [&] {
    return cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(attribute), device);
  });
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  return run_driver_call("cuDeviceComputeCapability", Needs::nothing, [&](State& state) {
    check_device(device);
    *required(major, "major") = static_cast<int>(state.architecture().major);
    *required(minor, "minor") = static_cast<int>(state.architecture().minor);
  });
}

CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  return driver_call_through("cuDeviceGetPCIBusId", Needs::nothing,
                             [&] { return cudaDeviceGetPCIBusId(text, length, device); });
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return run_driver_call("cuDevicePrimaryCtxRetain", Needs::nothing, [&](State& state) {
    check_device(device);
    state.machine();
    *required(context, "pctx") = the_context();
  });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return run_driver_call("cuDevicePrimaryCtxRelease", Needs::nothing, [&](State&) { check_device(device); });
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  return run_driver_call("cuDevicePrimaryCtxReset", Needs::nothing, [&](State& state) {
    check_device(device);
    state.reset();
  });
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
  return driver_call_through("cuDevicePrimaryCtxSetFlags", Needs::nothing,
                             [&] { return device == 0 ? cudaSetDeviceFlags(flags) : cudaSetDevice(device); });
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  return run_driver_call("cuDevicePrimaryCtxGetState", Needs::nothing, [&](State& state) {
    check_device(device);
    *required(flags, "flags") = state.device_flags;
    *required(active, "active") = state.machine_is_started();
  });
}

CUresult cuCtxCreate_v2(CUcontext* context, unsigned, CUdevice device) {
  return create_context("cuCtxCreate", context, device);
}
CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams*, unsigned, CUdevice device) {
  return create_context("cuCtxCreate", context, device);
}

CUresult cuCtxDestroy_v2(CUcontext context) {
  return run_driver_call("cuCtxDestroy", Needs::nothing, [&](State&) {
    check_context(context);
    set_current_context(false);
  });
}

CUresult cuCtxSetCurrent(CUcontext context) { return set_context("cuCtxSetCurrent", context); }
CUresult cuCtxPushCurrent_v2(CUcontext context) { return set_context("cuCtxPushCurrent", context); }

CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  return run_driver_call("cuCtxPopCurrent", Needs::device, [&](State&) {
    if (context != nullptr) *context = the_context();
    set_current_context(false);
  });
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  return run_driver_call("cuCtxGetCurrent", Needs::nothing, [&](State&) {
    *required(context, "pctx") = current_context_is_set() ? the_context() : nullptr;
  });
}

CUresult cuCtxGetDevice(CUdevice* device) {
  return run_driver_call("cuCtxGetDevice", Needs::device, [&](State&) { *required(device, "device") = 0; });
}

CUresult cuCtxGetApiVersion(CUcontext, unsigned* version) {
  return run_driver_call("cuCtxGetApiVersion", Needs::device,
                         [&](State&) { *required(version, "version") = kCudaVersion; });
}

CUresult cuCtxSynchronize(void) {
  return driver_call_through("cuCtxSynchronize", Needs::device, [] { return cudaDeviceSynchronize(); });
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  return driver_call_through("cuCtxSetLimit", Needs::device,
                             [&] { return cudaDeviceSetLimit(static_cast<cudaLimit>(limit), value); });
}

CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
  return driver_call_through("cuCtxGetLimit", Needs::device,
                             [&] { return cudaDeviceGetLimit(value, static_cast<cudaLimit>(limit)); });
}

CUresult cuCtxSetCacheConfig(CUfunc_cache) {
  return run_driver_call("cuCtxSetCacheConfig", Needs::device, [](State&) {});
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return driver_call_through("cuCtxGetStreamPriorityRange", Needs::device,
                             [&] { return cudaDeviceGetStreamPriorityRange(least, greatest); });
}

CUresult cuProfilerStart(void) {
  return run_driver_call("cuProfilerStart", Needs::device, [](State&) {});
}
CUresult cuProfilerStop(void) {
  return run_driver_call("cuProfilerStop", Needs::device, [](State&) {});
}

// There is one context, so these forms that name one mean it.
CUresult cuCtxSynchronize_v2(CUcontext) { return cuCtxSynchronize(); }
CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext) { return cuCtxGetDevice(device); }
#undef cuStreamGetCtx
CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  return run_driver_call("cuStreamGetCtx", Needs::device, [&](State& state) {
    state.streams.require(stream);
    *required(context, "pctx") = the_context();
  });
}
CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext* context, CUgreenCtx* green) {
  if (green != nullptr) *green = nullptr;
  return cuStreamGetCtx(stream, context);
}
CUresult cuCtxGetId(CUcontext, unsigned long long* id) {
  return run_driver_call("cuCtxGetId", Needs::device, [&](State&) { *required(id, "ctxId") = 1; });
}
CUresult cuCtxGetFlags(unsigned* flags) {
  return driver_call_through("cuCtxGetFlags", Needs::device, [&] { return cudaGetDeviceFlags(flags); });
}
CUresult cuCtxSetFlags(unsigned flags) {
  return driver_call_through("cuCtxSetFlags", Needs::device, [&] { return cudaSetDeviceFlags(flags); });
}
CUresult cuCtxGetCacheConfig(CUfunc_cache* config) {
  return driver_call_through("cuCtxGetCacheConfig", Needs::device,
                             [&] { return cudaDeviceGetCacheConfig(reinterpret_cast<cudaFuncCache*>(config)); });
}
CUresult cuCtxGetSharedMemConfig(CUsharedconfig* config) {
  return run_driver_call("cuCtxGetSharedMemConfig", Needs::device,
                         [&](State&) { *required(config, "pConfig") = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE; });
}
CUresult cuCtxSetSharedMemConfig(CUsharedconfig) {
  return run_driver_call("cuCtxSetSharedMemConfig", Needs::device, [](State&) {});
}
CUresult cuCtxResetPersistingL2Cache(void) {
  return run_driver_call("cuCtxResetPersistingL2Cache", Needs::device, [](State&) {});
}
CUresult cuDeviceCanAccessPeer(int* can_access, CUdevice device, CUdevice peer) {
  return driver_call_through("cuDeviceCanAccessPeer", Needs::nothing,
                             [&] { return cudaDeviceCanAccessPeer(can_access, device, peer); });
}
CUresult cuCtxEnablePeerAccess(CUcontext, unsigned flags) {
  return driver_call_through("cuCtxEnablePeerAccess", Needs::device,
                             [&] { return cudaDeviceEnablePeerAccess(0, flags); });
}
CUresult cuCtxDisablePeerAccess(CUcontext) {
  return driver_call_through("cuCtxDisablePeerAccess", Needs::device, [] { return cudaDeviceDisablePeerAccess(0); });
}
CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* text) {
  return driver_call_through("cuDeviceGetByPCIBusId", Needs::nothing,
                             [&] { return cudaDeviceGetByPCIBusId(device, text); });
}
CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice device, CUdevice peer) {
  return driver_call_through("cuDeviceGetP2PAttribute", Needs::nothing, [&] {
    return cudaDeviceGetP2PAttribute(value, static_cast<cudaDeviceP2PAttr>(attribute), device, peer);
  });
}
CUresult cuDeviceGetProperties(CUdevprop* properties, CUdevice device) {
  return run_driver_call("cuDeviceGetProperties", Needs::nothing, [&](State& state) {
    check_device(device);
    const cudaDeviceProp all = device_properties(state.architecture());
    CUdevprop& known = *required(properties, "prop");
    known = {};
    known.maxThreadsPerBlock = all.maxThreadsPerBlock;
    std::memcpy(known.maxThreadsDim, all.maxThreadsDim, sizeof known.maxThreadsDim);
    std::memcpy(known.maxGridSize, all.maxGridSize, sizeof known.maxGridSize);
    known.sharedMemPerBlock = static_cast<int>(all.sharedMemPerBlock);
    known.totalConstantMemory = static_cast<int>(all.totalConstMem);
    known.SIMDWidth = all.warpSize;
    known.memPitch = static_cast<int>(all.memPitch);
    known.regsPerBlock = all.regsPerBlock;
    known.clockRate = device_attribute(state.architecture(), cudaDevAttrClockRate).value_or(0);
    known.textureAlign = static_cast<int>(all.textureAlignment);
  });
}

}  // extern "C"
