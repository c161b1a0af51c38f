// The runtime API: errors, and the device with its properties and limits.
#include <fmt/format.h>

#include <cstring>
#include <string_view>

#include "emulator/runtime/model/api_call.hpp"
#include "emulator/runtime/model/device_attributes.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// A thread has no more. Measured on an H200 (driver 580): this succeeds, and 524280 does not; 1000 becomes 1008.
constexpr size_t kMostStackBytes = 523264;
constexpr size_t kStackUnit = 16;

/// The limit, or null for one that the emulated GPU does not have.
uint64_t* find_limit(State& state, cudaLimit limit) {
  switch (limit) {
    case cudaLimitStackSize: return &state.limits.stack_bytes;
    case cudaLimitPrintfFifoSize: return &state.limits.printf_bytes;
    case cudaLimitMallocHeapSize: return &state.limits.heap_bytes;
    case cudaLimitDevRuntimePendingLaunchCount: return &state.limits.pending_launches;
    case cudaLimitMaxL2FetchGranularity: return &state.limits.fetch_granularity;
    case cudaLimitPersistingL2CacheSize: return &state.limits.persisting_l2_bytes;
    default: return nullptr;
  }
}

uint64_t& require_limit(State& state, cudaLimit limit) {
  uint64_t* found = find_limit(state, limit);
  if (found == nullptr) {
    throw ApiError(
        limit > cudaLimitPersistingL2CacheSize ? cudaErrorInvalidValue : cudaErrorUnsupportedLimit,
        fmt::format("limit {} is not supported by the emulated GPU; supported are 0 (stack) to 2 (heap) and 4 to 6",
                    static_cast<int>(limit)));
  }
  return *found;
}

}  // namespace
}  // namespace stagecraft::emulator::runtime

using namespace stagecraft::emulator::runtime;

extern "C" {

cudaError_t cudaGetLastError(void) { return take_last_error(); }

cudaError_t cudaPeekAtLastError(void) { return peek_last_error(); }

const char* cudaGetErrorName(cudaError_t error) {
  State::instance().refused_work.asked_about(driver_error(error));
  const char* name = error_name(error);
  return name == nullptr ? "unrecognized error code" : name;
}

const char* cudaGetErrorString(cudaError_t error) {
  State::instance().refused_work.asked_about(driver_error(error));
  const char* text = error_text(error);
  return text == nullptr ? "unrecognized error code" : text;
}

cudaError_t cudaGetDeviceCount(int* count) {
  return run_call("cudaGetDeviceCount", Needs::fork_safe, [&](State& state) {
    require_known_devices();
    state.settings();
    *required(count, "count") = 1;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return run_call("cudaGetDevice", Needs::nothing, [&](State& state) {
    state.settings();
    *required(device, "device") = 0;
  });
}

cudaError_t cudaSetDevice(int device) {
  return run_call("cudaSetDevice", Needs::nothing, [&](State& state) {
    check_device(device);
    state.machine();
    state.contexts.set_current(&state.contexts.primary());
  });
}

cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags) {
  const cudaError_t error = (flags & cudaInitDeviceFlagsAreValid) != 0 ? cudaSetDeviceFlags(device_flags) : cudaSuccess;
  return error != cudaSuccess ? error : cudaSetDevice(device);
}

cudaError_t cudaSetValidDevices(int* devices, int count) {
  return run_call("cudaSetValidDevices", Needs::nothing, [&](State&) {
    for (int index = 0; index < count; ++index) check_device(required(devices, "device_arr")[index]);
  });
}

cudaError_t cudaSetDeviceFlags(unsigned flags) {
  return run_call("cudaSetDeviceFlags", Needs::nothing, [&](State& state) {
    if ((flags & ~unsigned{cudaDeviceMask}) != 0) {
      throw ApiError(cudaErrorInvalidValue,
                     fmt::format("flags 0x{:x}; legal are those of 0x{:x}", flags, unsigned{cudaDeviceMask}));
    }
    state.contexts.primary().flags = flags;
  });
}

cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  return run_call("cudaGetDeviceFlags", Needs::nothing,
                  [&](State& state) { *required(flags, "flags") = state.contexts.primary().flags; });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return run_call("cudaGetDeviceProperties", Needs::fork_safe, [&](State& state) {
    require_known_devices();
    check_device(device);
    *required(properties, "prop") = device_properties(state.architecture());
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return run_call("cudaDeviceGetAttribute", Needs::nothing, [&](State& state) {
    check_device(device);
    const auto known = device_attribute(state.architecture(), attribute);
    if (!known) {
      throw ApiError(cudaErrorInvalidValue,
                     fmt::format("there is no device attribute {}", static_cast<int>(attribute)));
    }
    *required(value, "value") = *known;
  });
}

cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp* properties) {
  return run_call("cudaChooseDevice", Needs::nothing, [&](State&) {
    required(properties, "prop");
    *required(device, "device") = 0;
  });
}

cudaError_t cudaDeviceSynchronize(void) {
  return run_call("cudaDeviceSynchronize", Needs::device, [](State& state) {
    state.streams.forbid_any_capture("waiting");
    state.streams.host_waits_for_all();
  });
}

cudaError_t cudaDeviceReset(void) {
  return run_call("cudaDeviceReset", Needs::nothing, [](State& state) { state.reset(); });
}

cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  return run_call("cudaDeviceSetLimit", Needs::device, [&](State& state) {
    uint64_t& place = require_limit(state, limit);
    if (limit == cudaLimitMallocHeapSize && state.machine().memory().heap_was_used()) {
      throw ApiError(cudaErrorInvalidValue, "a kernel has used malloc: its heap cannot be changed any more");
    }
    if (limit == cudaLimitStackSize && value > kMostStackBytes) {
      throw ApiError(cudaErrorInvalidValue,
                     fmt::format("a stack of {} bytes for each thread; legal are at most {}", value, kMostStackBytes));
    }
    place = limit == cudaLimitStackSize ? (value + kStackUnit - 1) / kStackUnit * kStackUnit : value;
  });
}

cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  return run_call("cudaDeviceGetLimit", Needs::device,
                  [&](State& state) { *required(value, "pValue") = require_limit(state, limit); });
}

