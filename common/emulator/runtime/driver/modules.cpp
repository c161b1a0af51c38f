// The driver API: modules, functions, launches, tensor maps.
#include <fmt/format.h>

#include <bit>

#include "emulator/engines/copies/tensor_map.hpp"
#include "emulator/runtime/driver/runtime_calls.hpp"
#include "emulator/runtime/model/code_images.hpp"
#include "emulator/runtime/model/jit_log.hpp"
#include "emulator/runtime/model/launch.hpp"
#include "emulator/runtime/model/occupancy.hpp"
#include "emulator/runtime/model/state.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// With `kernelParams` or, when that is null, with the buffer that `extra` describes.
CUresult launch_for(const char* name, CUfunction function, const std::function<LaunchConfiguration()>& configuration,
                    void** parameters, void** extra) {
  return run_driver_call(name, Needs::device, [&](State& state) {
    submit_launch(state, prepare_launch(state, function, configuration(), parameters, extra));
  });
}

int function_attribute(State& state, Function& function, CUfunction_attribute attribute) {
  const cudaFuncAttributes all = function_attributes(state, function);
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

/// A module belongs to the current context, unlike a library.
CUmodule load_into_context(State& state, std::string image) {
  Module& module = load_module(state, std::move(image));
  module.context = state.contexts.current();
  return reinterpret_cast<CUmodule>(&module);
}

CUresult encode(const char* name, const std::function<machine::EncodeResult(State&)>& body) {
  return run_driver_call(name, Needs::nothing, [&](State& state) {
    const machine::EncodeResult result = body(state);
    if (result.code != machine::kEncodeSuccess) throw ApiError(static_cast<cudaError_t>(result.code), result.message);
  });
}

/// The driver's copy of a launch configuration as the runtime's; the attributes are the same type.
cudaLaunchConfig_t runtime_configuration(const CUlaunchConfig& config) {
  static_assert(sizeof(CUlaunchAttribute) == sizeof(cudaLaunchAttribute));
  cudaLaunchConfig_t result{};
  result.gridDim = {config.gridDimX, config.gridDimY, config.gridDimZ};
  result.blockDim = {config.blockDimX, config.blockDimY, config.blockDimZ};
  result.dynamicSmemBytes = config.sharedMemBytes;
  result.stream = config.hStream;
  result.attrs = reinterpret_cast<cudaLaunchAttribute*>(config.attrs);
  result.numAttrs = config.numAttrs;
  return result;
}

}  // namespace
}  // namespace stagecraft::emulator::runtime

using namespace stagecraft::emulator::runtime;
namespace machine = stagecraft::emulator::machine;

extern "C" {

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return run_driver_call("cuModuleLoadData", Needs::device, [&](State& state) {
    *required(module, "module") = load_into_context(state, copy_image(image));
  });
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count, CUjit_option* options, void** values) {
  JitLog log(count, options, values);
  return run_driver_call("cuModuleLoadDataEx", Needs::device, [&](State& state) {
    with_log(log, [&] { *required(module, "module") = load_into_context(state, copy_image(image)); });
  });
}

CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) { return cuModuleLoadData(module, image); }

CUresult cuModuleLoad(CUmodule* module, const char* path) {
  return run_driver_call("cuModuleLoad", Needs::device, [&](State& state) {
    *required(module, "module") = load_into_context(state, read_image(required(path, "fname")));
  });
}

CUresult cuModuleUnload(CUmodule module) {
  return run_driver_call("cuModuleUnload", Needs::device, [&](State& state) {
    require_module(state, module);
    state.modules.remove(reinterpret_cast<Module*>(module));
  });
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  return run_driver_call("cuModuleGetFunction", Needs::device, [&](State& state) {
    Function& found = find_kernel(state, require_module(state, module), name);
    found.module->kernel(found, state.machine());
    *required(function, "hfunc") = reinterpret_cast<CUfunction>(&found);
  });
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr* pointer, size_t* bytes, CUmodule module, const char* name) {
  return run_driver_call("cuModuleGetGlobal", Needs::device, [&](State& state) {
    const Symbol symbol = require_module(state, module).symbol(required(name, "name"), state.machine());
    if (pointer != nullptr) *pointer = symbol.address;
    if (bytes != nullptr) *bytes = symbol.size;
  });
}

