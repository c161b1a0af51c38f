// The driver API: copies and fills of rectangles and boxes, waits for values, and what is asked about memory.
#include <fmt/format.h>

#include <cstring>

#include "emulator/runtime/driver/runtime_calls.hpp"
#include "emulator/runtime/model/api_call.hpp"
#include "emulator/runtime/model/memory_operations.hpp"
#include "emulator/runtime/model/submission.hpp"
#include "emulator/runtime/model/work_parameters.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// One end of a copy.
struct End {
  size_t x, y, z;
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  CUarray array;
  size_t pitch, height;
};

/// Null where the memory is an array, which the driver API of the emulated GPU does not have.
cudaPitchedPtr begin_of(const End& end, size_t width) {
  const size_t pitch = end.pitch == 0 ? width : end.pitch;
  const void* start = end.type == CU_MEMORYTYPE_HOST ? end.host : pointer_of(end.device);
  return {const_cast<void*>(start), pitch, width, end.height};
}

cudaMemcpyKind kind_of(CUmemorytype to, CUmemorytype from) {
  if (to == CU_MEMORYTYPE_UNIFIED || from == CU_MEMORYTYPE_UNIFIED) return cudaMemcpyDefault;
  if (to == CU_MEMORYTYPE_HOST) return from == CU_MEMORYTYPE_HOST ? cudaMemcpyHostToHost : cudaMemcpyDeviceToHost;
  return from == CU_MEMORYTYPE_HOST ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToDevice;
}

cudaMemcpy3DParms copy_between(const End& to, const End& from, cudaExtent extent) {
  cudaMemcpy3DParms result{};
  result.dstPtr = begin_of(to, extent.width);
  result.dstPos = {to.x, to.y, to.z};
  result.dstArray = to.type == CU_MEMORYTYPE_ARRAY ? reinterpret_cast<cudaArray_t>(to.array) : nullptr;
  result.srcPtr = begin_of(from, extent.width);
  result.srcPos = {from.x, from.y, from.z};
  result.srcArray = from.type == CU_MEMORYTYPE_ARRAY ? reinterpret_cast<cudaArray_t>(from.array) : nullptr;
  result.extent = extent;
  result.kind = kind_of(to.type, from.type);
  return result;
}

template <typename Parameters>
CUresult copy_for(const char* name, const Parameters* parameters, bool asynchronous, CUstream stream) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const cudaMemcpy3DParms copy = runtime_copy(*parameters);
  return asynchronous ? through<cudaMemcpy3DAsync>(name, &copy, stream) : through<cudaMemcpy3D>(name, &copy);
}

CUresult fill_2d(const char* name, CUdeviceptr to, size_t pitch, unsigned value, unsigned value_bytes, size_t width,
                 size_t rows, CUstream stream) {
  return run_driver_call(name, Needs::device, [&](State& state) {
    submit(state, stream, fill_work({pointer_of(to), pitch, value, value_bytes, width, rows}));
  });
}

CUresult copy_peer(const char* name, CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return through<cudaMemcpyAsync>(name, pointer_of(to), static_cast<const void*>(pointer_of(from)), bytes,
                                  cudaMemcpyDeviceToDevice, stream);
}

/// Throws ApiError unless a stream can wait for the value there, or write it.
void check_value(CUdeviceptr address, size_t bytes, unsigned flags, unsigned legal) {
  if ((flags & ~legal) != 0) {
    throw ApiError(cudaErrorInvalidValue, fmt::format("flags 0x{:x}; legal are those of 0x{:x}", flags, legal));
  }
  if (address % bytes != 0) {
    throw ApiError(cudaErrorInvalidValue,
                   fmt::format("{} is not a multiple of {} bytes", fmt::ptr(pointer_of(address)), bytes));
  }
}