// There is no cache to configure.
cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache config) {
  return run_call("cudaDeviceSetCacheConfig", Needs::device, [&](State&) { check_cache_preference(config); });
}

cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config) {
  return run_call("cudaDeviceGetCacheConfig", Needs::device,
                  [&](State&) { *required(config, "pCacheConfig") = cudaFuncCachePreferNone; });
}

cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) {
  return run_call("cudaDeviceSetSharedMemConfig", Needs::device, [](State&) {});
}

cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig* config) {
  return run_call("cudaDeviceGetSharedMemConfig", Needs::device,
                  [&](State&) { *required(config, "pConfig") = cudaSharedMemBankSizeFourByte; });
}

cudaError_t cudaCtxResetPersistingL2Cache(void) {
  return run_call("cudaCtxResetPersistingL2Cache", Needs::device, [](State&) {});
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  return run_call("cudaDeviceGetPCIBusId", Needs::nothing, [&](State&) {
    check_device(device);
    const auto needed = static_cast<int>(std::strlen(kPciBusId) + 1);
    if (length < needed) {
      throw ApiError(cudaErrorInvalidValue, fmt::format("a text of {} characters; {} are needed", length, needed));
    }
    std::memcpy(required(text, "pciBusId"), kPciBusId, static_cast<size_t>(needed));
  });
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  return run_call("cudaDeviceGetByPCIBusId", Needs::nothing, [&](State&) {
    if (std::string_view(required(text, "pciBusId")) != kPciBusId) {
      throw ApiError(cudaErrorInvalidDevice,
                     fmt::format("there is no device at {}; the emulated GPU is at {}", text, kPciBusId));
    }
    *required(device, "device") = 0;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can_access, int device, int peer) {
  return run_call("cudaDeviceCanAccessPeer", Needs::nothing, [&](State&) {
    check_device(device);
    check_device(peer);
    *required(can_access, "canAccessPeer") = 0;
  });
}

cudaError_t cudaDeviceGetP2PAttribute(int*, cudaDeviceP2PAttr attribute, int device, int peer) {
  return run_call("cudaDeviceGetP2PAttribute", Needs::nothing, [&](State&) {
    check_device(device);
    check_device(peer);
    throw ApiError(cudaErrorInvalidDevice,
                   fmt::format("attribute {} is of two different GPUs, and there is one", static_cast<int>(attribute)));
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return run_call("cudaDeviceEnablePeerAccess", Needs::device, [&](State&) {
    check_device(peer);
    check_no_flags(flags);
    throw ApiError(cudaErrorPeerAccessUnsupported, "there is only one emulated GPU, and it is no peer of itself");
  });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return run_call("cudaDeviceDisablePeerAccess", Needs::device, [&](State&) {
    check_device(peer);
    throw ApiError(cudaErrorPeerAccessNotEnabled, "there is only one emulated GPU, and it is no peer of itself");
  });
}

cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}

cudaError_t cudaProfilerStart(void) {
  return run_call("cudaProfilerStart", Needs::device, [](State&) {});
}

cudaError_t cudaProfilerStop(void) {
  return run_call("cudaProfilerStop", Needs::device, [](State&) {});
}

}  // extern "C"