CUresult cuLibraryLoadData(CUlibrary* library, const void* image, CUjit_option*, void**, unsigned, CUlibraryOption*,
                           void**, unsigned) {
  return run_driver_call("cuLibraryLoadData", Needs::device, [&](State& state) {
    *required(library, "library") = reinterpret_cast<CUlibrary>(&load_module(state, copy_image(image)));
  });
}

CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option*, void**, unsigned, CUlibraryOption*,
                               void**, unsigned) {
  return through<cudaLibraryLoadFromFile>("cuLibraryLoadFromFile", library, path, nullptr, nullptr, 0u, nullptr,
                                          nullptr, 0u);
}
CUresult cuLibraryUnload(CUlibrary library) { return through<cudaLibraryUnload>("cuLibraryUnload", library); }
CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  return through<cudaLibraryGetKernel>("cuLibraryGetKernel", kernel, library, name);
}
CUresult cuLibraryGetGlobal(CUdeviceptr* pointer, size_t* bytes, CUlibrary library, const char* name) {
  return through<cudaLibraryGetGlobal>("cuLibraryGetGlobal", reinterpret_cast<void**>(pointer), bytes, library, name);
}
CUresult cuLibraryGetManaged(CUdeviceptr* pointer, size_t* bytes, CUlibrary library, const char* name) {
  return through<cudaLibraryGetManaged>("cuLibraryGetManaged", reinterpret_cast<void**>(pointer), bytes, library, name);
}
CUresult cuLibraryGetKernelCount(unsigned* count, CUlibrary library) {
  return through<cudaLibraryGetKernelCount>("cuLibraryGetKernelCount", count, library);
}
CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned count, CUlibrary library) {
  return through<cudaLibraryEnumerateKernels>("cuLibraryEnumerateKernels", kernels, count, library);
}
CUresult cuModuleGetFunctionCount(unsigned* count, CUmodule module) {
  return through<cudaLibraryGetKernelCount>("cuModuleGetFunctionCount", count, reinterpret_cast<cudaLibrary_t>(module));
}
CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned count, CUmodule module) {
  return through<cudaLibraryEnumerateKernels>("cuModuleEnumerateFunctions", reinterpret_cast<cudaKernel_t*>(functions),
                                              count, reinterpret_cast<cudaLibrary_t>(module));
}
// A library and its module are one.
CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library) {
  return run_driver_call("cuLibraryGetModule", Needs::device, [&](State& state) {
    *required(module, "pMod") = reinterpret_cast<CUmodule>(&require_module(state, library));
  });
}
CUresult cuKernelGetLibrary(CUlibrary* library, CUkernel kernel) {
  return run_driver_call("cuKernelGetLibrary", Needs::device, [&](State& state) {
    *required(library, "pLib") = reinterpret_cast<CUlibrary>(require_function(state, kernel).module);
  });
}
CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_EAGER_LOADING;
  return CUDA_SUCCESS;
}
CUresult cuFuncIsLoaded(CUfunctionLoadingState* loading, CUfunction function) {
  return run_driver_call("cuFuncIsLoaded", Needs::device, [&](State& state) {
    *required(loading, "state") = require_function(state, function).kernel != nullptr
                                      ? CU_FUNCTION_LOADING_STATE_LOADED
                                      : CU_FUNCTION_LOADING_STATE_UNLOADED;
  });
}
CUresult cuFuncLoad(CUfunction function) {
  return run_driver_call("cuFuncLoad", Needs::device, [&](State& state) {
    Function& found = require_function(state, function);
    found.module->kernel(found, state.machine());
  });
}

CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  return run_driver_call("cuKernelGetFunction", Needs::device, [&](State& state) {
    Function& found = require_function(state, kernel);
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

CUresult cuFuncGetModule(CUmodule* module, CUfunction function) {
  return run_driver_call("cuFuncGetModule", Needs::device, [&](State& state) {
    *required(module, "hmod") = reinterpret_cast<CUmodule>(require_function(state, function).module);
  });
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t* offset, size_t* size) {
  return driver_call_through("cuFuncGetParamInfo", Needs::device,
                             [&] { return cudaFuncGetParamInfo(function, index, offset, size); });
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  return run_driver_call("cuFuncGetAttribute", Needs::device, [&](State& state) {
    *required(value, "pi") = function_attribute(state, require_function(state, function), attribute);
  });
}

CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device) {
  return run_driver_call("cuKernelGetAttribute", Needs::device, [&](State& state) {
    check_device(device);
    *required(value, "pi") = function_attribute(state, require_function(state, kernel), attribute);
  });
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t* offset, size_t* size) {
  return driver_call_through("cuKernelGetParamInfo", Needs::device,
                             [&] { return cudaFuncGetParamInfo(kernel, index, offset, size); });
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache, CUdevice device) {
  return run_driver_call("cuKernelSetCacheConfig", Needs::device, [&](State& state) {
    check_device(device);
    require_function(state, kernel);
  });
}

CUresult cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig) {
  return run_driver_call("cuFuncSetSharedMemConfig", Needs::device,
                         [&](State& state) { require_function(state, function); });
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  return driver_call_through("cuFuncSetAttribute", Needs::device, [&] {
    return cudaFuncSetAttribute(function, static_cast<cudaFuncAttribute>(attribute), value);
  });
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device) {
  return driver_call_through("cuKernelSetAttribute", Needs::device, [&] {
    return cudaKernelSetAttributeForDevice(reinterpret_cast<cudaKernel_t>(kernel),
                                           static_cast<cudaFuncAttribute>(attribute), value, device);
  });
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache) {
  return run_driver_call("cuFuncSetCacheConfig", Needs::device,
                         [&](State& state) { require_function(state, function); });
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void** parameters,
                        void** extra) {
  return launch_for(
      "cuLaunchKernel", function,
      [&] {
        return plain_configuration({grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, stream);
      },
      parameters, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                   CUstream stream, void** parameters) {
  return launch_for(
      "cuLaunchCooperativeKernel", function,
      [&] {
        return plain_configuration({grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, stream, true);
      },
      parameters, nullptr);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
  return launch_for(
      "cuLaunchKernelEx", function,
      [&] { return read_configuration(runtime_configuration(*required(config, "config"))); }, parameters, extra);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  return driver_call_through("cuLaunchHostFunc", Needs::device,
                             [&] { return cudaLaunchHostFunc(stream, function, data); });
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int block_size,
                                                     size_t shared_bytes) {
  return driver_call_through("cuOccupancyMaxActiveBlocksPerMultiprocessor", Needs::device, [&] {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, block_size, shared_bytes);
  });
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction function, int block_size,
                                                              size_t shared_bytes, unsigned flags) {
  return driver_call_through("cuOccupancyMaxActiveBlocksPerMultiprocessor", Needs::device, [&] {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size, shared_bytes, flags);
  });
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* shared_bytes, CUfunction function, int blocks,
                                                 int block_size) {
  return driver_call_through("cuOccupancyAvailableDynamicSMemPerBlock", Needs::device, [&] {
    return cudaOccupancyAvailableDynamicSMemPerBlock(shared_bytes, function, blocks, block_size);
  });
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* least_grid, int* block_size, CUfunction function,
                                                   CUoccupancyB2DSize shared_bytes_of_block, size_t shared_bytes,
                                                   int most, unsigned) {
  return run_driver_call("cuOccupancyMaxPotentialBlockSize", Needs::device, [&](State& state) {
    const BestBlock best = best_block_size(state, require_function(state, function), most, [&](int threads) {
      return shared_bytes_of_block == nullptr ? shared_bytes : shared_bytes_of_block(threads);
    });
    *required(least_grid, "minGridSize") = best.grid;
    *required(block_size, "blockSize") = best.threads;
  });
}

CUresult cuOccupancyMaxPotentialBlockSize(int* least_grid, int* block_size, CUfunction function,
                                          CUoccupancyB2DSize shared_bytes_of_block, size_t shared_bytes, int most) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(least_grid, block_size, function, shared_bytes_of_block,
                                                   shared_bytes, most, 0);
}

