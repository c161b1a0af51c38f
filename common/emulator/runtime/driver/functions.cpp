// The driver API: kernels and their attributes.
#include <fmt/format.h>

#include "emulator/runtime/driver/runtime_calls.hpp"
#include "emulator/runtime/model/api_call.hpp"
#include "emulator/runtime/model/launch.hpp"
#include "emulator/runtime/model/occupancy.hpp"

namespace stagecraft::emulator::runtime {
namespace {

int function_attribute(State& state, Function& function, CUfunction_attribute attribute) {
  const cudaFuncAttributes all = function_attributes(state.machine(), function);
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return all.maxThreadsPerBlock;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: return static_cast<int>(all.sharedSizeBytes);
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: return static_cast<int>(all.constSizeBytes);
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: return static_cast<int>(all.localSizeBytes);
    case CU_FUNC_ATTRIBUTE_NUM_REGS: return all.numRegs;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: return all.ptxVersion;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: return all.binaryVersion;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA: return all.cacheModeCA;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: return all.maxDynamicSharedSizeBytes;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: return all.preferredShmemCarveout;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET: return all.clusterDimMustBeSet;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH: return all.requiredClusterWidth;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT: return all.requiredClusterHeight;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: return all.requiredClusterDepth;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED: return all.nonPortableClusterSizeAllowed;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: return all.clusterSchedulingPolicyPreference;
    default:
      throw ApiError(cudaErrorInvalidValue,
                     fmt::format("there is no function attribute {}", static_cast<int>(attribute)));
  }
}

}  // namespace
}  // namespace stagecraft::emulator::runtime

using namespace stagecraft::emulator::runtime;

extern "C" {

CUresult cuFuncIsLoaded(CUfunctionLoadingState* loading, CUfunction function) {
  return run_driver_call("cuFuncIsLoaded", Needs::device, [&](State& state) {
    *required(loading, "state") = require_function(state.modules, function).kernel != nullptr
                                      ? CU_FUNCTION_LOADING_STATE_LOADED
                                      : CU_FUNCTION_LOADING_STATE_UNLOADED;
  });
}

CUresult cuFuncLoad(CUfunction function) {
  return run_driver_call("cuFuncLoad", Needs::device, [&](State& state) {
    Function& found = require_function(state.modules, function);
    found.module->kernel(found, state.machine());
  });
}

CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  return run_driver_call("cuKernelGetFunction", Needs::device, [&](State& state) {
    Function& found = require_function(state.modules, kernel);
    found.module->kernel(found, state.machine());
    *required(function, "pFunc") = reinterpret_cast<CUfunction>(&found);
  });
}

CUresult cuKernelGetName(const char** name, CUkernel kernel) {
  return driver_call_through("cuKernelGetName", Needs::nothing, [&] { return cudaFuncGetName(name, kernel); });
}

CUresult cuFuncGetName(const char** name, CUfunction function) {
  return driver_call_through("cuFuncGetName", Needs::nothing, [&] { return cudaFuncGetName(name, function); });
}

STAGECRAFT_THROUGH(cuFuncGetParamInfo, cudaFuncGetParamInfo)

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  return run_driver_call("cuFuncGetAttribute", Needs::device, [&](State& state) {
    *required(value, "pi") = function_attribute(state, require_function(state.modules, function), attribute);
  });
}

CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device) {
  return run_driver_call("cuKernelGetAttribute", Needs::device, [&](State& state) {
    check_device(device);
    *required(value, "pi") = function_attribute(state, require_function(state.modules, kernel), attribute);
  });
}

STAGECRAFT_THROUGH(cuKernelGetParamInfo, cudaFuncGetParamInfo)

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache, CUdevice device) {
  return run_driver_call("cuKernelSetCacheConfig", Needs::device, [&](State& state) {
    check_device(device);
    require_function(state.modules, kernel);
  });
}

CUresult cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig) {
  return run_driver_call("cuFuncSetSharedMemConfig", Needs::device,
                         [&](State& state) { require_function(state.modules, function); });
}

STAGECRAFT_THROUGH(cuFuncSetAttribute, cudaFuncSetAttribute)

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device) {
  return driver_call_through("cuKernelSetAttribute", Needs::device, [&] {
    return cudaKernelSetAttributeForDevice(reinterpret_cast<cudaKernel_t>(kernel),
                                           static_cast<cudaFuncAttribute>(attribute), value, device);
  });
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config) {
  return run_driver_call("cuFuncSetCacheConfig", Needs::device, [&](State& state) {
    require_function(state.modules, function);
    check_cache_preference(config);
  });
}

}  // extern "C"