/// Refuses a wait for a value that memory does not have yet. Work is done in the order of the calls, so nothing could
/// write the value before this call returns: the host must write it first.
template <typename Value>
CUresult wait_for_value(const char* name, CUstream stream, CUdeviceptr address, Value wanted, unsigned flags) {
  return run_driver_call(name, Needs::device, [&](State& state) {
    state.streams.require_for_work(stream);
    check_value(address, sizeof(Value), flags, CU_STREAM_WAIT_VALUE_NOR | CU_STREAM_WAIT_VALUE_FLUSH);
    check_device_range(state.machine().memory(), pointer_of(address), sizeof(Value), "value");
    Value value;
    std::memcpy(&value, machine::DeviceMemory::host(address), sizeof value);
    using Signed = std::make_signed_t<Value>;
    bool holds = false;
    switch (flags & 3) {
      case CU_STREAM_WAIT_VALUE_GEQ: holds = static_cast<Signed>(value - wanted) >= 0; break;
      case CU_STREAM_WAIT_VALUE_EQ: holds = value == wanted; break;
      case CU_STREAM_WAIT_VALUE_AND: holds = (value & wanted) != 0; break;
      default: holds = (~(value | wanted)) != 0; break;
    }
    if (!holds) {
      throw ApiError(
          cudaErrorNotSupported,
          fmt::format("the value at {} is {}, and the stream would wait for {}: the emulated GPU does all work "
                      "when it is asked for, so the value must be written by an earlier call",
                      fmt::ptr(pointer_of(address)), value, wanted));
    }
    state.streams.host_learns_all();  // the value says how far another stream is; which one is not known
  });
}

template <typename Value>
CUresult write_value(const char* name, CUstream stream, CUdeviceptr address, Value value, unsigned flags) {
  return run_driver_call(name, Needs::device, [&](State& state) {
    state.streams.require_for_work(stream);
    check_value(address, sizeof(Value), flags, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER);
    check_device_range(state.machine().memory(), pointer_of(address), sizeof(Value), "value");
    std::memcpy(machine::DeviceMemory::host(address), &value, sizeof value);
    if (state.settings().checks.global) {
      state.launches.global_memory.written(state.machine().memory(), address, sizeof value);
    }
  });
}

}  // namespace

cudaMemcpy3DParms runtime_copy(const CUDA_MEMCPY3D& what) {
  return copy_between({what.dstXInBytes, what.dstY, what.dstZ, what.dstMemoryType, what.dstHost, what.dstDevice,
                       what.dstArray, what.dstPitch, what.dstHeight},
                      {what.srcXInBytes, what.srcY, what.srcZ, what.srcMemoryType, what.srcHost, what.srcDevice,
                       what.srcArray, what.srcPitch, what.srcHeight},
                      {what.WidthInBytes, what.Height, what.Depth});
}

cudaMemcpy3DParms runtime_copy(const CUDA_MEMCPY2D& what) {
  return copy_between({what.dstXInBytes, what.dstY, 0, what.dstMemoryType, what.dstHost, what.dstDevice, what.dstArray,
                       what.dstPitch, 0},
                      {what.srcXInBytes, what.srcY, 0, what.srcMemoryType, what.srcHost, what.srcDevice, what.srcArray,
                       what.srcPitch, 0},
                      {what.WidthInBytes, what.Height, 1});
}

}  // namespace stagecraft::emulator::runtime

using namespace stagecraft::emulator::runtime;

extern "C" {

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* parameters) { return copy_for("cuMemcpy2D", parameters, false, nullptr); }
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* parameters) {
  return copy_for("cuMemcpy2DUnaligned", parameters, false, nullptr);
}
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* parameters, CUstream stream) {
  return copy_for("cuMemcpy2DAsync", parameters, true, stream);
}
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* parameters) { return copy_for("cuMemcpy3D", parameters, false, nullptr); }
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* parameters, CUstream stream) {
  return copy_for("cuMemcpy3DAsync", parameters, true, stream);
}
// There is one context, so both ends are in it.
CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes) {
  return copy_peer("cuMemcpyPeer", to, from, bytes, nullptr);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes, CUstream stream) {
  return copy_peer("cuMemcpyPeerAsync", to, from, bytes, stream);
}