CUresult cuOccupancyMaxPotentialClusterSize(int* cluster_size, CUfunction function, const CUlaunchConfig* config) {
  return run_driver_call("cuOccupancyMaxPotentialClusterSize", Needs::device, [&](State& state) {
    const cudaLaunchConfig_t same_configuration = runtime_configuration(*required(config, "config"));
    *required(cluster_size, "clusterSize") =
        largest_cluster(state, require_function(state, function), read_configuration(same_configuration));
  });
}

CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction function, const CUlaunchConfig* config) {
  return run_driver_call("cuOccupancyMaxActiveClusters", Needs::device, [&](State& state) {
    const cudaLaunchConfig_t same_configuration = runtime_configuration(*required(config, "config"));
    *required(clusters, "numClusters") =
        resident_clusters(state, require_function(state, function), read_configuration(same_configuration));
  });
}

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType data_type, cuuint32_t rank, void* address,
                                const cuuint64_t* dimensions, const cuuint64_t* strides, const cuuint32_t* box,
                                const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                CUtensorMapFloatOOBfill fill) {
  return encode("cuTensorMapEncodeTiled", [&](State& state) {
    static_assert(sizeof(cuuint64_t) == sizeof(uint64_t) && sizeof(cuuint32_t) == sizeof(uint32_t));
    machine::TiledArguments arguments;
    arguments.tensor_map = map;
    arguments.data_type = data_type;
    arguments.rank = rank;
    arguments.global_address = reinterpret_cast<uint64_t>(address);
    arguments.global_dim = dimensions;
    arguments.global_strides = strides;
    arguments.box_dim = box;
    arguments.element_strides = element_strides;
    arguments.interleave = interleave;
    arguments.swizzle = swizzle;
    arguments.l2_promotion = promotion;
    arguments.oob_fill = fill;
    return machine::encode_tiled(arguments, state.architecture().major);
  });
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                                 const cuuint64_t*, const int*, const int*, cuuint32_t, cuuint32_t, const cuuint32_t*,
                                 CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                                 CUtensorMapFloatOOBfill) {
  return encode("cuTensorMapEncodeIm2col", [](State&) { return machine::encode_im2col(); });
}

CUresult cuTensorMapEncodeIm2colWide(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                                     const cuuint64_t*, int, int, cuuint32_t, cuuint32_t, const cuuint32_t*,
                                     CUtensorMapInterleave, CUtensorMapIm2ColWideMode, CUtensorMapSwizzle,
                                     CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  return encode("cuTensorMapEncodeIm2colWide", [](State&) { return machine::encode_im2col(); });
}

CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
  return run_driver_call("cuTensorMapReplaceAddress", Needs::nothing, [&](State&) {
    auto changed = std::bit_cast<machine::TensorMap>(*required(map, "tensorMap"));
    changed.address = reinterpret_cast<uint64_t>(address);
    const std::string flaw = machine::find_flaw(changed);
    if (!flaw.empty()) throw ApiError(cudaErrorInvalidValue, flaw);
    *map = std::bit_cast<CUtensorMap>(changed);
  });
}

}  // extern "C"
