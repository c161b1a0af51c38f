// The runtime API: streams, events, host functions.
//
// Work is done when it is asked for, in the order of the calls. That is one of the orders every stream permits, so
// streams and events have nothing to wait for. Times of events are the device's virtual time (State).
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "emulator/runtime/launch.hpp"
#include "emulator/runtime/state.hpp"

namespace stagecraft::emulator::runtime {
namespace {

constexpr int kLowestPriority = 0;
constexpr int kHighestPriority = -5;  // numerically lower is more urgent

void create_stream(State& state, cudaStream_t* stream, unsigned flags, int priority) {
  required(stream, "pStream");
  if ((flags & ~unsigned{cudaStreamNonBlocking}) != 0) {
    throw ApiError(cudaErrorInvalidValue,
                   fmt::format("flags 0x{:x}; legal are cudaStreamDefault and cudaStreamNonBlocking", flags));
  }
  auto made = std::make_unique<Stream>();
  made->id = state.next_stream_id++;
  made->flags = flags;
  made->priority = std::clamp(priority, kHighestPriority, kLowestPriority);
  *stream = reinterpret_cast<cudaStream_t>(made.get());
  Stream* key = made.get();
  state.streams.emplace(key, std::move(made));
}

void create_event(State& state, cudaEvent_t* event, unsigned flags) {
  required(event, "event");
  constexpr unsigned kLegal = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
  if ((flags & ~kLegal) != 0 || (flags & (cudaEventInterprocess | cudaEventDisableTiming)) == cudaEventInterprocess) {
    throw ApiError(
        cudaErrorInvalidValue,
        fmt::format("flags 0x{:x}; legal are cudaEventBlockingSync, cudaEventDisableTiming, and with the latter "
                    "cudaEventInterprocess",
                    flags));
  }
  auto made = std::make_unique<Event>();
  made->flags = flags;
  *event = reinterpret_cast<cudaEvent_t>(made.get());
  Event* key = made.get();
  state.events.emplace(key, std::move(made));
}

float elapsed_milliseconds(State& state, cudaEvent_t start, cudaEvent_t end) {
  const Event& first = require_event(state, start);
  const Event& second = require_event(state, end);
  for (const Event* event : {&first, &second}) {
    const char* which = event == &first ? "first" : "second";
    if ((event->flags & cudaEventDisableTiming) != 0) {
      throw ApiError(cudaErrorInvalidResourceHandle,
                     fmt::format("the {} event has no time: it was made with cudaEventDisableTiming", which));
    }
    if (!event->recorded_at) {
      throw ApiError(cudaErrorInvalidResourceHandle,
                     fmt::format("the {} event has no time: call cudaEventRecord first", which));
    }
  }
  return static_cast<float>((*second.recorded_at - *first.recorded_at) * 1e-6);
}

}  // namespace
}  // namespace stagecraft::emulator::runtime

using namespace stagecraft::emulator::runtime;

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return run_call("cudaStreamCreate", Needs::device, [&](State& state) { create_stream(state, stream, 0, 0); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return run_call("cudaStreamCreateWithFlags", Needs::device,
                  [&](State& state) { create_stream(state, stream, flags, 0); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return run_call("cudaStreamCreateWithPriority", Needs::device,
                  [&](State& state) { create_stream(state, stream, flags, priority); });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return run_call("cudaStreamDestroy", Needs::device, [&](State& state) {
    Stream* found = require_stream(state, stream);
    if (found == nullptr) {
      throw ApiError(cudaErrorInvalidResourceHandle, "the default streams cannot be destroyed");
    }
    state.streams.erase(found);
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return run_call("cudaStreamSynchronize", Needs::device, [&](State& state) { require_stream(state, stream); });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return run_call("cudaStreamQuery", Needs::device, [&](State& state) { require_stream(state, stream); });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return run_call("cudaStreamWaitEvent", Needs::device, [&](State& state) {
    require_stream(state, stream);
    require_event(state, event);
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return run_call("cudaStreamGetPriority", Needs::device, [&](State& state) {
    const Stream* found = require_stream(state, stream);
    *required(priority, "priority") = found == nullptr ? 0 : found->priority;
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  return run_call("cudaStreamGetFlags", Needs::device, [&](State& state) {
    const Stream* found = require_stream(state, stream);
    *required(flags, "flags") = found == nullptr ? 0 : found->flags;
  });
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  return run_call("cudaStreamGetId", Needs::device, [&](State& state) {
    const Stream* found = require_stream(state, stream);
    *required(id, "streamId") = found != nullptr ? found->id : stream == cudaStreamPerThread ? 2 : 1;
  });
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  return run_call("cudaStreamGetDevice", Needs::device, [&](State& state) {
    require_stream(state, stream);
    *required(device, "device") = 0;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return run_call("cudaStreamIsCapturing", Needs::device, [&](State& state) {
    require_stream(state, stream);
    *required(status, "pCaptureStatus") = cudaStreamCaptureStatusNone;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return run_call("cudaThreadExchangeStreamCaptureMode", Needs::nothing, [&](State&) {
    thread_local cudaStreamCaptureMode current = cudaStreamCaptureModeGlobal;
    std::swap(current, *required(mode, "mode"));
  });
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void*, size_t, unsigned) {
  return run_call("cudaStreamAttachMemAsync", Needs::device, [&](State& state) { require_stream(state, stream); });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  const cudaError_t error = run_call("cudaLaunchHostFunc", Needs::device, [&](State& state) {
    require_stream(state, stream);
    required(reinterpret_cast<void*>(function), "fn");
  });
  // Outside of the lock: the function may wait for another thread that calls CUDA.
  if (error == cudaSuccess) function(data);
  return error;
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned) {
  const cudaError_t error = run_call("cudaStreamAddCallback", Needs::device, [&](State& state) {
    require_stream(state, stream);
    required(reinterpret_cast<void*>(callback), "callback");
  });
  if (error == cudaSuccess) callback(stream, cudaSuccess, data);
  return error;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return run_call("cudaEventCreate", Needs::device, [&](State& state) { create_event(state, event, 0); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return run_call("cudaEventCreateWithFlags", Needs::device, [&](State& state) { create_event(state, event, flags); });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return run_call("cudaEventDestroy", Needs::device,
                  [&](State& state) { state.events.erase(&require_event(state, event)); });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, 0);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return run_call("cudaEventRecord", Needs::device, [&](State& state) {
    require_stream(state, stream);
    require_event(state, event).recorded_at = state.virtual_nanoseconds;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return run_call("cudaEventSynchronize", Needs::device, [&](State& state) { require_event(state, event); });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return run_call("cudaEventQuery", Needs::device, [&](State& state) { require_event(state, event); });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return run_call("cudaEventElapsedTime", Needs::device,
                  [&](State& state) { *required(milliseconds, "ms") = elapsed_milliseconds(state, start, end); });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return run_call("cudaDeviceGetStreamPriorityRange", Needs::nothing, [&](State&) {
    if (least != nullptr) *least = kLowestPriority;
    if (greatest != nullptr) *greatest = kHighestPriority;
  });
}

}  // extern "C"
