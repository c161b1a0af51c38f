// The driver API: memory, streams and events, through the runtime's functions that do the same.
#include <fmt/format.h>

#include "emulator/runtime/driver/runtime_calls.hpp"
#include "emulator/runtime/model/api_call.hpp"
#include "emulator/runtime/model/memory_operations.hpp"
#include "emulator/runtime/model/submission.hpp"

namespace stagecraft::emulator::runtime {
namespace {

CUresult copy_with(const char* name, void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                   CUstream stream = nullptr) {
  return driver_call_through(name, Needs::device, [&] { return cudaMemcpyAsync(to, from, bytes, kind, stream); });
}

CUresult fill_with(const char* name, CUdeviceptr to, uint32_t value, uint32_t value_bytes, size_t count,
                   CUstream stream = nullptr) {
  return run_driver_call(name, Needs::device, [&](State& state) {
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(count, value_bytes, &bytes)) {
      throw ApiError(cudaErrorInvalidValue, fmt::format("{} values exceed the address space", count));
    }
    submit(state, stream, FillWork{pointer_of(to), {}, {bytes}, value, value_bytes});
  });
}

/// What the runtime's function of the same purpose accepts, the driver's refuses (as on an H200, driver 580).
CUresult refuse_nothing(const char* name) {
  return run_driver_call(name, Needs::no_capture,
                         [](State&) { throw ApiError(cudaErrorInvalidValue, "0 bytes; at least 1 is legal"); });
}

CUresult allocate_with(const char* name, void** pointer, size_t bytes, machine::AllocationKind kind) {
  if (bytes == 0) return refuse_nothing(name);
  return run_driver_call(name, Needs::no_capture,
                         [&](State& state) { *required(pointer, "the pointer") = allocate(state, bytes, kind, name); });
}

}  // namespace
}  // namespace stagecraft::emulator::runtime

using namespace stagecraft::emulator::runtime;
using stagecraft::emulator::machine::Allocation;
using stagecraft::emulator::machine::AllocationKind;