CUresult cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t rows) {
  return fill_2d("cuMemsetD2D8", to, pitch, value, 1, width, rows, nullptr);
}
CUresult cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t rows) {
  return fill_2d("cuMemsetD2D16", to, pitch, value, 2, width, rows, nullptr);
}
CUresult cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t rows) {
  return fill_2d("cuMemsetD2D32", to, pitch, value, 4, width, rows, nullptr);
}
CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t rows,
                           CUstream stream) {
  return fill_2d("cuMemsetD2D8Async", to, pitch, value, 1, width, rows, stream);
}
CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t rows,
                            CUstream stream) {
  return fill_2d("cuMemsetD2D16Async", to, pitch, value, 2, width, rows, stream);
}
CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t rows, CUstream stream) {
  return fill_2d("cuMemsetD2D32Async", to, pitch, value, 4, width, rows, stream);
}

#undef cuStreamWaitValue32
#undef cuStreamWaitValue64
#undef cuStreamWriteValue32
#undef cuStreamWriteValue64
CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  return wait_for_value<uint32_t>("cuStreamWaitValue32", stream, address, value, flags);
}
CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
  return wait_for_value<uint64_t>("cuStreamWaitValue64", stream, address, value, flags);
}
CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  return write_value<uint32_t>("cuStreamWriteValue32", stream, address, value, flags);
}
CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
  return write_value<uint64_t>("cuStreamWriteValue64", stream, address, value, flags);
}

STAGECRAFT_THROUGH(cuMemHostGetFlags, cudaHostGetFlags)
#undef cuMemAdvise
#undef cuMemPrefetchAsync
STAGECRAFT_THROUGH(cuMemAdvise_v2, cudaMemAdvise)
STAGECRAFT_THROUGH(cuMemPrefetchAsync_v2, cudaMemPrefetchAsync)
STAGECRAFT_THROUGH(cuMemRangeGetAttribute, cudaMemRangeGetAttribute)
STAGECRAFT_THROUGH(cuMemRangeGetAttributes, cudaMemRangeGetAttributes)
STAGECRAFT_THROUGH(cuStreamAttachMemAsync, cudaStreamAttachMemAsync)
STAGECRAFT_THROUGH(cuDeviceGetDefaultMemPool, cudaDeviceGetDefaultMemPool)
STAGECRAFT_THROUGH(cuDeviceGetMemPool, cudaDeviceGetMemPool)
STAGECRAFT_THROUGH(cuDeviceSetMemPool, cudaDeviceSetMemPool)
STAGECRAFT_THROUGH(cuMemPoolCreate, cudaMemPoolCreate)
STAGECRAFT_THROUGH(cuMemPoolDestroy, cudaMemPoolDestroy)
STAGECRAFT_THROUGH(cuMemPoolSetAttribute, cudaMemPoolSetAttribute)
STAGECRAFT_THROUGH(cuMemPoolGetAttribute, cudaMemPoolGetAttribute)
STAGECRAFT_THROUGH(cuMemPoolTrimTo, cudaMemPoolTrimTo)
STAGECRAFT_THROUGH(cuMemPoolSetAccess, cudaMemPoolSetAccess)
STAGECRAFT_THROUGH(cuMemPoolGetAccess, cudaMemPoolGetAccess)
STAGECRAFT_THROUGH(cuMemAllocFromPoolAsync, cudaMallocFromPoolAsync)
STAGECRAFT_THROUGH(cuDeviceGetGraphMemAttribute, cudaDeviceGetGraphMemAttribute)
STAGECRAFT_THROUGH(cuDeviceGraphMemTrim, cudaDeviceGraphMemTrim)
STAGECRAFT_THROUGH(cuStreamAddCallback, cudaStreamAddCallback)
STAGECRAFT_THROUGH(cuStreamGetId, cudaStreamGetId)
STAGECRAFT_THROUGH(cuStreamGetDevice, cudaStreamGetDevice)
STAGECRAFT_THROUGH(cuStreamGetAttribute, cudaStreamGetAttribute)
STAGECRAFT_THROUGH(cuStreamSetAttribute, cudaStreamSetAttribute)
STAGECRAFT_THROUGH(cuStreamCopyAttributes, cudaStreamCopyAttributes)
CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  return through<cudaEventRecordWithFlags>("cuEventRecord", event, stream, flags);
}

}  // extern "C"
