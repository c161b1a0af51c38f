// The runtime API: allocating and freeing memory of the device and of the host.
#include <fmt/format.h>

#include "emulator/runtime/model/api_call.hpp"
#include "emulator/runtime/model/host_access.hpp"
#include "emulator/runtime/model/memory_operations.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// Rows of pitched memory begin at multiples of this.
constexpr uint64_t kPitchAlignment = 512;

cudaError_t allocate_for(const char* name, void** pointer, size_t bytes, machine::AllocationKind kind) {
  return run_call(name, Needs::no_capture,
                  [&](State& state) { *required(pointer, "devPtr") = allocate(state, bytes, kind, name); });
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

cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  return allocate_for("cudaMallocHost", pointer, bytes, AllocationKind::pinned_host);
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  return run_call("cudaHostAlloc", Needs::no_capture, [&](State& state) {
    check_flags("cudaHostAlloc", flags, cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined);
    *required(pointer, "pHost") = allocate(state, bytes, AllocationKind::pinned_host, "cudaHostAlloc");
    state.memory.host_flags[reinterpret_cast<uint64_t>(*pointer)] = flags | cudaHostAllocMapped;
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
  return run_call("cudaFree", Needs::no_capture, [&](State& state) {
    release(state, pointer, false);
    state.streams.host_learns_all();  // it waits for the device
  });
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
    if (!is_mapped(pointer, bytes)) {
      throw ApiError(cudaErrorInvalidValue, fmt::format("some of the {} bytes at {} are no memory of the host program",
                                                        bytes, fmt::ptr(pointer)));
    }
    if (!state.machine().memory().adopt(reinterpret_cast<uint64_t>(pointer), bytes, AllocationKind::registered_host)) {
      throw ApiError(cudaErrorHostMemoryAlreadyRegistered,
                     fmt::format("some of the {} bytes at {} are registered already, or are memory of CUDA", bytes,
                                 fmt::ptr(pointer)));
    }
    state.memory.host_flags[reinterpret_cast<uint64_t>(pointer)] = flags | cudaHostRegisterMapped;
  });
}

cudaError_t cudaHostUnregister(void* pointer) {
  return run_call("cudaHostUnregister", Needs::no_capture, [&](State& state) {
    const auto address = reinterpret_cast<uint64_t>(pointer);
    const Allocation* allocation = state.machine().memory().find(address);
    if (allocation == nullptr || allocation->kind != AllocationKind::registered_host ||
        allocation->address != address) {
      const bool is_inside = allocation != nullptr && allocation->kind == AllocationKind::registered_host;
      throw ApiError(pointer == nullptr || is_inside ? cudaErrorInvalidValue : cudaErrorHostMemoryNotRegistered,
                     fmt::format("{} is not the start of memory given to cudaHostRegister", fmt::ptr(pointer)));
    }
    state.machine().memory().forget(address);
    state.memory.host_flags.erase(address);
  });
}

cudaError_t cudaHostGetDevicePointer(void** device_pointer, void* host_pointer, unsigned flags) {
  return run_call("cudaHostGetDevicePointer", Needs::device, [&](State& state) {
    check_no_flags(flags);
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
    const auto found = state.memory.host_flags.find(allocation->address);
    *required(flags, "pFlags") = found == state.memory.host_flags.end() ? cudaHostAllocMapped : found->second;
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

}  // extern "C"
