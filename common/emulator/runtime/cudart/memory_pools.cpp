// The runtime API: allocation in the order of a stream, and memory pools.
#include <fmt/format.h>

#include "emulator/runtime/model/api_call.hpp"
#include "emulator/runtime/model/memory_operations.hpp"
#include "emulator/runtime/model/submission.hpp"

namespace stagecraft::emulator::runtime {
namespace {

void* allocate_in_stream(State& state, size_t bytes, MemoryPool& pool, cudaStream_t stream, const char* name) {
  Stream& target = state.streams.require_for_work(stream);
  if (target.capture != nullptr) {
    AllocateWork work;
    work.memory = std::make_shared<GraphMemory>(state, bytes);
    work.parameters.poolProps.allocType = cudaMemAllocationTypePinned;
    work.parameters.poolProps.location = {cudaMemLocationTypeDevice, 0};
    work.parameters.bytesize = bytes;
    work.parameters.dptr = work.memory->address;
    capture_work(state, target, work);
    return work.memory->address;
  }
  state.memory.pools.check_room(pool, bytes);
  void* memory = allocate(state, bytes, machine::AllocationKind::device, name);
  if (memory != nullptr) state.memory.pools.allocated(pool, reinterpret_cast<uint64_t>(memory), bytes);
  return memory;
}

/// The place of an attribute of 64 bits, or null. Among these only the high marks may be set, and only to 0.
uint64_t* wide_attribute(MemoryPool& pool, cudaMemPoolAttr attribute) {
  switch (attribute) {
    case cudaMemPoolAttrReleaseThreshold: return &pool.release_threshold;
    case cudaMemPoolAttrReservedMemCurrent: return &pool.reserved;
    case cudaMemPoolAttrReservedMemHigh: return &pool.reserved_high;
    case cudaMemPoolAttrUsedMemCurrent: return &pool.used;
    case cudaMemPoolAttrUsedMemHigh: return &pool.used_high;
    default: return nullptr;
  }
}

int* narrow_attribute(MemoryPool& pool, cudaMemPoolAttr attribute) {
  switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies: return &pool.reuse_follow_events;
    case cudaMemPoolReuseAllowOpportunistic: return &pool.reuse_opportunistic;
    case cudaMemPoolReuseAllowInternalDependencies: return &pool.reuse_internal_dependencies;
    default: return nullptr;
  }
}

[[noreturn]] void no_attribute(cudaMemPoolAttr attribute) {
  throw ApiError(cudaErrorInvalidValue,
                 fmt::format("there is no attribute {} of a pool that can be used so", static_cast<int>(attribute)));
}

cudaMemPool_t handle_of(MemoryPool& pool) { return reinterpret_cast<cudaMemPool_t>(&pool); }

}  // namespace
}  // namespace stagecraft::emulator::runtime

using namespace stagecraft::emulator::runtime;

extern "C" {

cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
  return run_call("cudaMallocAsync", Needs::device, [&](State& state) {
    *required(pointer, "devPtr") =
        allocate_in_stream(state, bytes, state.memory.pools.current(), stream, "cudaMallocAsync");
  });
}

