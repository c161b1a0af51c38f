#include "emulator/runtime/model/device_attributes.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "emulator/state/lanes.hpp"

namespace stagecraft::emulator::runtime {
namespace {

constexpr int kConstantBytes = 65536;
constexpr int kLargestInt = std::numeric_limits<int>::max();

/// Extents of textures and surfaces. These and the alignment below were measured on an H200 (driver 580), and are
/// assumed to hold for the other chips, too; those that deviceQuery prints are the same on an RTX 5090.
struct Extent {
  int attribute;
  int value;
};
constexpr Extent kTextureExtents[] = {
    {cudaDevAttrMaxTexture1DWidth, 131072},
    {cudaDevAttrMaxTexture2DWidth, 131072},
    {cudaDevAttrMaxTexture2DHeight, 65536},
    {cudaDevAttrMaxTexture3DWidth, 16384},
    {cudaDevAttrMaxTexture3DHeight, 16384},
    {cudaDevAttrMaxTexture3DDepth, 16384},
    {cudaDevAttrMaxTexture2DLayeredWidth, 32768},
    {cudaDevAttrMaxTexture2DLayeredHeight, 32768},
    {cudaDevAttrMaxTexture2DLayeredLayers, 2048},
    {cudaDevAttrMaxTexture1DLayeredWidth, 32768},
    {cudaDevAttrMaxTexture1DLayeredLayers, 2048},
    {cudaDevAttrMaxTexture2DGatherWidth, 32768},
    {cudaDevAttrMaxTexture2DGatherHeight, 32768},
    {cudaDevAttrMaxTexture3DWidthAlt, 8192},
    {cudaDevAttrMaxTexture3DHeightAlt, 8192},
    {cudaDevAttrMaxTexture3DDepthAlt, 32768},
    {cudaDevAttrMaxTextureCubemapWidth, 32768},
    {cudaDevAttrMaxTextureCubemapLayeredWidth, 32768},
    {cudaDevAttrMaxTextureCubemapLayeredLayers, 2046},
    {cudaDevAttrMaxSurface1DWidth, 32768},
    {cudaDevAttrMaxSurface2DWidth, 131072},
    {cudaDevAttrMaxSurface2DHeight, 65536},
    {cudaDevAttrMaxSurface3DWidth, 16384},
    {cudaDevAttrMaxSurface3DHeight, 16384},
    {cudaDevAttrMaxSurface3DDepth, 16384},
    {cudaDevAttrMaxSurface1DLayeredWidth, 32768},
    {cudaDevAttrMaxSurface1DLayeredLayers, 2048},
    {cudaDevAttrMaxSurface2DLayeredWidth, 32768},
    {cudaDevAttrMaxSurface2DLayeredHeight, 32768},
    {cudaDevAttrMaxSurface2DLayeredLayers, 2048},
    {cudaDevAttrMaxSurfaceCubemapWidth, 32768},
    {cudaDevAttrMaxSurfaceCubemapLayeredWidth, 32768},
    {cudaDevAttrMaxSurfaceCubemapLayeredLayers, 2046},
    {cudaDevAttrMaxTexture1DLinearWidth, 268435456},
    {cudaDevAttrMaxTexture2DLinearWidth, 131072},
    {cudaDevAttrMaxTexture2DLinearHeight, 65000},
    {cudaDevAttrMaxTexture2DLinearPitch, 2097120},
    {cudaDevAttrMaxTexture2DMipmappedWidth, 32768},
    {cudaDevAttrMaxTexture2DMipmappedHeight, 32768},
    {cudaDevAttrMaxTexture1DMipmappedWidth, 32768},
};

/// This much of the L2 cache may be set aside (measured on an H200: 37.5 of 60 MiB; as on an A100). What an RTX 50
/// reports is not known here.
constexpr uint64_t kPersistingEighths = 5;
constexpr int kLargestAccessWindow = 128 << 20;  // measured on an H200

}  // namespace

std::optional<int> device_attribute(const machine::Architecture& chip, int attribute) {
  if (attribute < 1 || attribute >= cudaDevAttrMax) return std::nullopt;
  for (const Extent& extent : kTextureExtents) {
    if (extent.attribute == attribute) return extent.value;
  }
  const auto number = [](uint64_t value) { return static_cast<int>(std::min<uint64_t>(value, kLargestInt)); };
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY: return number(chip.threads_per_block);
    case cudaDevAttrMaxBlockDimZ: return 64;
    case cudaDevAttrMaxGridDimX: return kLargestInt;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ: return 65535;
    case cudaDevAttrMaxSharedMemoryPerBlock: return number(chip.shared_per_block);
    case cudaDevAttrTotalConstantMemory: return kConstantBytes;
    case cudaDevAttrWarpSize: return machine::kWarpSize;
    case cudaDevAttrMaxPitch: return kLargestInt;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor: return number(chip.registers_per_multiprocessor);
    case cudaDevAttrClockRate: return number(chip.clock_khz);
    case cudaDevAttrMultiProcessorCount: return number(chip.multiprocessors);
    case cudaDevAttrMemoryClockRate: return number(chip.memory_clock_khz);
    case cudaDevAttrGlobalMemoryBusWidth: return number(chip.memory_bus_bits);
    case cudaDevAttrL2CacheSize: return number(chip.l2_bytes);
    case cudaDevAttrMaxThreadsPerMultiProcessor: return number(chip.threads_per_multiprocessor);
    case cudaDevAttrComputeCapabilityMajor: return number(chip.major);
    case cudaDevAttrComputeCapabilityMinor: return number(chip.minor);
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: return number(chip.shared_per_multiprocessor);
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: return number(chip.shared_per_block_optin);
    case cudaDevAttrReservedSharedMemoryPerBlock: return number(machine::kSharedReservedBytes);
    case cudaDevAttrMaxBlocksPerMultiprocessor: return number(chip.blocks_per_multiprocessor);
    case cudaDevAttrAsyncEngineCount: return number(chip.copy_engines);
    case cudaDevAttrIntegrated: return chip.integrated;
    case cudaDevAttrSingleToDoublePrecisionPerfRatio: return number(chip.singles_per_double);
    case cudaDevAttrMemSyncDomainCount: return 4;
    case cudaDevAttrHostNumaId: return -1;
    case cudaDevAttrTextureAlignment: return 512;
    case cudaDevAttrTexturePitchAlignment: return 32;
    case cudaDevAttrSurfaceAlignment: return 512;
    case cudaDevAttrMaxPersistingL2CacheSize: return number(uint64_t{chip.l2_bytes} * kPersistingEighths / 8);
    case cudaDevAttrMaxAccessPolicyWindowSize: return kLargestAccessWindow;
    case cudaDevAttrGpuOverlap:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrGlobalL1CacheSupported:
    case cudaDevAttrLocalL1CacheSupported:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrComputePreemptionSupported:
    case cudaDevAttrCanUseHostPointerForRegisteredMem:
    case cudaDevAttrHostRegisterSupported:
    case cudaDevAttrHostRegisterReadOnlySupported:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrClusterLaunch: return 1;
    // Among them access to the host's pageable memory, which a DGX Spark has: here kernels reach none of it.
    default: return 0;
  }
}

