// What the runtime knows of memory beyond the allocations, which machine::DeviceMemory has.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "emulator/runtime/model/arrays.hpp"
#include "emulator/runtime/model/cuda_headers.hpp"
#include "emulator/runtime/model/memory_pools.hpp"

namespace stagecraft::emulator::runtime {

/// What cudaMemAdvise and cudaMemPrefetchAsync have said about a managed allocation. Only queries use it.
struct MemoryAdvice {
  bool read_mostly = false, accessed_by_device = false, accessed_by_host = false;
  cudaMemLocation preferred{cudaMemLocationTypeInvalid, 0};
  cudaMemLocation last_prefetch{cudaMemLocationTypeInvalid, 0};
};

struct MemoryRecords {
  MemoryPools pools;
  Arrays arrays;
  std::unordered_map<uint64_t, MemoryAdvice> advice;  ///< of managed memory, by address
  std::unordered_map<uint64_t, unsigned> host_flags;  ///< of cudaHostAlloc and cudaHostRegister, by address
  uint64_t allocations = 0;                           ///< so far, for labels

  /// Forgets what was freed.
  void freed(uint64_t address) {
    host_flags.erase(address);
    advice.erase(address);
    pools.freed(address);
  }
  void reset() {
    pools.reset();
    arrays.reset();
    advice.clear();
    host_flags.clear();
  }
};

}  // namespace stagecraft::emulator::runtime