extern "C" {

CUresult cuMemAlloc_v2(CUdeviceptr* pointer, size_t bytes) {
  return allocate_with("cuMemAlloc", reinterpret_cast<void**>(pointer), bytes, AllocationKind::device);
}

CUresult cuMemAllocManaged(CUdeviceptr* pointer, size_t bytes, unsigned flags) {
  if (bytes == 0) return refuse_nothing("cuMemAllocManaged");
  return driver_call_through("cuMemAllocManaged", Needs::device,
                             [&] { return cudaMallocManaged(reinterpret_cast<void**>(pointer), bytes, flags); });
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* pointer, size_t* pitch, size_t width, size_t rows, unsigned element) {
  if (width == 0 || rows == 0) return refuse_nothing("cuMemAllocPitch");
  if (element != 4 && element != 8 && element != 16) {
    return run_driver_call("cuMemAllocPitch", Needs::device, [&](State&) {
      throw ApiError(cudaErrorInvalidValue, fmt::format("elements of {} bytes; legal are 4, 8 and 16", element));
    });
  }
  return driver_call_through("cuMemAllocPitch", Needs::device,
                             [&] { return cudaMallocPitch(reinterpret_cast<void**>(pointer), pitch, width, rows); });
}

STAGECRAFT_THROUGH(cuMemAllocAsync, cudaMallocAsync)
STAGECRAFT_THROUGH(cuMemFree_v2, cudaFree)
STAGECRAFT_THROUGH(cuMemFreeAsync, cudaFreeAsync)

CUresult cuMemAllocHost_v2(void** pointer, size_t bytes) {
  return allocate_with("cuMemAllocHost", pointer, bytes, AllocationKind::pinned_host);
}

STAGECRAFT_THROUGH(cuMemHostAlloc, cudaHostAlloc)
STAGECRAFT_THROUGH(cuMemFreeHost, cudaFreeHost)
STAGECRAFT_THROUGH(cuMemHostRegister_v2, cudaHostRegister)
STAGECRAFT_THROUGH(cuMemHostUnregister, cudaHostUnregister)
STAGECRAFT_THROUGH(cuMemHostGetDevicePointer_v2, cudaHostGetDevicePointer)
STAGECRAFT_THROUGH(cuMemGetInfo_v2, cudaMemGetInfo)

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr pointer) {
  return run_driver_call("cuMemGetAddressRange", Needs::device, [&](State& state) {
    const Allocation* allocation = state.machine().memory().find(pointer);
    if (allocation == nullptr) {
      throw ApiError(cudaErrorSymbolNotFound, fmt::format("0x{:x} is not device memory: {}", pointer,
                                                          state.machine().memory().describe(pointer)));
    }
    if (base != nullptr) *base = allocation->address;
    if (bytes != nullptr) *bytes = allocation->size;
  });
}

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr pointer) {
  return run_driver_call("cuPointerGetAttribute", Needs::device, [&](State& state) {
    required(data, "data");
    cudaPointerAttributes known;
    describe_pointer(state, pointer_of(pointer), known);
    if (known.type == cudaMemoryTypeUnregistered) {
      throw ApiError(cudaErrorInvalidValue, fmt::format("0x{:x} is not memory that CUDA knows", pointer));
    }
    switch (attribute) {
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *static_cast<unsigned*>(data) = known.type == cudaMemoryTypeHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return;
      case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *static_cast<CUdeviceptr*>(data) = pointer; return;
      case CU_POINTER_ATTRIBUTE_HOST_POINTER: *static_cast<void**>(data) = known.hostPointer; return;
      case CU_POINTER_ATTRIBUTE_IS_MANAGED: *static_cast<unsigned*>(data) = known.type == cudaMemoryTypeManaged; return;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *static_cast<int*>(data) = 0; return;
      default:
        throw ApiError(cudaErrorNotSupported, fmt::format("pointer attribute {} is not supported by the emulated GPU",
                                                          static_cast<int>(attribute)));
    }
  });
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy_with("cuMemcpy", pointer_of(to), pointer_of(from), bytes, cudaMemcpyDefault);
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_with("cuMemcpyAsync", pointer_of(to), pointer_of(from), bytes, cudaMemcpyDefault, stream);
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  return copy_with("cuMemcpyHtoD", pointer_of(to), from, bytes, cudaMemcpyHostToDevice);
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return copy_with("cuMemcpyHtoDAsync", pointer_of(to), from, bytes, cudaMemcpyHostToDevice, stream);
}
CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  return copy_with("cuMemcpyDtoH", to, pointer_of(from), bytes, cudaMemcpyDeviceToHost);
}
CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_with("cuMemcpyDtoHAsync", to, pointer_of(from), bytes, cudaMemcpyDeviceToHost, stream);
}
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy_with("cuMemcpyDtoD", pointer_of(to), pointer_of(from), bytes, cudaMemcpyDeviceToDevice);
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_with("cuMemcpyDtoDAsync", pointer_of(to), pointer_of(from), bytes, cudaMemcpyDeviceToDevice, stream);
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  return fill_with("cuMemsetD8", to, value, 1, count);
}
CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count) {
  return fill_with("cuMemsetD16", to, value, 2, count);
}
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count) {
  return fill_with("cuMemsetD32", to, value, 4, count);
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return fill_with("cuMemsetD8Async", to, value, 1, count, stream);
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return fill_with("cuMemsetD16Async", to, value, 2, count, stream);
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return fill_with("cuMemsetD32Async", to, value, 4, count, stream);
}

STAGECRAFT_THROUGH(cuStreamCreate, cudaStreamCreateWithFlags)
STAGECRAFT_THROUGH(cuStreamCreateWithPriority, cudaStreamCreateWithPriority)
STAGECRAFT_THROUGH(cuStreamDestroy_v2, cudaStreamDestroy)
STAGECRAFT_THROUGH(cuStreamSynchronize, cudaStreamSynchronize)
STAGECRAFT_THROUGH(cuStreamQuery, cudaStreamQuery)
STAGECRAFT_THROUGH(cuStreamWaitEvent, cudaStreamWaitEvent)
STAGECRAFT_THROUGH(cuStreamGetPriority, cudaStreamGetPriority)
STAGECRAFT_THROUGH(cuStreamGetFlags, cudaStreamGetFlags)
STAGECRAFT_THROUGH(cuEventCreate, cudaEventCreateWithFlags)
STAGECRAFT_THROUGH(cuEventDestroy_v2, cudaEventDestroy)
STAGECRAFT_THROUGH(cuEventRecord, cudaEventRecord)
STAGECRAFT_THROUGH(cuEventQuery, cudaEventQuery)
STAGECRAFT_THROUGH(cuEventSynchronize, cudaEventSynchronize)
STAGECRAFT_THROUGH(cuEventElapsedTime_v2, cudaEventElapsedTime)

// An attribute that a pointer does not have is zero (cuda.h).
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data, CUdeviceptr pointer) {
  if (attributes == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned index = 0; index < count; ++index) cuPointerGetAttribute(data[index], attributes[index], pointer);
  return CUDA_SUCCESS;
}

}  // extern "C"
