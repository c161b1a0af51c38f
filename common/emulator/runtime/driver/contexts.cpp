// The driver API: contexts. Results at the edges (an empty stack, null, one release too many) are those of an H200.
#include <fmt/format.h>

#include "emulator/runtime/driver/runtime_calls.hpp"
#include "emulator/runtime/model/api_call.hpp"

using namespace stagecraft::emulator::runtime;

namespace stagecraft::emulator::runtime {
namespace {

CUcontext handle_of(Context& context) { return reinterpret_cast<CUcontext>(&context); }

CUresult create_context(CUcontext* context, unsigned flags, CUdevice device) {
  return run_driver_call("cuCtxCreate", Needs::nothing, [&](State& state) {
    check_device(device);
    state.machine();
    required(context, "pctx");
    *context = handle_of(state.contexts.create(flags));
  });
}

/// The context of a call that names one, or null for the current one.
Context& named_or_current(State& state, CUcontext context) {
  if (context != nullptr) return state.contexts.require(context);
  if (state.contexts.current() == nullptr) throw ApiError(cudaErrorDeviceUninitialized, "there is no current context");
  return *state.contexts.current();
}

}  // namespace
}  // namespace stagecraft::emulator::runtime

extern "C" {

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return run_driver_call("cuDevicePrimaryCtxRetain", Needs::nothing, [&](State& state) {
    check_device(device);
    state.machine();
    *required(context, "pctx") = handle_of(state.contexts.primary());
    state.contexts.retain_primary();
  });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return run_driver_call("cuDevicePrimaryCtxRelease", Needs::nothing, [&](State& state) {
    check_device(device);
    state.contexts.release_primary();
  });
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
    *required(flags, "flags") = state.contexts.primary().flags;
    *required(active, "active") = state.machine_is_started();
  });
}

CUresult cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device) {
  return create_context(context, flags, device);
}
CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams*, unsigned flags, CUdevice device) {
  return create_context(context, flags, device);
}

CUresult cuCtxDestroy_v2(CUcontext context) {
  return run_driver_call("cuCtxDestroy", Needs::nothing, [&](State& state) {
    Context& found = state.contexts.require(context);
    state.contexts.destroy(found);
    state.modules.remove_of(&found);
  });
}

CUresult cuCtxSetCurrent(CUcontext context) {
  return run_driver_call("cuCtxSetCurrent", Needs::nothing, [&](State& state) {
    state.contexts.set_current(context == nullptr ? nullptr : &state.contexts.require(context));
  });
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  return run_driver_call("cuCtxPushCurrent", Needs::nothing,
                         [&](State& state) { state.contexts.push(state.contexts.require(context)); });
}

CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  return run_driver_call("cuCtxPopCurrent", Needs::nothing, [&](State& state) {
    Context& popped = state.contexts.pop();
    if (context != nullptr) *context = handle_of(popped);
  });
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  return run_driver_call("cuCtxGetCurrent", Needs::nothing, [&](State& state) {
    *required(context, "pctx") = reinterpret_cast<CUcontext>(state.contexts.current());
  });
}

CUresult cuCtxGetDevice(CUdevice* device) {
  // Programs ask so whether there is a context: no is an answer, of which nothing is printed.
  const CUresult asked = run_driver_call("cuCtxGetDevice", Needs::nothing, [](State& state) {
    if (state.contexts.current() == nullptr) throw ApiError(cudaErrorDeviceUninitialized, "");
  });
  if (asked != CUDA_SUCCESS) return asked;
  return run_driver_call("cuCtxGetDevice", Needs::device, [&](State&) { *required(device, "device") = 0; });
}
CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext context) {
  return run_driver_call("cuCtxGetDevice", Needs::nothing, [&](State& state) {
    named_or_current(state, context);
    *required(device, "device") = 0;
  });
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned* version) {
  constexpr unsigned kContextApiVersion = 3020;  // what an H200's driver returns
  return run_driver_call("cuCtxGetApiVersion", Needs::nothing, [&](State& state) {
    named_or_current(state, context);
    *required(version, "version") = kContextApiVersion;
  });
}

CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
  return run_driver_call("cuCtxGetId", Needs::nothing,
                         [&](State& state) { *required(id, "ctxId") = named_or_current(state, context).id; });
}

// Flags only tune how the host waits. The primary context has the device's flags.
CUresult cuCtxGetFlags(unsigned* flags) {
  return run_driver_call("cuCtxGetFlags", Needs::device, [&](State& state) {
    const Context& current = *state.contexts.current();
    *required(flags, "flags") = current.flags;
  });
}
CUresult cuCtxSetFlags(unsigned flags) {
  return run_driver_call("cuCtxSetFlags", Needs::device, [&](State& state) {
    Context& current = *state.contexts.current();
    current.flags = flags;
  });
}

#undef cuStreamGetCtx
CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  return run_driver_call("cuStreamGetCtx", Needs::device, [&](State& state) {
    state.streams.require(stream);
    *required(context, "pctx") = handle_of(*state.contexts.current());
  });
}
CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext* context, CUgreenCtx* green) {
  if (green != nullptr) *green = nullptr;
  return cuStreamGetCtx(stream, context);
}

// The following belong to the device and are the same in every context.

CUresult cuCtxSynchronize(void) {
  return driver_call_through("cuCtxSynchronize", Needs::device, [] { return cudaDeviceSynchronize(); });
}
CUresult cuCtxSynchronize_v2(CUcontext) { return cuCtxSynchronize(); }

STAGECRAFT_THROUGH(cuCtxSetLimit, cudaDeviceSetLimit)
STAGECRAFT_THROUGH(cuCtxGetLimit, cudaDeviceGetLimit)

CUresult cuCtxSetCacheConfig(CUfunc_cache) {
  return run_driver_call("cuCtxSetCacheConfig", Needs::device, [](State&) {});
}
STAGECRAFT_THROUGH(cuCtxGetCacheConfig, cudaDeviceGetCacheConfig)
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

STAGECRAFT_THROUGH(cuCtxGetStreamPriorityRange, cudaDeviceGetStreamPriorityRange)

CUresult cuCtxEnablePeerAccess(CUcontext, unsigned flags) {
  return driver_call_through("cuCtxEnablePeerAccess", Needs::device,
                             [&] { return cudaDeviceEnablePeerAccess(0, flags); });
}
CUresult cuCtxDisablePeerAccess(CUcontext) {
  return driver_call_through("cuCtxDisablePeerAccess", Needs::device, [] { return cudaDeviceDisablePeerAccess(0); });
}

}  // extern "C"
