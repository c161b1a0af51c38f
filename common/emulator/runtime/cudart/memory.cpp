// The runtime API: memory.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "emulator/runtime/model/work_parameters.hpp"
#include "emulator/runtime/model/memory_operations.hpp"
#include "emulator/runtime/model/state.hpp"
#include "emulator/runtime/model/submission.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// Rows of pitched memory begin at multiples of this.
constexpr uint64_t kPitchAlignment = 512;

cudaError_t allocate_for(const char* name, void** pointer, size_t bytes, machine::AllocationKind kind) {
  return run_call(name, Needs::no_capture,
                  [&](State& state) { *required(pointer, "devPtr") = allocate(state, bytes, kind, name); });
}

/// Whether the call returns before the work has ended.
enum class Returns { at_once, when_done };

void submit_copy(State& state, cudaStream_t stream, Returns returns, CopyWork work) {
  submit(state, stream, std::move(work));
  if (returns == Returns::when_done) state.streams.host_waits_for(state.streams.require(stream));
}

cudaError_t copy_for(const char* name, void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                     cudaStream_t stream, Returns returns) {
  return run_call(name, Needs::device, [&](State& state) {
    submit_copy(state, stream, returns, {to, {}, from, {}, {bytes}, kind});
  });
}

cudaError_t copy_2d_for(const char* name, void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                        size_t rows, cudaMemcpyKind kind, cudaStream_t stream, Returns returns) {
  return run_call(name, Needs::device, [&](State& state) {
    submit_copy(state, stream, returns, {to, {to_pitch}, from, {from_pitch}, {width, rows}, kind});
  });
}

cudaError_t copy_3d_for(const char* name, const cudaMemcpy3DParms* parameters, cudaStream_t stream, Returns returns) {
  return run_call(name, Needs::device,
                  [&](State& state) { submit_copy(state, stream, returns, copy_work(*required(parameters, "p"))); });
}

cudaError_t copy_3d_peer_for(const char* name, const cudaMemcpy3DPeerParms* parameters, cudaStream_t stream,
                             Returns returns) {
  return run_call(name, Needs::device, [&](State& state) {
    const cudaMemcpy3DPeerParms& what = *required(parameters, "p");
    check_device(what.srcDevice);
    check_device(what.dstDevice);
    submit_copy(state, stream, returns,
                copy_work({what.srcArray, what.srcPos, what.srcPtr, what.dstArray, what.dstPos, what.dstPtr,
                           what.extent, cudaMemcpyDeviceToDevice}));
  });
}

cudaError_t fill_for(const char* name, void* to, size_t pitch, size_t slice, int value, Box box, cudaStream_t stream) {
  return run_call(name, Needs::device, [&](State& state) {
    submit(state, stream, FillWork{to, {pitch, slice}, box, static_cast<uint32_t>(value), 1});
  });
}

cudaError_t copy_to_symbol_for(const char* name, const void* shadow, const void* from, size_t bytes, size_t offset,
                               cudaMemcpyKind kind, cudaStream_t stream, Returns returns) {
  return run_call(name, Needs::device, [&](State& state) {
    if (kind != cudaMemcpyHostToDevice && kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault) {
      throw ApiError(cudaErrorInvalidMemcpyDirection, "a copy to a variable is host to device or device to device");
    }
    submit_copy(state, stream, returns, {symbol_range(state, shadow, offset, bytes), {}, from, {}, {bytes}, kind});
  });
}

cudaError_t copy_from_symbol_for(const char* name, void* to, const void* shadow, size_t bytes, size_t offset,
                                 cudaMemcpyKind kind, cudaStream_t stream, Returns returns) {
  return run_call(name, Needs::device, [&](State& state) {
    if (kind != cudaMemcpyDeviceToHost && kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault) {
      throw ApiError(cudaErrorInvalidMemcpyDirection, "a copy from a variable is device to host or device to device");
    }
    submit_copy(state, stream, returns, {to, {}, symbol_range(state, shadow, offset, bytes), {}, {bytes}, kind});
  });
}

