// The driver API: modules, functions, launches, tensor maps.
#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include "emulator/fatbin/bytes.hpp"
#include "emulator/fatbin/container.hpp"
#include "emulator/fatbin/locate.hpp"
#include "emulator/runtime/driver_calls.hpp"
#include "emulator/runtime/launch.hpp"
#include "emulator/runtime/occupancy.hpp"
#include "emulator/runtime/state.hpp"
#include "emulator/units/tensor_map.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// A copy of what the program passes as an image: a fat binary, its wrapper, machine code, or PTX text.
std::string copy_image(const void* image) {
  std::span<const std::byte> bytes = fatbin::readable_from(required(image, "image"));
  if (bytes.empty()) {
    throw ApiError(cudaErrorInvalidValue, fmt::format("the image {} cannot be read", fmt::ptr(image)));
  }
  try {
    const auto* text = reinterpret_cast<const char*>(bytes.data());
    // A text may be shorter than the numbers that the others begin with, none of whose bytes is 0.
    const size_t most = std::min(sizeof(uint32_t), bytes.size());
    const uint32_t magic = strnlen(text, most) < sizeof magic ? 0 : fatbin::read_at<uint32_t>(bytes, 0);
    if (magic == fatbin::kWrapperMagic) {
      bytes = fatbin::container_of_wrapper(image);
    } else if (magic == fatbin::kContainerMagic) {
      const uint64_t size = fatbin::container_size(bytes);
      bytes = bytes.first(std::min<uint64_t>(size, bytes.size()));
    } else {
      bytes = bytes.first(strnlen(text, bytes.size()));
    }
  } catch (const fatbin::Error& error) {
    throw ApiError(cudaErrorInvalidKernelImage, error.what());
  }
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A driver's module is loaded and translated at once, so that its caller learns of what is wrong with it.
Module& load_module(State& state, std::string image) {
  auto module = std::make_unique<Module>(std::move(image));
  module->load_all(state.machine());
  return state.modules.add(std::move(module));
}

Module& require_module(State& state, const void* handle) {
  const auto* module = static_cast<const Module*>(handle);
  if (!state.modules.contains(module)) {
    throw ApiError(cudaErrorInvalidResourceHandle, fmt::format("{} is no module", fmt::ptr(handle)));
  }
  return *const_cast<Module*>(module);
}

Function& find_kernel(State& state, Module& module, const char* name) {
  if (!module.has_kernel(required(name, "name"), state.machine())) {
    throw ApiError(cudaErrorSymbolNotFound,
                   fmt::format("the module has no kernel {}; names are mangled unless declared extern \"C\"", name));
  }
  return module.function(name);
}

/// Runs with `kernelParams` or, when that is null, with the buffer that `extra` describes.
void launch_with(State& state, CUfunction handle, const LaunchConfiguration& configuration, void** parameters,
                 void** extra) {
  Function& function = require_function(state, handle);
  if (extra == nullptr) {
    launch(state, function, configuration, parameters);
    return;
  }
  if (parameters != nullptr) {
    throw ApiError(cudaErrorInvalidValue, "both kernelParams and extra are given; one must be null");
  }
  const std::byte* buffer = nullptr;
  size_t size = 0;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      buffer = static_cast<const std::byte*>(extra[1]);
    } else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      size = *static_cast<const size_t*>(required(extra[1], "the size in extra"));
    } else {
      throw ApiError(cudaErrorInvalidValue,
                     "extra holds CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE and "
                     "ends with CU_LAUNCH_PARAM_END, and nothing else");
    }
  }
  if (buffer == nullptr) size = 0;
  launch_packed(state, function, configuration, {buffer, size});
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

