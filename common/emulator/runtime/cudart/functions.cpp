// The runtime API: kernels, their attributes and their occupancy.
#include <fmt/format.h>

#include "emulator/runtime/model/api_call.hpp"
#include "emulator/runtime/model/launch.hpp"
#include "emulator/runtime/model/occupancy.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// Makes the kernel executable.
const machine::Kernel& kernel_of(State& state, Function& function) {
  return function.module->kernel(function, state.machine());
}

}  // namespace
}  // namespace stagecraft::emulator::runtime

using namespace stagecraft::emulator::runtime;
namespace machine = stagecraft::emulator::machine;

extern "C" {

cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* func) {
  return run_call("cudaGetKernel", Needs::nothing, [&](State& state) {
    *required(kernel, "kernelPtr") = reinterpret_cast<cudaKernel_t>(&require_function(state.modules, func));
  });
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* symbol) {
  return run_call("cudaGetFuncBySymbol", Needs::device, [&](State& state) {
    Function& found = require_function(state.modules, symbol);
    kernel_of(state, found);
    *required(function, "functionPtr") = reinterpret_cast<cudaFunction_t>(&found);
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* func) {
  return run_call("cudaFuncGetAttributes", Needs::device, [&](State& state) {
    Function& function = require_function(state.modules, func);
    *required(attributes, "attr") = function_attributes(state.machine(), function);
  });
}

cudaError_t cudaFuncSetAttribute(const void* func, cudaFuncAttribute attribute, int value) {
  return run_call("cudaFuncSetAttribute", Needs::device, [&](State& state) {
    set_function_attribute(state, require_function(state.modules, func), attribute, value);
  });
}

cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attribute, int value, int device) {
  return run_call("cudaKernelSetAttributeForDevice", Needs::device, [&](State& state) {
    check_device(device);
    set_function_attribute(state, require_function(state.modules, reinterpret_cast<const void*>(kernel)), attribute,
                           value);
  });
}

// Shared memory has no banks to configure and no cache to share with.
cudaError_t cudaFuncSetCacheConfig(const void* func, cudaFuncCache config) {
  return run_call("cudaFuncSetCacheConfig", Needs::device, [&](State& state) {
    require_function(state.modules, func);
    check_cache_preference(config);
  });
}

cudaError_t cudaFuncSetSharedMemConfig(const void* func, cudaSharedMemConfig) {
  return run_call("cudaFuncSetSharedMemConfig", Needs::device,
                  [&](State& state) { require_function(state.modules, func); });
}

cudaError_t cudaFuncGetName(const char** name, const void* func) {
  return run_call("cudaFuncGetName", Needs::nothing,
                  [&](State& state) { *required(name, "name") = require_function(state.modules, func).name.c_str(); });
}

cudaError_t cudaFuncGetParamInfo(const void* func, size_t index, size_t* offset, size_t* size) {
  return run_call("cudaFuncGetParamInfo", Needs::device, [&](State& state) {
    const machine::Kernel& kernel = kernel_of(state, require_function(state.modules, func));
    if (index >= kernel.parameters.size()) {
      throw ApiError(cudaErrorInvalidValue, fmt::format("kernel {} has no parameter {}; their number is {}",
                                                        kernel.display_name, index, kernel.parameters.size()));
    }
    *required(offset, "paramOffset") = kernel.parameters[index].offset;
    if (size != nullptr) *size = kernel.parameters[index].size;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* func, int block_size,
                                                                   size_t shared_bytes, unsigned flags) {
  return run_call("cudaOccupancyMaxActiveBlocksPerMultiprocessor", Needs::device, [&](State& state) {
    if (flags != cudaOccupancyDefault && flags != cudaOccupancyDisableCachingOverride) {
      throw ApiError(
          cudaErrorInvalidValue,
          fmt::format("flags are {}; legal are cudaOccupancyDefault and cudaOccupancyDisableCachingOverride", flags));
    }
    *required(blocks, "numBlocks") =
        resident_blocks(state.machine(), require_function(state.modules, func), block_size, shared_bytes);
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* func, int block_size,
                                                          size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, func, block_size, shared_bytes, 0);
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* shared_bytes, const void* func, int blocks,
                                                      int block_size) {
  return run_call("cudaOccupancyAvailableDynamicSMemPerBlock", Needs::device, [&](State& state) {
    *required(shared_bytes, "dynamicSmemSize") =
        available_shared_bytes(state.machine(), require_function(state.modules, func), blocks, block_size);
  });
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int* cluster_size, const void* func,
                                                 const cudaLaunchConfig_t* config) {
  return run_call("cudaOccupancyMaxPotentialClusterSize", Needs::device, [&](State& state) {
    *required(cluster_size, "clusterSize") = largest_cluster(state.machine(), require_function(state.modules, func),
                                                             read_configuration(*required(config, "launchConfig")));
  });
}

cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* func, const cudaLaunchConfig_t* config) {
  return run_call("cudaOccupancyMaxActiveClusters", Needs::device, [&](State& state) {
    *required(clusters, "numClusters") = resident_clusters(state.machine(), require_function(state.modules, func),
                                                           read_configuration(*required(config, "launchConfig")));
  });
}

}  // extern "C"