cudaDeviceProp device_properties(const machine::Architecture& chip) {
  const auto value = [&](cudaDeviceAttr attribute) { return device_attribute(chip, attribute).value_or(0); };
  cudaDeviceProp properties{};
  std::strncpy(properties.name, chip.name.c_str(), sizeof properties.name - 1);
  std::memcpy(properties.uuid.bytes, "stagecraft-emu0", sizeof properties.uuid.bytes);
  properties.totalGlobalMem = chip.memory_bytes;
  properties.sharedMemPerBlock = chip.shared_per_block;
  properties.regsPerBlock = value(cudaDevAttrMaxRegistersPerBlock);
  properties.warpSize = value(cudaDevAttrWarpSize);
  properties.memPitch = static_cast<size_t>(value(cudaDevAttrMaxPitch));
  properties.maxThreadsPerBlock = value(cudaDevAttrMaxThreadsPerBlock);
  properties.maxThreadsDim[0] = value(cudaDevAttrMaxBlockDimX);
  properties.maxThreadsDim[1] = value(cudaDevAttrMaxBlockDimY);
  properties.maxThreadsDim[2] = value(cudaDevAttrMaxBlockDimZ);
  properties.maxGridSize[0] = value(cudaDevAttrMaxGridDimX);
  properties.maxGridSize[1] = value(cudaDevAttrMaxGridDimY);
  properties.maxGridSize[2] = value(cudaDevAttrMaxGridDimZ);
  properties.totalConstMem = static_cast<size_t>(value(cudaDevAttrTotalConstantMemory));
  properties.major = value(cudaDevAttrComputeCapabilityMajor);
  properties.minor = value(cudaDevAttrComputeCapabilityMinor);
  properties.multiProcessorCount = value(cudaDevAttrMultiProcessorCount);
  properties.canMapHostMemory = value(cudaDevAttrCanMapHostMemory);
  properties.concurrentKernels = value(cudaDevAttrConcurrentKernels);
  properties.asyncEngineCount = value(cudaDevAttrAsyncEngineCount);
  properties.unifiedAddressing = value(cudaDevAttrUnifiedAddressing);
  properties.integrated = value(cudaDevAttrIntegrated);
  properties.memoryBusWidth = value(cudaDevAttrGlobalMemoryBusWidth);
  properties.l2CacheSize = value(cudaDevAttrL2CacheSize);
  properties.maxThreadsPerMultiProcessor = value(cudaDevAttrMaxThreadsPerMultiProcessor);
  properties.streamPrioritiesSupported = value(cudaDevAttrStreamPrioritiesSupported);
  properties.globalL1CacheSupported = value(cudaDevAttrGlobalL1CacheSupported);
  properties.localL1CacheSupported = value(cudaDevAttrLocalL1CacheSupported);
  properties.sharedMemPerMultiprocessor = chip.shared_per_multiprocessor;
  properties.regsPerMultiprocessor = value(cudaDevAttrMaxRegistersPerMultiprocessor);
  properties.managedMemory = value(cudaDevAttrManagedMemory);
  properties.concurrentManagedAccess = value(cudaDevAttrConcurrentManagedAccess);
  properties.cooperativeLaunch = value(cudaDevAttrCooperativeLaunch);
  properties.sharedMemPerBlockOptin = chip.shared_per_block_optin;
  properties.maxBlocksPerMultiProcessor = value(cudaDevAttrMaxBlocksPerMultiprocessor);
  properties.reservedSharedMemPerBlock = machine::kSharedReservedBytes;
  properties.memoryPoolsSupported = value(cudaDevAttrMemoryPoolsSupported);
  properties.clusterLaunch = value(cudaDevAttrClusterLaunch);
  properties.textureAlignment = static_cast<size_t>(value(cudaDevAttrTextureAlignment));
  properties.texturePitchAlignment = static_cast<size_t>(value(cudaDevAttrTexturePitchAlignment));
  properties.surfaceAlignment = static_cast<size_t>(value(cudaDevAttrSurfaceAlignment));
  properties.maxTexture1D = value(cudaDevAttrMaxTexture1DWidth);
  properties.persistingL2CacheMaxSize = value(cudaDevAttrMaxPersistingL2CacheSize);
  properties.accessPolicyMaxWindowSize = value(cudaDevAttrMaxAccessPolicyWindowSize);
  properties.computePreemptionSupported = value(cudaDevAttrComputePreemptionSupported);
  properties.canUseHostPointerForRegisteredMem = value(cudaDevAttrCanUseHostPointerForRegisteredMem);
  properties.hostRegisterSupported = value(cudaDevAttrHostRegisterSupported);
  properties.hostRegisterReadOnlySupported = value(cudaDevAttrHostRegisterReadOnlySupported);
  properties.maxTexture2D[0] = value(cudaDevAttrMaxTexture2DWidth);
  properties.maxTexture2D[1] = value(cudaDevAttrMaxTexture2DHeight);
  properties.maxTexture3D[0] = value(cudaDevAttrMaxTexture3DWidth);
  properties.maxTexture3D[1] = value(cudaDevAttrMaxTexture3DHeight);
  properties.maxTexture3D[2] = value(cudaDevAttrMaxTexture3DDepth);
  properties.maxTexture1DLayered[0] = value(cudaDevAttrMaxTexture1DLayeredWidth);
  properties.maxTexture1DLayered[1] = value(cudaDevAttrMaxTexture1DLayeredLayers);
  properties.maxTexture2DLayered[0] = value(cudaDevAttrMaxTexture2DLayeredWidth);
  properties.maxTexture2DLayered[1] = value(cudaDevAttrMaxTexture2DLayeredHeight);
  properties.maxTexture2DLayered[2] = value(cudaDevAttrMaxTexture2DLayeredLayers);
  properties.hostNumaId = value(cudaDevAttrHostNumaId);
  return properties;
}

}  // namespace stagecraft::emulator::runtime
