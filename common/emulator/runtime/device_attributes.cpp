#include "emulator/runtime/device_attributes.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "emulator/machine/lanes.hpp"

namespace stagecraft::emulator::runtime {
namespace {

constexpr int kConstantBytes = 65536;
constexpr int kLargestInt = std::numeric_limits<int>::max();

}  // namespace

std::optional<int> device_attribute(const machine::Architecture& chip, int attribute) {
  if (attribute < 1 || attribute >= cudaDevAttrMax) return std::nullopt;
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
    case cudaDevAttrReservedSharedMemoryPerBlock: return number(chip.shared_reserved);
    case cudaDevAttrMaxBlocksPerMultiprocessor: return number(chip.blocks_per_multiprocessor);
    case cudaDevAttrAsyncEngineCount: return 3;
    case cudaDevAttrSingleToDoublePrecisionPerfRatio: return 2;
    case cudaDevAttrMemSyncDomainCount: return 4;
    case cudaDevAttrHostNumaId: return -1;
    case cudaDevAttrGpuOverlap:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrGlobalL1CacheSupported:
    case cudaDevAttrLocalL1CacheSupported:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrClusterLaunch: return 1;
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
  properties.reservedSharedMemPerBlock = chip.shared_reserved;
  properties.memoryPoolsSupported = value(cudaDevAttrMemoryPoolsSupported);
  properties.clusterLaunch = value(cudaDevAttrClusterLaunch);
  properties.hostNumaId = value(cudaDevAttrHostNumaId);
  return properties;
}

}  // namespace stagecraft::emulator::runtime
