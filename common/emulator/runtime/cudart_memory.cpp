// The runtime API: memory.
#include <fmt/format.h>

#include "emulator/runtime/launch.hpp"
#include "emulator/runtime/memory_operations.hpp"
#include "emulator/runtime/state.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// Rows of pitched memory begin at multiples of this.
constexpr uint64_t kPitchAlignment = 512;

cudaError_t allocate_for(const char* name, void** pointer, size_t bytes, machine::AllocationKind kind) {
  return run_call(name, Needs::device,
                  [&](State& state) { *required(pointer, "devPtr") = allocate(state, bytes, kind, name); });
}

cudaError_t copy_for(const char* name, void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                     cudaStream_t stream) {
  return run_call(name, Needs::device, [&](State& state) {
    require_stream(state, stream);
    copy(state, to, from, bytes, kind);
  });
}

cudaError_t copy_2d_for(const char* name, void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                        size_t rows, cudaMemcpyKind kind, cudaStream_t stream) {
  return run_call(name, Needs::device, [&](State& state) {
    require_stream(state, stream);
    copy_box(state, to, {to_pitch}, from, {from_pitch}, {width, rows}, kind);
  });
}

void* position(const cudaPitchedPtr& memory, const cudaPos& at) {
  return static_cast<char*>(memory.ptr) + at.x + memory.pitch * (at.y + memory.ysize * at.z);
}

cudaError_t copy_3d_for(const char* name, const cudaMemcpy3DParms* parameters, cudaStream_t stream) {
  return run_call(name, Needs::device, [&](State& state) {
    require_stream(state, stream);
    const cudaMemcpy3DParms& what = *required(parameters, "p");
    if (what.srcArray != nullptr || what.dstArray != nullptr) {
      throw ApiError(cudaErrorNotSupported, "the emulated GPU has no CUDA arrays: copy between pitched pointers");
    }
    const bool has_both = what.dstPtr.ptr != nullptr && what.srcPtr.ptr != nullptr;
    copy_box(state, has_both ? position(what.dstPtr, what.dstPos) : what.dstPtr.ptr,
             {what.dstPtr.pitch, what.dstPtr.pitch * what.dstPtr.ysize},
             has_both ? position(what.srcPtr, what.srcPos) : what.srcPtr.ptr,
             {what.srcPtr.pitch, what.srcPtr.pitch * what.srcPtr.ysize},
             {what.extent.width, what.extent.height, what.extent.depth}, what.kind);
  });
}

cudaError_t fill_for(const char* name, void* to, size_t pitch, size_t slice, int value, Box box, cudaStream_t stream) {
  return run_call(name, Needs::device, [&](State& state) {
    require_stream(state, stream);
    fill_box(state, to, {pitch, slice}, box, static_cast<uint32_t>(value));
  });
}

/// Where a variable of the program lies; `offset` and `bytes` must stay in it.
void* symbol_range(State& state, const void* shadow, size_t offset, size_t bytes) {
  const Variable* variable = state.modules.find_variable(shadow);
  if (variable == nullptr) {
    throw ApiError(
        cudaErrorInvalidSymbol,
        fmt::format("{} is no __device__, __constant__ or __managed__ variable: pass the variable itself, not "
                    "a pointer to it",
                    fmt::ptr(shadow)));
  }
  const Symbol symbol = variable->module->symbol(variable->name, state.machine());
  if (offset > symbol.size || bytes > symbol.size - offset) {
    throw ApiError(cudaErrorInvalidValue, fmt::format("{} bytes from byte {} of variable {}, which has {} bytes", bytes,
                                                      offset, variable->name, symbol.size));
  }
  return reinterpret_cast<void*>(symbol.address + offset);
}

cudaError_t copy_to_symbol_for(const char* name, const void* shadow, const void* from, size_t bytes, size_t offset,
                               cudaMemcpyKind kind, cudaStream_t stream) {
  return run_call(name, Needs::device, [&](State& state) {
    require_stream(state, stream);
    if (kind != cudaMemcpyHostToDevice && kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault) {
      throw ApiError(cudaErrorInvalidMemcpyDirection, "a copy to a variable is host to device or device to device");
    }
    copy(state, symbol_range(state, shadow, offset, bytes), from, bytes, kind);
  });
}

