// The runtime API: managed memory, and what the program advises about it.
#include <fmt/format.h>

#include <algorithm>

#include "emulator/runtime/model/api_call.hpp"
#include "emulator/runtime/model/memory_operations.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// The advice about the managed memory that holds the range.
MemoryAdvice& managed_range(State& state, const void* pointer, size_t bytes) {
  check_device_range(state.machine().memory(), pointer, bytes, "range");
  const machine::Allocation* allocation = state.machine().memory().find(reinterpret_cast<uint64_t>(pointer));
  if (allocation->kind != machine::AllocationKind::managed &&
      allocation->kind != machine::AllocationKind::managed_variable) {
    throw ApiError(cudaErrorInvalidValue,
                   fmt::format("the range is in {}, which is no managed memory", allocation->label));
  }
  return state.memory.advice[allocation->address];
}

/// Throws ApiError with `no_such_device` unless memory can be at the location.
void check_location(cudaMemLocation location, cudaError_t no_such_device) {
  switch (location.type) {
    case cudaMemLocationTypeHost:
    case cudaMemLocationTypeHostNumaCurrent: return;
    case cudaMemLocationTypeDevice:
    case cudaMemLocationTypeHostNuma:
      if (location.id == 0) return;
      throw ApiError(location.type == cudaMemLocationTypeDevice ? no_such_device : cudaErrorInvalidValue,
                     fmt::format("there is no {} {}; the emulated GPU is device 0, and its host has the node 0",
                                 location.type == cudaMemLocationTypeDevice ? "device" : "NUMA node", location.id));
    default:
      throw ApiError(cudaErrorInvalidValue,
                     fmt::format("memory cannot be at a location of type {}; legal are a device and the host",
                                 static_cast<int>(location.type)));
  }
}

/// A location as the older attributes return it: the device's number, or a negative number.
int device_number(cudaMemLocation location) {
  switch (location.type) {
    case cudaMemLocationTypeDevice: return location.id;
    case cudaMemLocationTypeInvalid: return cudaInvalidDeviceId;
    default: return cudaCpuDeviceId;
  }
}

}  // namespace
}  // namespace stagecraft::emulator::runtime

using namespace stagecraft::emulator::runtime;
using stagecraft::emulator::machine::AllocationKind;

extern "C" {

cudaError_t cudaMallocManaged(void** pointer, size_t bytes, unsigned flags) {
  return run_call("cudaMallocManaged", Needs::no_capture, [&](State& state) {
    if (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost) {
      throw ApiError(cudaErrorInvalidValue,
                     fmt::format("flags are {}; legal are cudaMemAttachGlobal and cudaMemAttachHost", flags));
    }
    *required(pointer, "devPtr") = allocate(state, bytes, AllocationKind::managed, "cudaMallocManaged");
  });
}

// Memory has one location, so the preferred location changes only the answers to queries.
cudaError_t cudaMemPrefetchAsync(const void* pointer, size_t bytes, cudaMemLocation location, unsigned flags,
                                 cudaStream_t stream) {
  return run_call("cudaMemPrefetchAsync", Needs::device, [&](State& state) {
    state.streams.require_for_work(stream);
    check_no_flags(flags);
    check_location(location, cudaErrorInvalidDevice);
    if (bytes == 0) throw ApiError(cudaErrorInvalidValue, "the range is empty");
    managed_range(state, pointer, bytes).last_prefetch = location;
  });
}

cudaError_t cudaMemAdvise(const void* pointer, size_t bytes, cudaMemoryAdvise advice, cudaMemLocation location) {
  return run_call("cudaMemAdvise", Needs::device, [&](State& state) {
    MemoryAdvice& known = managed_range(state, pointer, bytes);
    const bool has_place = advice != cudaMemAdviseSetReadMostly && advice != cudaMemAdviseUnsetReadMostly;
    if (has_place) check_location(location, cudaErrorInvalidValue);
    switch (advice) {
      case cudaMemAdviseSetReadMostly: known.read_mostly = true; return;
      case cudaMemAdviseUnsetReadMostly: known.read_mostly = false; return;
      case cudaMemAdviseSetPreferredLocation: known.preferred = location; return;
      case cudaMemAdviseUnsetPreferredLocation: known.preferred = {cudaMemLocationTypeInvalid, 0}; return;
      case cudaMemAdviseSetAccessedBy:
        (location.type == cudaMemLocationTypeDevice ? known.accessed_by_device : known.accessed_by_host) = true;
        return;
      case cudaMemAdviseUnsetAccessedBy:
        (location.type == cudaMemLocationTypeDevice ? known.accessed_by_device : known.accessed_by_host) = false;
        return;
    }
    throw ApiError(cudaErrorInvalidValue, fmt::format("there is no advice {}", static_cast<int>(advice)));
  });
}

cudaError_t cudaMemRangeGetAttribute(void* data, size_t data_bytes, cudaMemRangeAttribute attribute,
                                     const void* pointer, size_t bytes) {
  return run_call("cudaMemRangeGetAttribute", Needs::device, [&](State& state) {
    const MemoryAdvice& known = managed_range(state, pointer, bytes);
    auto* values = static_cast<int*>(required(data, "data"));
    const size_t count = data_bytes / sizeof(int);
    if (count == 0) throw ApiError(cudaErrorInvalidValue, fmt::format("{} bytes of data; at least 4", data_bytes));
    switch (attribute) {
      case cudaMemRangeAttributeReadMostly: values[0] = known.read_mostly; return;
      case cudaMemRangeAttributePreferredLocation: values[0] = device_number(known.preferred); return;
      case cudaMemRangeAttributeLastPrefetchLocation: values[0] = device_number(known.last_prefetch); return;
      case cudaMemRangeAttributePreferredLocationType: values[0] = known.preferred.type; return;
      case cudaMemRangeAttributeLastPrefetchLocationType: values[0] = known.last_prefetch.type; return;
      case cudaMemRangeAttributePreferredLocationId: values[0] = known.preferred.id; return;
      case cudaMemRangeAttributeLastPrefetchLocationId: values[0] = known.last_prefetch.id; return;
      case cudaMemRangeAttributeAccessedBy: {
        size_t used = 0;
        if (known.accessed_by_device) values[used++] = 0;
        if (known.accessed_by_host && used < count) values[used++] = cudaCpuDeviceId;
        std::fill(values + used, values + count, cudaInvalidDeviceId);
        return;
      }
    }
    throw ApiError(cudaErrorInvalidValue, fmt::format("there is no attribute {}", static_cast<int>(attribute)));
  });
}

cudaError_t cudaMemRangeGetAttributes(void** data, size_t* data_bytes, cudaMemRangeAttribute* attributes, size_t count,
                                      const void* pointer, size_t bytes) {
  for (size_t index = 0; index < count; ++index) {
    const cudaError_t error =
        cudaMemRangeGetAttribute(data[index], data_bytes[index], attributes[index], pointer, bytes);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // extern "C"