CUresult encode(const char* name, const std::function<units::EncodeResult(State&)>& body) {
  return run_driver_call(name, Needs::nothing, [&](State& state) {
    const units::EncodeResult result = body(state);
    if (result.code != units::kEncodeSuccess) throw ApiError(static_cast<cudaError_t>(result.code), result.message);
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
namespace units = stagecraft::emulator::units;

extern "C" {

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return run_driver_call("cuModuleLoadData", Needs::device, [&](State& state) {
    *required(module, "module") = reinterpret_cast<CUmodule>(&load_module(state, copy_image(image)));
  });
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) {
  return cuModuleLoadData(module, image);
}

CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) { return cuModuleLoadData(module, image); }

CUresult cuModuleLoad(CUmodule* module, const char* path) {
  return run_driver_call("cuModuleLoad", Needs::device, [&](State& state) {
    std::ifstream file(required(path, "fname"), std::ios::binary);
    if (!file) throw ApiError(cudaErrorFileNotFound, fmt::format("{} cannot be opened", path));
    std::string image(std::istreambuf_iterator<char>(file), {});
    *required(module, "module") = reinterpret_cast<CUmodule>(&load_module(state, std::move(image)));
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

CUresult cuLibraryUnload(CUlibrary library) {
  return run_driver_call("cuLibraryUnload", Needs::device, [&](State& state) {
    require_module(state, library);
    state.modules.remove(reinterpret_cast<Module*>(library));
  });
}

CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  return run_driver_call("cuLibraryGetKernel", Needs::device, [&](State& state) {
    *required(kernel, "pKernel") =
        reinterpret_cast<CUkernel>(&find_kernel(state, require_module(state, library), name));
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
  return run_driver_call("cuLaunchKernel", Needs::device, [&](State& state) {
    LaunchConfiguration configuration;
    configuration.grid = {grid_x, grid_y, grid_z};
    configuration.block = {block_x, block_y, block_z};
    configuration.dynamic_shared_bytes = shared_bytes;
    configuration.stream = stream;
    launch_with(state, function, configuration, parameters, extra);
  });
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                   CUstream stream, void** parameters) {
  return run_driver_call("cuLaunchCooperativeKernel", Needs::device, [&](State& state) {
    LaunchConfiguration configuration;
    configuration.grid = {grid_x, grid_y, grid_z};
    configuration.block = {block_x, block_y, block_z};
    configuration.dynamic_shared_bytes = shared_bytes;
    configuration.stream = stream;
    configuration.cooperative = true;
    launch_with(state, function, configuration, parameters, nullptr);
  });
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
  return run_driver_call("cuLaunchKernelEx", Needs::device, [&](State& state) {
    const cudaLaunchConfig_t same = runtime_configuration(*required(config, "config"));
    launch_with(state, function, read_configuration(same), parameters, extra);
    record_launch_events(state, same);
  });
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

CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction function, const CUlaunchConfig* config) {
  return run_driver_call("cuOccupancyMaxActiveClusters", Needs::device, [&](State& state) {
    const cudaLaunchConfig_t same = runtime_configuration(*required(config, "config"));
    *required(clusters, "numClusters") =
        resident_clusters(state, require_function(state, function), read_configuration(same));
  });
}

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType data_type, cuuint32_t rank, void* address,
                                const cuuint64_t* dimensions, const cuuint64_t* strides, const cuuint32_t* box,
                                const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                CUtensorMapFloatOOBfill fill) {
  return encode("cuTensorMapEncodeTiled", [&](State& state) {
    static_assert(sizeof(cuuint64_t) == sizeof(uint64_t) && sizeof(cuuint32_t) == sizeof(uint32_t));
    units::TiledArguments arguments;
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
    return units::encode_tiled(arguments, state.architecture().major);
  });
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                                 const cuuint64_t*, const int*, const int*, cuuint32_t, cuuint32_t, const cuuint32_t*,
                                 CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                                 CUtensorMapFloatOOBfill) {
  return encode("cuTensorMapEncodeIm2col", [](State&) { return units::encode_im2col(); });
}

CUresult cuTensorMapEncodeIm2colWide(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                                     const cuuint64_t*, int, int, cuuint32_t, cuuint32_t, const cuuint32_t*,
                                     CUtensorMapInterleave, CUtensorMapIm2ColWideMode, CUtensorMapSwizzle,
                                     CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  return encode("cuTensorMapEncodeIm2colWide", [](State&) { return units::encode_im2col(); });
}

CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
  return run_driver_call("cuTensorMapReplaceAddress", Needs::nothing, [&](State&) {
    auto changed = std::bit_cast<units::TensorMap>(*required(map, "tensorMap"));
    changed.address = reinterpret_cast<uint64_t>(address);
    const std::string flaw = units::find_flaw(changed);
    if (!flaw.empty()) throw ApiError(cudaErrorInvalidValue, flaw);
    *map = std::bit_cast<CUtensorMap>(changed);
  });
}

}  // extern "C"
