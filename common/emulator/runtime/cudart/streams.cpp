// The runtime API: streams, events, host functions.
//
// Each call does its work before it returns (see Streams), so nothing here has to wait; a call that waits only moves
// the host's virtual time.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "emulator/runtime/model/api_call.hpp"
#include "emulator/runtime/model/submission.hpp"

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
  *stream = reinterpret_cast<cudaStream_t>(
      &state.streams.create(flags, std::clamp(priority, kHighestPriority, kLowestPriority)));
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
  *event = reinterpret_cast<cudaEvent_t>(&state.streams.create_event(flags));
}

float elapsed_milliseconds(State& state, cudaEvent_t start, cudaEvent_t end) {
  const Event& first = state.streams.require_event(start);
  const Event& second = state.streams.require_event(end);
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

void check_event_flags(unsigned flags, unsigned legal, const char* name) {
  if (flags != 0 && flags != legal) {
    throw ApiError(cudaErrorInvalidValue, fmt::format("flags 0x{:x}; legal are 0 and {}", flags, name));
  }
}

void check_stream_attribute(cudaLaunchAttributeID attribute) {
  switch (attribute) {
    case cudaLaunchAttributeAccessPolicyWindow:
    case cudaLaunchAttributeSynchronizationPolicy:
    case cudaLaunchAttributePriority:
    case cudaLaunchAttributeMemSyncDomainMap:
    case cudaLaunchAttributeMemSyncDomain: return;
    default:
      throw ApiError(cudaErrorInvalidValue, fmt::format("attribute {} is none of a stream; those are access policy "
                                                        "window, synchronisation policy, priority and memory "
                                                        "synchronisation domains",
                                                        static_cast<int>(attribute)));
  }
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
  return run_call("cudaStreamDestroy", Needs::device, [&](State& state) { state.streams.destroy(stream); });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return run_call("cudaStreamSynchronize", Needs::device, [&](State& state) {
    Stream& found = state.streams.require(stream);
    state.streams.forbid_capture_of(found, "waiting");
    state.streams.host_waits_for(found);
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return run_call("cudaStreamQuery", Needs::device, [&](State& state) {
    Stream& found = state.streams.require(stream);
    state.streams.forbid_capture_of(found, "asking whether all is done");
    state.streams.host_learns(found);
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return run_call("cudaStreamWaitEvent", Needs::device, [&](State& state) {
    check_event_flags(flags, cudaEventWaitExternal, "cudaEventWaitExternal");
    const Event& found = state.streams.require_event(event);
    if (flags == cudaEventWaitExternal) return submit(state, stream, WaitWork{event});
    state.streams.wait(state.streams.require(stream), found);
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return run_call("cudaStreamGetPriority", Needs::device,
                  [&](State& state) { *required(priority, "priority") = state.streams.require(stream).priority; });
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  return run_call("cudaStreamGetFlags", Needs::device,
                  [&](State& state) { *required(flags, "flags") = state.streams.require(stream).flags; });
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  return run_call("cudaStreamGetId", Needs::device,
                  [&](State& state) { *required(id, "streamId") = state.streams.require(stream).id; });
}

// The attributes that can be set only tune.
cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaLaunchAttributeID attribute,
                                   const cudaLaunchAttributeValue* value) {
  return run_call("cudaStreamSetAttribute", Needs::device, [&](State& state) {
    check_stream_attribute(attribute);
    Stream& found = state.streams.require(stream);
    found.attributes[attribute] = *required(value, "value");
    if (attribute == cudaLaunchAttributePriority) {
      found.priority = std::clamp(value->priority, kHighestPriority, kLowestPriority);
    }
  });
}

cudaError_t cudaStreamGetAttribute(cudaStream_t stream, cudaLaunchAttributeID attribute,
                                   cudaLaunchAttributeValue* value) {
  return run_call("cudaStreamGetAttribute", Needs::device, [&](State& state) {
    check_stream_attribute(attribute);
    const Stream& found = state.streams.require(stream);
    const auto set = found.attributes.find(attribute);
    *required(value, "value_out") = set == found.attributes.end() ? cudaLaunchAttributeValue{} : set->second;
    if (attribute == cudaLaunchAttributePriority) value->priority = found.priority;
  });
}

cudaError_t cudaStreamCopyAttributes(cudaStream_t to, cudaStream_t from) {
  return run_call("cudaStreamCopyAttributes", Needs::device,
                  [&](State& state) { state.streams.require(to).attributes = state.streams.require(from).attributes; });
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  return run_call("cudaStreamGetDevice", Needs::device, [&](State& state) {
    state.streams.require(stream);
    *required(device, "device") = 0;
  });
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void* pointer, size_t, unsigned flags) {
  return run_call("cudaStreamAttachMemAsync", Needs::device, [&](State& state) {
    state.streams.require_for_work(stream);
    required(pointer, "devPtr");
    if (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost && flags != cudaMemAttachSingle) {
      throw ApiError(cudaErrorInvalidValue,
                     fmt::format("flags are {}; legal are cudaMemAttachGlobal, cudaMemAttachHost and "
                                 "cudaMemAttachSingle",
                                 flags));
    }
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  bool is_captured = false;
  const cudaError_t error = run_call("cudaLaunchHostFunc", Needs::device, [&](State& state) {
    Stream& target = state.streams.require_for_work(stream);
    required(reinterpret_cast<void*>(function), "fn");
    is_captured = capture_work(state, target, HostWork{function, data}) != nullptr;
  });
  if (error == cudaSuccess && !is_captured) call_host_function([&] { function(data); });
  return error;
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned flags) {
  const cudaError_t error = run_call("cudaStreamAddCallback", Needs::device, [&](State& state) {
    state.streams.forbid_capture_of(state.streams.require_for_work(stream), "a callback, unlike cudaLaunchHostFunc,");
    required(reinterpret_cast<void*>(callback), "callback");
    check_no_flags(flags);
  });
  if (error == cudaSuccess) call_host_function([&] { callback(stream, cudaSuccess, data); });
  return error;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return run_call("cudaEventCreate", Needs::device, [&](State& state) { create_event(state, event, 0); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return run_call("cudaEventCreateWithFlags", Needs::device, [&](State& state) { create_event(state, event, flags); });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return run_call("cudaEventDestroy", Needs::device, [&](State& state) { state.streams.destroy_event(event); });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, 0);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return run_call("cudaEventRecord", Needs::device, [&](State& state) {
    check_event_flags(flags, cudaEventRecordExternal, "cudaEventRecordExternal");
    Event& found = state.streams.require_event(event);
    if (flags == cudaEventRecordExternal) return submit(state, stream, RecordWork{event});
    state.streams.record(found, state.streams.require_for_work(stream));
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return run_call("cudaEventSynchronize", Needs::device, [&](State& state) {
    const Event& found = state.streams.require_event(event);
    state.streams.forbid_captured(found);
    state.streams.host_waits_for(found);
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return run_call("cudaEventQuery", Needs::device, [&](State& state) {
    const Event& found = state.streams.require_event(event);
    state.streams.forbid_captured(found);
    state.streams.host_learns(found);
  });
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