/// What is known of the managed memory that holds the range.
MemoryAdvice& managed_range(State& state, const void* pointer, size_t bytes) {
  check_device_range(state, pointer, bytes, "range");
  const machine::Allocation* allocation = state.machine().memory().find(reinterpret_cast<uint64_t>(pointer));
  if (allocation->kind != machine::AllocationKind::managed && allocation->kind != machine::AllocationKind::module) {
    throw ApiError(cudaErrorInvalidValue,
                   fmt::format("the range lies in {}, which is no managed memory", allocation->label));
  }
  return state.memory_advice[allocation->address];
}

/// As the older attributes tell a place: the device's number, or one of the negative ones.
int device_number(cudaMemLocation location) {
  switch (location.type) {
    case cudaMemLocationTypeDevice: return location.id;
    case cudaMemLocationTypeInvalid: return cudaInvalidDeviceId;
    default: return cudaCpuDeviceId;
  }
}

void check_flags(const char* function, unsigned flags, unsigned legal) {
  if ((flags & ~legal) != 0) {
    throw ApiError(cudaErrorInvalidValue, fmt::format("flags 0x{:x}; {} knows 0x{:x}", flags, function, legal));
  }
}

}  // namespace
}  // namespace stagecraft::emulator::runtime

using namespace stagecraft::emulator::runtime;
using stagecraft::emulator::machine::Allocation;
using stagecraft::emulator::machine::AllocationKind;

extern "C" {

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  return allocate_for("cudaMalloc", pointer, bytes, AllocationKind::device);
}

cudaError_t cudaMallocManaged(void** pointer, size_t bytes, unsigned flags) {
  return run_call("cudaMallocManaged", Needs::no_capture, [&](State& state) {
    if (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost) {
      throw ApiError(cudaErrorInvalidValue,
                     fmt::format("flags are {}; legal are cudaMemAttachGlobal and cudaMemAttachHost", flags));
    }
    *required(pointer, "devPtr") = allocate(state, bytes, AllocationKind::managed, "cudaMallocManaged");
  });
}

cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  return allocate_for("cudaMallocHost", pointer, bytes, AllocationKind::pinned_host);
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  return run_call("cudaHostAlloc", Needs::no_capture, [&](State& state) {
    check_flags("cudaHostAlloc", flags, cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined);
    *required(pointer, "pHost") = allocate(state, bytes, AllocationKind::pinned_host, "cudaHostAlloc");
    state.host_allocation_flags[reinterpret_cast<uint64_t>(*pointer)] = flags | cudaHostAllocMapped;
  });
}

cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t rows) {
  return run_call("cudaMallocPitch", Needs::no_capture, [&](State& state) {
    uint64_t bytes = 0;
    const uint64_t padded = (width + kPitchAlignment - 1) / kPitchAlignment * kPitchAlignment;
    if (padded < width || __builtin_mul_overflow(padded, rows, &bytes)) {
      throw ApiError(cudaErrorInvalidValue, fmt::format("{} rows of {} bytes exceed the address space", rows, width));
    }
    required(pitch, "pitch");
    *required(pointer, "devPtr") = allocate(state, bytes, AllocationKind::device, "cudaMallocPitch");
    *pitch = padded;
  });
}

cudaError_t cudaMalloc3D(cudaPitchedPtr* pointer, cudaExtent extent) {
  return run_call("cudaMalloc3D", Needs::no_capture, [&](State& state) {
    uint64_t bytes = 0;
    const uint64_t padded = (extent.width + kPitchAlignment - 1) / kPitchAlignment * kPitchAlignment;
    if (padded < extent.width || __builtin_mul_overflow(padded, extent.height, &bytes) ||
        __builtin_mul_overflow(bytes, extent.depth, &bytes)) {
      throw ApiError(cudaErrorInvalidValue, fmt::format("{} x {} x {} bytes exceed the address space", extent.width,
                                                        extent.height, extent.depth));
    }
    void* memory = allocate(state, bytes, AllocationKind::device, "cudaMalloc3D");
    *required(pointer, "pitchedDevPtr") = {memory, padded, extent.width, extent.height};
  });
}

cudaError_t cudaFree(void* pointer) {
  return run_call("cudaFree", Needs::no_capture, [&](State& state) { release(state, pointer, false); });
}

cudaError_t cudaFreeHost(void* pointer) {
  return run_call("cudaFreeHost", Needs::no_capture, [&](State& state) { release(state, pointer, true); });
}

cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned flags) {
  return run_call("cudaHostRegister", Needs::no_capture, [&](State& state) {
    check_flags(
        "cudaHostRegister", flags,
        cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterIoMemory | cudaHostRegisterReadOnly);
    if (pointer == nullptr || bytes == 0) {
      throw ApiError(cudaErrorInvalidValue,
                     fmt::format("{} bytes at {}; legal are at least 1 byte of host memory", bytes, fmt::ptr(pointer)));
    }
    if (!state.machine().memory().adopt(reinterpret_cast<uint64_t>(pointer), bytes, AllocationKind::registered_host)) {
      throw ApiError(cudaErrorHostMemoryAlreadyRegistered,
                     fmt::format("some of the {} bytes at {} are registered already, or are memory of CUDA", bytes,
                                 fmt::ptr(pointer)));
    }
    state.host_allocation_flags[reinterpret_cast<uint64_t>(pointer)] = flags | cudaHostRegisterMapped;
  });
}

cudaError_t cudaHostUnregister(void* pointer) {
  return run_call("cudaHostUnregister", Needs::no_capture, [&](State& state) {
    const auto address = reinterpret_cast<uint64_t>(pointer);
    const Allocation* allocation = state.machine().memory().find(address);
    if (allocation == nullptr || allocation->kind != AllocationKind::registered_host ||
        allocation->address != address) {
      throw ApiError(cudaErrorHostMemoryNotRegistered,
                     fmt::format("{} is not the start of memory given to cudaHostRegister", fmt::ptr(pointer)));
    }
    state.machine().memory().forget(address);
    state.host_allocation_flags.erase(address);
  });
}

cudaError_t cudaHostGetDevicePointer(void** device_pointer, void* host_pointer, unsigned) {
  return run_call("cudaHostGetDevicePointer", Needs::device, [&](State& state) {
    const Allocation* allocation = state.machine().memory().find(reinterpret_cast<uint64_t>(host_pointer));
    if (allocation != nullptr && allocation->kind != AllocationKind::device) {
      *required(device_pointer, "pDevice") = host_pointer;
      return;
    }
    throw ApiError(
        cudaErrorInvalidValue,
        fmt::format("{} is no memory of cudaHostAlloc, cudaMallocHost or cudaHostRegister", fmt::ptr(host_pointer)));
  });
}

cudaError_t cudaHostGetFlags(unsigned* flags, void* pointer) {
  return run_call("cudaHostGetFlags", Needs::device, [&](State& state) {
    const Allocation* allocation = state.machine().memory().find(reinterpret_cast<uint64_t>(pointer));
    if (allocation == nullptr ||
        (allocation->kind != AllocationKind::pinned_host && allocation->kind != AllocationKind::registered_host)) {
      throw ApiError(cudaErrorInvalidValue,
                     fmt::format("{} is no memory of cudaHostAlloc or cudaHostRegister", fmt::ptr(pointer)));
    }
    const auto found = state.host_allocation_flags.find(allocation->address);
    *required(flags, "pFlags") = found == state.host_allocation_flags.end() ? cudaHostAllocMapped : found->second;
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return run_call("cudaMemGetInfo", Needs::device, [&](State& state) {
    const auto& memory = state.machine().memory();
    *required(free, "free") = memory.capacity() - memory.used();
    *required(total, "total") = memory.capacity();
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return run_call("cudaPointerGetAttributes", Needs::device,
                  [&](State& state) { describe_pointer(state, pointer, *required(attributes, "attributes")); });
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return copy_for("cudaMemcpy", to, from, bytes, kind, nullptr, Returns::when_done);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_for("cudaMemcpyAsync", to, from, bytes, kind, stream, Returns::at_once);
}

cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, size_t bytes) {
  return cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, nullptr);
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                                cudaStream_t stream) {
  return run_call("cudaMemcpyPeer", Needs::device, [&](State& state) {
    check_device(to_device);
    check_device(from_device);
    submit(state, stream, CopyWork{to, {}, from, {}, {bytes}, cudaMemcpyDeviceToDevice});
  });
}

cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t rows,
                         cudaMemcpyKind kind) {
  return copy_2d_for("cudaMemcpy2D", to, to_pitch, from, from_pitch, width, rows, kind, nullptr, Returns::when_done);
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t rows,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_2d_for("cudaMemcpy2DAsync", to, to_pitch, from, from_pitch, width, rows, kind, stream, Returns::at_once);
}

cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* parameters) {
  return copy_3d_for("cudaMemcpy3D", parameters, nullptr, Returns::when_done);
}

cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* parameters, cudaStream_t stream) {
  return copy_3d_for("cudaMemcpy3DAsync", parameters, stream, Returns::at_once);
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind) {
  return copy_to_symbol_for("cudaMemcpyToSymbol", symbol, from, bytes, offset, kind, nullptr, Returns::when_done);
}

cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes, size_t offset,
                                    cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_to_symbol_for("cudaMemcpyToSymbolAsync", symbol, from, bytes, offset, kind, stream, Returns::at_once);
}

cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind) {
  return copy_from_symbol_for("cudaMemcpyFromSymbol", to, symbol, bytes, offset, kind, nullptr, Returns::when_done);
}

cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind,
                                      cudaStream_t stream) {
  return copy_from_symbol_for("cudaMemcpyFromSymbolAsync", to, symbol, bytes, offset, kind, stream, Returns::at_once);
}

cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
  return run_call("cudaGetSymbolAddress", Needs::device,
                  [&](State& state) { *required(pointer, "devPtr") = symbol_range(state, symbol, 0, 0); });
}

cudaError_t cudaGetSymbolSize(size_t* size, const void* symbol) {
  return run_call("cudaGetSymbolSize", Needs::device, [&](State& state) {
    symbol_range(state, symbol, 0, 0);
    const Variable& variable = *state.modules.find_variable(symbol);
    *required(size, "size") = variable.module->symbol(variable.name, state.machine()).size;
  });
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return fill_for("cudaMemset", to, 0, 0, value, {bytes}, nullptr);
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return fill_for("cudaMemsetAsync", to, 0, 0, value, {bytes}, stream);
}

cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t rows) {
  return fill_for("cudaMemset2D", to, pitch, 0, value, {width, rows}, nullptr);
}

cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t rows, cudaStream_t stream) {
  return fill_for("cudaMemset2DAsync", to, pitch, 0, value, {width, rows}, stream);
}

cudaError_t cudaMemset3D(cudaPitchedPtr to, int value, cudaExtent extent) {
  return cudaMemset3DAsync(to, value, extent, nullptr);
}

cudaError_t cudaMemset3DAsync(cudaPitchedPtr to, int value, cudaExtent extent, cudaStream_t stream) {
  return fill_for("cudaMemset3D", to.ptr, to.pitch, to.pitch * to.ysize, value,
                  {extent.width, extent.height, extent.depth}, stream);
}

// Memory has one place, so where it would better be makes no difference but to what is answered.
cudaError_t cudaMemPrefetchAsync(const void* pointer, size_t bytes, cudaMemLocation location, unsigned flags,
                                 cudaStream_t stream) {
  return run_call("cudaMemPrefetchAsync", Needs::device, [&](State& state) {
    state.streams.require_for_work(stream);
    if (flags != 0) throw ApiError(cudaErrorInvalidValue, fmt::format("flags are {}; legal is 0", flags));
    managed_range(state, pointer, bytes).last_prefetch = location;
  });
}

cudaError_t cudaMemAdvise(const void* pointer, size_t bytes, cudaMemoryAdvise advice, cudaMemLocation location) {
  return run_call("cudaMemAdvise", Needs::device, [&](State& state) {
    MemoryAdvice& known = managed_range(state, pointer, bytes);
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

cudaError_t cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms* parameters) {
  return copy_3d_peer_for("cudaMemcpy3DPeer", parameters, nullptr, Returns::when_done);
}

cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* parameters, cudaStream_t stream) {
  return copy_3d_peer_for("cudaMemcpy3DPeerAsync", parameters, stream, Returns::at_once);
}

cudaError_t cudaMemcpyBatchAsync(void* const* to, const void* const* from, const size_t* bytes, size_t count,
                                 cudaMemcpyAttributes*, size_t*, size_t, cudaStream_t stream) {
  return run_call("cudaMemcpyBatchAsync", Needs::device, [&](State& state) {
    for (size_t index = 0; index < count; ++index) {
      submit_copy(state, stream, Returns::at_once,
                  {required(to, "dsts")[index],
                   {},
                   required(from, "srcs")[index],
                   {},
                   {required(bytes, "sizes")[index]},
                   cudaMemcpyDefault});
    }
  });
}

}  // extern "C"
