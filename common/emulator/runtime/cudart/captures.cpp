// The runtime API: capturing streams into graphs.
#include <fmt/format.h>

#include "emulator/runtime/cudart/graph_handles.hpp"
#include "emulator/runtime/model/api_call.hpp"

using namespace stagecraft::emulator::runtime;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return run_call("cudaStreamBeginCapture", Needs::device, [&](State& state) {
    if (mode < cudaStreamCaptureModeGlobal || mode > cudaStreamCaptureModeRelaxed) {
      throw ApiError(cudaErrorInvalidValue, fmt::format("mode {}; legal are 0 to 2", static_cast<int>(mode)));
    }
    state.streams.begin_capture(state.streams.require(stream), mode, nullptr, {});
  });
}

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                          const cudaGraphEdgeData* data, size_t count, cudaStreamCaptureMode mode) {
  return run_call("cudaStreamBeginCaptureToGraph", Needs::device, [&](State& state) {
    Graph& found = state.graphs.require(graph);
    std::vector<GraphNode*> front;
    for (const Edge& edge : edges_from(state, found, dependencies, data, count)) front.push_back(edge.from);
    state.streams.begin_capture(state.streams.require(stream), mode, &found, std::move(front));
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return run_call("cudaStreamEndCapture", Needs::device, [&](State& state) {
    if (graph != nullptr) *graph = nullptr;
    Graph* captured = nullptr;
    std::shared_ptr<Graph> made = state.streams.end_capture(state.streams.require(stream), captured);
    // A program that captured into a graph of its own need not ask for it.
    if (made != nullptr) required(graph, "pGraph");
    if (made != nullptr) state.graphs.add(std::move(made));
    if (graph != nullptr) *graph = handle_of(*captured);
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return cudaStreamGetCaptureInfo(stream, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, size_t* count) {
  return run_call("cudaStreamGetCaptureInfo", Needs::device, [&](State& state) {
    Stream& found = state.streams.require(stream);
    const Capture* capture = found.capture;
    if (capture == nullptr) state.streams.forbid_implicit_order(found);
    *required(status, "captureStatus_out") = capture == nullptr    ? cudaStreamCaptureStatusNone
                                             : capture->is_invalid ? cudaStreamCaptureStatusInvalidated
                                                                   : cudaStreamCaptureStatusActive;
    if (*status != cudaStreamCaptureStatusActive) return;
    if (id != nullptr) *id = capture->id;
    if (graph != nullptr) *graph = handle_of(*capture->graph);
    // The lists belong to the stream and stay valid until the next call that concerns it.
    found.captured_edges.assign(found.captured_front.size(), {});
    if (dependencies != nullptr) *dependencies = reinterpret_cast<cudaGraphNode_t*>(found.captured_front.data());
    if (edges != nullptr) *edges = found.captured_edges.data();
    if (count != nullptr) *count = found.captured_front.size();
  });
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* dependencies,
                                                const cudaGraphEdgeData* data, size_t count, unsigned flags) {
  return run_call("cudaStreamUpdateCaptureDependencies", Needs::device, [&](State& state) {
    Stream& found = state.streams.require_for_work(stream);
    if (found.capture == nullptr) throw ApiError(cudaErrorIllegalState, "the stream is not being captured");
    if (flags > cudaStreamSetCaptureDependencies) {
      throw ApiError(cudaErrorInvalidValue, fmt::format("flags are {}; legal are 0 (add) and 1 (set)", flags));
    }
    if (flags == cudaStreamSetCaptureDependencies) found.captured_front.clear();
    for (const Edge& edge : edges_from(state, *found.capture->graph, dependencies, data, count)) {
      found.captured_front.push_back(edge.from);
    }
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return run_call("cudaThreadExchangeStreamCaptureMode", Needs::nothing,
                  [&](State&) { std::swap(Streams::thread_capture_mode(), *required(mode, "mode")); });
}

}  // extern "C"