cudaError_t copy_from_symbol_for(const char* name, void* to, const void* shadow, size_t bytes, size_t offset,
                                 cudaMemcpyKind kind, cudaStream_t stream) {
  return run_call(name, Needs::device, [&](State& state) {
    require_stream(state, stream);
    if (kind != cudaMemcpyDeviceToHost && kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault) {
      throw ApiError(cudaErrorInvalidMemcpyDirection, "a copy from a variable is device to host or device to device");
    }
    copy(state, to, symbol_range(state, shadow, offset, bytes), bytes, kind);
  });
}

void check_flags(const char* function, unsigned flags, unsigned legal) {
  if ((flags & ~legal) != 0) {
    throw ApiError(cudaErrorInvalidValue, fmt::format("flags 0x{:x}; {} knows 0x{:x}", flags, function, legal));
  }
}

/// The one memory pool there is: cudaMallocAsync's, of the one device.
cudaMemPool_t default_pool() {
  static char pool;
  return reinterpret_cast<cudaMemPool_t>(&pool);
}

void check_pool(cudaMemPool_t pool) {
  if (pool != default_pool()) {
    throw ApiError(cudaErrorInvalidValue,
                   fmt::format("{} is no memory pool; the emulated GPU has the default pool only", fmt::ptr(pool)));
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

cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
  return run_call("cudaMallocAsync", Needs::device, [&](State& state) {
    require_stream(state, stream);
    *required(pointer, "devPtr") = allocate(state, bytes, AllocationKind::device, "cudaMallocAsync");
  });
}

cudaError_t cudaMallocFromPoolAsync(void** pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  return run_call("cudaMallocFromPoolAsync", Needs::device, [&](State& state) {
    require_stream(state, stream);
    check_pool(pool);
    *required(pointer, "ptr") = allocate(state, bytes, AllocationKind::device, "cudaMallocFromPoolAsync");
  });
}

cudaError_t cudaMallocManaged(void** pointer, size_t bytes, unsigned flags) {
  return run_call("cudaMallocManaged", Needs::device, [&](State& state) {
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
  return run_call("cudaHostAlloc", Needs::device, [&](State& state) {
    check_flags("cudaHostAlloc", flags, cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined);
    *required(pointer, "pHost") = allocate(state, bytes, AllocationKind::pinned_host, "cudaHostAlloc");
    state.host_allocation_flags[reinterpret_cast<uint64_t>(*pointer)] = flags;
  });
}

cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t rows) {
  return run_call("cudaMallocPitch", Needs::device, [&](State& state) {
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
  return run_call("cudaMalloc3D", Needs::device, [&](State& state) {
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
  return run_call("cudaFree", Needs::device, [&](State& state) { release(state, pointer, false); });
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return run_call("cudaFreeAsync", Needs::device, [&](State& state) {
    require_stream(state, stream);
    release(state, required(pointer, "devPtr"), false);
  });
}

cudaError_t cudaFreeHost(void* pointer) {
  return run_call("cudaFreeHost", Needs::device, [&](State& state) { release(state, pointer, true); });
}

cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned flags) {
  return run_call("cudaHostRegister", Needs::device, [&](State& state) {
    check_flags(
        "cudaHostRegister", flags,
        cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterIoMemory | cudaHostRegisterReadOnly);
    if (pointer == nullptr || bytes == 0) {
      throw ApiError(cudaErrorInvalidValue,
                     fmt::format("{} bytes at {}; legal are at least 1 byte of host memory", bytes, fmt::ptr(pointer)));
    }
    if (!state.registered_host_memory.emplace(pointer, bytes).second) {
      throw ApiError(cudaErrorHostMemoryAlreadyRegistered, fmt::format("{} is already registered", fmt::ptr(pointer)));
    }
  });
}

cudaError_t cudaHostUnregister(void* pointer) {
  return run_call("cudaHostUnregister", Needs::device, [&](State& state) {
    if (state.registered_host_memory.erase(pointer) == 0) {
      throw ApiError(cudaErrorHostMemoryNotRegistered,
                     fmt::format("{} is not the start of memory given to cudaHostRegister", fmt::ptr(pointer)));
    }
  });
}

cudaError_t cudaHostGetDevicePointer(void** device_pointer, void* host_pointer, unsigned) {
  return run_call("cudaHostGetDevicePointer", Needs::device, [&](State& state) {
    const Allocation* allocation = state.machine().memory().find(reinterpret_cast<uint64_t>(host_pointer));
    if (allocation != nullptr && allocation->kind != AllocationKind::device) {
      *required(device_pointer, "pDevice") = host_pointer;
      return;
    }
    if (state.registered_host_memory.contains(host_pointer)) {
      throw ApiError(cudaErrorNotSupported,
                     "kernels of the emulated GPU cannot reach memory given to cudaHostRegister: take it from "
                     "cudaMallocHost or cudaHostAlloc");
    }
    throw ApiError(cudaErrorInvalidValue,
                   fmt::format("{} is no memory of cudaHostAlloc or cudaMallocHost", fmt::ptr(host_pointer)));
  });
}

cudaError_t cudaHostGetFlags(unsigned* flags, void* pointer) {
  return run_call("cudaHostGetFlags", Needs::device, [&](State& state) {
    const Allocation* allocation = state.machine().memory().find(reinterpret_cast<uint64_t>(pointer));
    if (allocation == nullptr || allocation->kind != AllocationKind::pinned_host) {
      throw ApiError(cudaErrorInvalidValue, fmt::format("{} is no memory of cudaHostAlloc", fmt::ptr(pointer)));
    }
    const auto found = state.host_allocation_flags.find(allocation->address);
    *required(flags, "pFlags") = found == state.host_allocation_flags.end() ? 0 : found->second;
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
  return copy_for("cudaMemcpy", to, from, bytes, kind, nullptr);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_for("cudaMemcpyAsync", to, from, bytes, kind, stream);
}

cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, size_t bytes) {
  return cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, nullptr);
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                                cudaStream_t stream) {
  return run_call("cudaMemcpyPeer", Needs::device, [&](State& state) {
    check_device(to_device);
    check_device(from_device);
    require_stream(state, stream);
    copy(state, to, from, bytes, cudaMemcpyDeviceToDevice);
  });
}

cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t rows,
                         cudaMemcpyKind kind) {
  return copy_2d_for("cudaMemcpy2D", to, to_pitch, from, from_pitch, width, rows, kind, nullptr);
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t rows,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_2d_for("cudaMemcpy2DAsync", to, to_pitch, from, from_pitch, width, rows, kind, stream);
}

cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* parameters) {
  return copy_3d_for("cudaMemcpy3D", parameters, nullptr);
}

cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* parameters, cudaStream_t stream) {
  return copy_3d_for("cudaMemcpy3DAsync", parameters, stream);
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind) {
  return copy_to_symbol_for("cudaMemcpyToSymbol", symbol, from, bytes, offset, kind, nullptr);
}

cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes, size_t offset,
                                    cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_to_symbol_for("cudaMemcpyToSymbolAsync", symbol, from, bytes, offset, kind, stream);
}

cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind) {
  return copy_from_symbol_for("cudaMemcpyFromSymbol", to, symbol, bytes, offset, kind, nullptr);
}

cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind,
                                      cudaStream_t stream) {
  return copy_from_symbol_for("cudaMemcpyFromSymbolAsync", to, symbol, bytes, offset, kind, stream);
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

// Memory has one place, so where it would better be makes no difference.
cudaError_t cudaMemPrefetchAsync(const void* pointer, size_t bytes, cudaMemLocation, unsigned, cudaStream_t stream) {
  return run_call("cudaMemPrefetchAsync", Needs::device, [&](State& state) {
    require_stream(state, stream);
    check_device_range(state, pointer, bytes, "range");
  });
}

cudaError_t cudaMemAdvise(const void* pointer, size_t bytes, cudaMemoryAdvise, cudaMemLocation) {
  return run_call("cudaMemAdvise", Needs::device,
                  [&](State& state) { check_device_range(state, pointer, bytes, "range"); });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return run_call("cudaDeviceGetDefaultMemPool", Needs::nothing, [&](State&) {
    check_device(device);
    *required(pool, "memPool") = default_pool();
  });
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) { return cudaDeviceGetDefaultMemPool(pool, device); }

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  return run_call("cudaDeviceSetMemPool", Needs::nothing, [&](State&) {
    check_device(device);
    check_pool(pool);
  });
}

// Freed memory is reused at once, so what a pool keeps makes no difference.
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr, void* value) {
  return run_call("cudaMemPoolSetAttribute", Needs::nothing, [&](State&) {
    check_pool(pool);
    required(value, "value");
  });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t) {
  return run_call("cudaMemPoolTrimTo", Needs::nothing, [&](State&) { check_pool(pool); });
}

}  // extern "C"