cudaError_t cudaMallocFromPoolAsync(void** pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  return run_call("cudaMallocFromPoolAsync", Needs::device, [&](State& state) {
    *required(pointer, "ptr") =
        allocate_in_stream(state, bytes, state.memory.pools.require(pool), stream, "cudaMallocFromPoolAsync");
  });
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return run_call("cudaFreeAsync", Needs::device, [&](State& state) {
    Stream& target = state.streams.require_for_work(stream);
    if (pointer == nullptr) return;  // as on an H200
    if (capture_work(state, target, FreeWork{pointer}) == nullptr) release(state, pointer, false);
  });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  return run_call("cudaMemPoolCreate", Needs::device, [&](State& state) {
    const cudaMemPoolProps& wanted = *required(properties, "poolProps");
    if (wanted.allocType != cudaMemAllocationTypePinned) {
      const bool is_known = wanted.allocType == cudaMemAllocationTypeManaged;
      throw ApiError(is_known ? cudaErrorNotSupported : cudaErrorInvalidValue,
                     "pools of the emulated GPU are of the type cudaMemAllocationTypePinned");
    }
    if (wanted.location.type != cudaMemLocationTypeDevice) {
      throw ApiError(cudaErrorNotSupported, "pools of the emulated GPU are on the device (cudaMemLocationTypeDevice)");
    }
    if (wanted.handleTypes != cudaMemHandleTypeNone) {
      throw ApiError(cudaErrorNotSupported, "pools of the emulated GPU cannot be shared with other processes");
    }
    check_device(wanted.location.id);
    *required(pool, "memPool") = handle_of(state.memory.pools.create(wanted.maxSize));
  });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return run_call("cudaMemPoolDestroy", Needs::device, [&](State& state) { state.memory.pools.destroy(pool); });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return run_call("cudaDeviceGetDefaultMemPool", Needs::nothing, [&](State& state) {
    check_device(device);
    *required(pool, "memPool") = handle_of(state.memory.pools.of_device());
  });
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return run_call("cudaDeviceGetMemPool", Needs::nothing, [&](State& state) {
    check_device(device);
    *required(pool, "memPool") = handle_of(state.memory.pools.current());
  });
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  return run_call("cudaDeviceSetMemPool", Needs::nothing, [&](State& state) {
    check_device(device);
    state.memory.pools.make_current(state.memory.pools.require(pool));
  });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return run_call("cudaMemPoolSetAttribute", Needs::nothing, [&](State& state) {
    MemoryPool& found = state.memory.pools.require(pool);
    required(value, "value");
    if (int* narrow = narrow_attribute(found, attribute)) {
      *narrow = *static_cast<int*>(value);
      return;
    }
    const uint64_t wanted = *static_cast<uint64_t*>(value);
    if (attribute == cudaMemPoolAttrReleaseThreshold) {
      found.release_threshold = wanted;
    } else if (attribute == cudaMemPoolAttrReservedMemHigh && wanted == 0) {
      found.reserved_high = found.reserved;
    } else if (attribute == cudaMemPoolAttrUsedMemHigh && wanted == 0) {
      found.used_high = found.used;
    } else {
      no_attribute(attribute);
    }
  });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return run_call("cudaMemPoolGetAttribute", Needs::nothing, [&](State& state) {
    MemoryPool& found = state.memory.pools.require(pool);
    required(value, "value");
    if (const int* narrow = narrow_attribute(found, attribute)) {
      *static_cast<int*>(value) = *narrow;
    } else if (const uint64_t* wide = wide_attribute(found, attribute)) {
      *static_cast<uint64_t*>(value) = *wide;
    } else {
      no_attribute(attribute);
    }
  });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
  return run_call("cudaMemPoolTrimTo", Needs::nothing,
                  [&](State& state) { state.memory.pools.trim(state.memory.pools.require(pool), keep); });
}

// There is one device, which always has access to its pools.
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* descriptions, size_t count) {
  return run_call("cudaMemPoolSetAccess", Needs::nothing, [&](State& state) {
    state.memory.pools.require(pool);
    for (size_t index = 0; index < count; ++index) {
      const cudaMemAccessDesc& wanted = required(descriptions, "descList")[index];
      check_device(wanted.location.id);
      if (wanted.flags != cudaMemAccessFlagsProtReadWrite) {
        throw ApiError(cudaErrorInvalidValue, "the device that holds a pool has access to read and to write it");
      }
    }
  });
}

cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool, cudaMemLocation* location) {
  return run_call("cudaMemPoolGetAccess", Needs::nothing, [&](State& state) {
    state.memory.pools.require(pool);
    check_device(required(location, "location")->id);
    *required(flags, "flags") = cudaMemAccessFlagsProtReadWrite;
  });
}

cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t* pool, cudaMemLocation* location, cudaMemAllocationType) {
  return cudaDeviceGetDefaultMemPool(pool, location == nullptr ? 0 : location->id);
}
cudaError_t cudaMemGetMemPool(cudaMemPool_t* pool, cudaMemLocation* location, cudaMemAllocationType) {
  return cudaDeviceGetMemPool(pool, location == nullptr ? 0 : location->id);
}
cudaError_t cudaMemSetMemPool(cudaMemLocation* location, cudaMemAllocationType, cudaMemPool_t pool) {
  return cudaDeviceSetMemPool(location == nullptr ? 0 : location->id, pool);
}

}  // extern "C"
