// The driver API: initialisation, errors and the device.
#include <fmt/format.h>

#include <cstring>

#include "emulator/runtime/model/api_call.hpp"
#include "emulator/runtime/model/device_attributes.hpp"

using namespace stagecraft::emulator::runtime;

extern "C" {

CUresult cuInit(unsigned flags) {
  const CUresult result = run_driver_call("cuInit", Needs::no_driver, [&](State& state) {
    check_no_flags(flags);
    state.initialise_driver();
  });
  // Notes which process it is that has a driver now, and refuses a copy of it.
  return result != CUDA_SUCCESS ? result : run_driver_call("cuInit", Needs::nothing, [](State&) {});
}

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = kCudaVersion;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** name) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  State::instance().refused_work.asked_about(error);
  *name = driver_error_name(error);
  return *name != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  State::instance().refused_work.asked_about(error);
  *text = driver_error_text(error);
  return *text != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
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

CUresult cuProfilerStart(void) {
  return run_driver_call("cuProfilerStart", Needs::device, [](State&) {});
}

CUresult cuProfilerStop(void) {
  return run_driver_call("cuProfilerStop", Needs::device, [](State&) {});
}

// The emulated GPU keeps no log: it reports what it refuses at once, where the settings say. So a program's function
// for the log's messages, such as PyTorch's, is never called.
CUresult cuLogsRegisterCallback(CUlogsCallback function, void*, CUlogsCallbackHandle* handle) {
  return run_driver_call("cuLogsRegisterCallback", Needs::nothing, [&](State&) {
    static char any_callback;
    required(reinterpret_cast<void*>(function), "callbackFunc");
    if (handle != nullptr) *handle = reinterpret_cast<CUlogsCallbackHandle>(&any_callback);
  });
}
CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle) {
  return run_driver_call("cuLogsUnregisterCallback", Needs::nothing, [](State&) {});
}

CUresult cuDeviceCanAccessPeer(int* can_access, CUdevice device, CUdevice peer) {
  return driver_call_through("cuDeviceCanAccessPeer", Needs::nothing,
                             [&] { return cudaDeviceCanAccessPeer(can_access, device, peer); });
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
