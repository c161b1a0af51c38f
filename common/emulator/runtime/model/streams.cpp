#include "emulator/runtime/model/streams.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "emulator/runtime/model/graphs.hpp"

namespace stagecraft::emulator::runtime {
namespace {

constexpr uint64_t kLegacyId = 1, kPerThreadId = 2;

/// What is known when all works of a stream have ended.
checks::WorkClock all_of(const Stream& stream) {
  checks::WorkClock known = stream.order.known;
  known.miss_none(stream.order.component);
  return known;
}

void remove(std::vector<Stream*>& streams, const Stream* stream) { std::erase(streams, stream); }

/// Adds the nodes that are not in the list yet.
void add_all(std::vector<GraphNode*>& nodes, const std::vector<GraphNode*>& more) {
  for (GraphNode* node : more) {
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
  }
}

/// Whether all of `nodes` are among `ends` or come before them.
bool are_before(const std::vector<GraphNode*>& nodes, const std::vector<GraphNode*>& ends) {
  std::unordered_set<const GraphNode*> before;
  std::vector<const GraphNode*> rest(ends.begin(), ends.end());
  while (!rest.empty()) {
    const GraphNode* node = rest.back();
    rest.pop_back();
    if (!before.insert(node).second) continue;
    for (const Edge& edge : node->dependencies) rest.push_back(edge.from);
  }
  return std::all_of(nodes.begin(), nodes.end(), [&](const GraphNode* node) { return before.contains(node); });
}

}  // namespace

unsigned& PerThreadDefault::depth() {
  thread_local unsigned depth = 0;
  return depth;
}

Streams::Streams() { legacy_.id = kLegacyId; }
Streams::~Streams() = default;

Stream& Streams::create(unsigned flags, int priority) {
  auto made = std::make_unique<Stream>();
  made->id = next_id_++;
  made->flags = flags;
  made->priority = priority;
  made->done_at = 0;
  Stream* key = made.get();
  return *streams_.emplace(key, std::move(made)).first->second;
}

Stream& Streams::of_this_thread() {
  std::unique_ptr<Stream>& stream = of_threads_[std::this_thread::get_id()];
  if (!stream) {
    stream = std::make_unique<Stream>();
    stream->id = kPerThreadId;
  }
  return *stream;
}

Stream& Streams::require(cudaStream_t stream) {
  if (stream == nullptr && PerThreadDefault::is_on()) return of_this_thread();
  if (stream == nullptr || stream == cudaStreamLegacy) return legacy_;
  if (stream == cudaStreamPerThread) return of_this_thread();
  auto* key = reinterpret_cast<Stream*>(stream);
  if (!streams_.contains(key)) {
    throw ApiError(cudaErrorInvalidResourceHandle,
                   fmt::format("{} is no stream: it was never created, or is already destroyed", fmt::ptr(stream)));
  }
  return *key;
}

Stream& Streams::require_for_work(cudaStream_t stream) {
  Stream& found = require(stream);
  forbid_implicit_order(found);
  if (found.capture != nullptr && found.capture->is_invalid) {
    throw ApiError(cudaErrorStreamCaptureInvalidated,
                   "the capture of the stream was made invalid by an earlier call; end it with cudaStreamEndCapture");
  }
  return found;
}

void Streams::destroy(cudaStream_t stream) {
  Stream& found = require(stream);
  if (!streams_.contains(&found)) {
    throw ApiError(cudaErrorInvalidResourceHandle, "the default streams cannot be destroyed");
  }
  if (Capture* capture = found.capture) {
    remove(capture->streams, &found);
    add_all(capture->ends, found.captured_front);
    if (capture->origin == &found) {
      for (Stream* other : capture->streams) {
        other->capture = nullptr;
        other->captured_front.clear();
      }
      captures_.erase(capture->id);
    }
  }
  streams_.erase(&found);
}

Event& Streams::create_event(unsigned flags) {
  auto made = std::make_unique<Event>();
  made->flags = flags;
  Event* key = made.get();
  return *events_.emplace(key, std::move(made)).first->second;
}

Event& Streams::require_event(cudaEvent_t event) {
  auto* key = reinterpret_cast<Event*>(event);
  if (!events_.contains(key)) {
    throw ApiError(cudaErrorInvalidResourceHandle,
                   event == nullptr
                       ? std::string("the event is a null pointer")
                       : fmt::format("{} is no event: it was never created, or is already destroyed", fmt::ptr(event)));
  }
  return *key;
}

void Streams::destroy_event(cudaEvent_t event) { events_.erase(&require_event(event)); }

void Streams::record(Event& event, Stream& stream) {
  event.captured_by = 0;
  event.captured_front.clear();
  if (stream.capture != nullptr) {
    event.recorded_at.reset();
    event.captured_by = stream.capture->id;
    event.captured_front = stream.captured_front;
    return;
  }
  event.recorded_at = ready_at(stream);
  event.order = order_at(stream);
}

void Streams::wait(Stream& stream, const Event& event) {
  if (event.captured_by != 0) {
    const auto found = captures_.find(event.captured_by);
    if (found == captures_.end()) {
      throw ApiError(
          cudaErrorInvalidValue,
          "the event was recorded in a capture that has ended: it stands for work of a graph, not of a stream");
    }
    Capture& capture = *found->second;
    if (stream.capture != nullptr && stream.capture != &capture) {
      capture.is_invalid = true;
      invalidate(*stream.capture, cudaErrorStreamCaptureMerge,
                 "the stream and the event are captured into different graphs, which cannot be joined");
    }
    if (&stream == &legacy_) {
      invalidate(capture, cudaErrorStreamCaptureImplicit, "the legacy default stream cannot join a capture");
    }
    if (stream.capture == nullptr) {
      stream.capture = &capture;
      stream.captured_front.clear();
      capture.streams.push_back(&stream);
    }
    add_all(stream.captured_front, event.captured_front);
    return;
  }
  if (stream.capture != nullptr) {
    invalidate(*stream.capture, cudaErrorStreamCaptureIsolation,
               "a captured stream cannot wait for an event that was recorded outside of the capture; "
               "cudaEventWaitExternal makes a node of the graph of it");
  }
  if (event.recorded_at) stream.done_at = std::max(stream.done_at, *event.recorded_at);
  stream.order.known.join(event.order);
  stream.order.awaited.join(event.order);
}

double Streams::ready_at(const Stream& stream) const {
  double time = std::max(host_time_, stream.done_at);
  if (&stream == &legacy_) {
    for (const auto& [key, other] : streams_) {
      if (other->is_blocking()) time = std::max(time, other->done_at);
    }
    for (const auto& [thread, other] : of_threads_) time = std::max(time, other->done_at);
  } else if (stream.is_blocking()) {
    time = std::max(time, legacy_.done_at);
  }
  return time;
}

checks::WorkClock Streams::order_at(const Stream& stream) const {
  checks::WorkClock known = order_around(stream);
  known.join(all_of(stream));
  return known;
}

checks::WorkClock Streams::order_around(const Stream& stream) const {
  checks::WorkClock known = host_order_;
  known.join(stream.order.awaited);
  if (&stream == &legacy_) {
    for (const auto& [key, other] : streams_) {
      if (other->is_blocking()) known.join(all_of(*other));
    }
    for (const auto& [thread, other] : of_threads_) known.join(all_of(*other));
  } else if (stream.is_blocking()) {
    known.join(all_of(legacy_));
  }
  return known;
}

checks::WorkStart Streams::begin(Stream& stream, bool is_kernel, bool may_overlap) {
  checks::StreamOrder& order = stream.order;
  if (order.component == 0) order.component = next_component_++;
  checks::WorkStart start;
  start.component = order.component;
  start.time = ++order.time;
  if (is_kernel) {
    start.known = order_around(stream);
    start.known.join(order.known);
  } else {
    start.known = order_at(stream);
  }
  start.known_to_host = host_order_;
  start.stream = &stream == &legacy_         ? "the legacy default stream"
                 : stream.id == kPerThreadId ? "the default stream of a thread"
                                             : fmt::format("stream {}", stream.id);
  start.may_overlap = may_overlap && is_kernel && order.last_is_kernel;
  if (start.may_overlap) {
    start.known_before_wait = order.at_last_start;
    start.known_before_wait.join(host_order_);
    start.known_before_wait.join(order.awaited);
    if (&stream != &legacy_ && stream.is_blocking()) start.known_before_wait.join(all_of(legacy_));
  }
  order.at_last_start = start.may_overlap ? start.known_before_wait : start.known;
  order.awaited = {};
  order.known = start.known;
  order.known.raise(order.component, order.time);
  order.last_is_kernel = is_kernel;
  order.last_overlaps = start.may_overlap;
  return start;
}

void Streams::kernel_ended(Stream& stream, bool has_waited, bool lets_next_start) {
  checks::StreamOrder& order = stream.order;
  const bool previous_lets_start = std::exchange(order.last_lets_next_start, lets_next_start);
  if (!order.last_overlaps || !previous_lets_start || has_waited) return;
  for (checks::WorkTime time = order.at_last_start.at(order.component) + 1; time < order.time; ++time) {
    order.known.miss(order.component, time, order.time);
  }
}

void Streams::host_learns_all() {
  host_learns(legacy_);
  for (const auto& [key, stream] : streams_) host_learns(*stream);
  for (const auto& [thread, stream] : of_threads_) host_learns(*stream);
}

void Streams::work(Stream& stream, Cost cost) {
  double& free_at = free_at_[static_cast<size_t>(cost.engine)];
  stream.done_at = free_at = std::max(ready_at(stream), free_at) + cost.nanoseconds;
}

void Streams::host_waits_for_all() {
  host_waits_for(legacy_);
  for (const auto& [key, stream] : streams_) host_waits_for(*stream);
  for (const auto& [thread, stream] : of_threads_) host_waits_for(*stream);
}

void Streams::invalidate(Capture& capture, cudaError_t error, std::string message) {
  capture.is_invalid = true;
  throw ApiError(error, std::move(message));
}

void Streams::begin_capture(Stream& stream, cudaStreamCaptureMode mode, Graph* into, std::vector<GraphNode*> front) {
  if (&stream == &legacy_) {
    throw ApiError(cudaErrorStreamCaptureUnsupported,
                   "the legacy default stream cannot be captured: make one with cudaStreamCreate");
  }
  if (stream.capture != nullptr) throw ApiError(cudaErrorIllegalState, "the stream is already being captured");
  auto capture = std::make_unique<Capture>();
  capture->id = next_capture_++;
  capture->origin = &stream;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->streams = {&stream};
  if (into == nullptr) capture->made = std::make_shared<Graph>();
  capture->graph = into != nullptr ? into : capture->made.get();
  stream.capture = capture.get();
  stream.captured_front = std::move(front);
  const uint64_t id = capture->id;
  captures_.emplace(id, std::move(capture));
}

std::shared_ptr<Graph> Streams::end_capture(Stream& stream, Graph*& graph) {
  graph = nullptr;
  if (stream.capture == nullptr) throw ApiError(cudaErrorIllegalState, "the stream is not being captured");
  Capture& capture = *stream.capture;
  if (capture.origin != &stream) {
    invalidate(capture, cudaErrorStreamCaptureUnmatched,
               "the capture was begun in another stream, and must be ended there");
  }
  if (capture.mode != cudaStreamCaptureModeRelaxed && capture.thread != std::this_thread::get_id()) {
    throw ApiError(cudaErrorStreamCaptureWrongThread, "the capture was begun by another thread, which must end it");
  }
  const bool is_joined = are_before(capture.ends, stream.captured_front) &&
                         std::all_of(capture.streams.begin(), capture.streams.end(), [&](const Stream* other) {
                           return are_before(other->captured_front, stream.captured_front);
                         });
  for (Stream* other : capture.streams) {
    if (other == &stream) continue;
    other->capture = nullptr;
    other->captured_front.clear();
  }
  stream.capture = nullptr;
  stream.captured_front.clear();
  const bool is_invalid = capture.is_invalid;
  std::shared_ptr<Graph> made = std::move(capture.made);
  Graph* const into = capture.graph;
  captures_.erase(capture.id);
  if (is_invalid) {
    throw ApiError(cudaErrorStreamCaptureInvalidated, "a call that is forbidden during a capture has made it invalid");
  }
  if (!is_joined) {
    throw ApiError(cudaErrorStreamCaptureUnjoined,
                   "another stream that the capture went over to holds work that nothing waits for: record an event "
                   "there and wait for it in the first stream");
  }
  graph = into;
  return made;
}

GraphNode& Streams::capture(Stream& stream, Work work) {
  std::vector<Edge> dependencies;
  for (GraphNode* node : stream.captured_front) dependencies.push_back({node, {}});
  GraphNode& node = stream.capture->graph->add(std::move(work), std::move(dependencies));
  stream.captured_front = {&node};
  return node;
}

bool Streams::is_capturing(uint64_t capture) const { return captures_.contains(capture); }

void Streams::forbid_capture_of(Stream& stream, const char* what) {
  if (stream.capture != nullptr) {
    invalidate(*stream.capture, cudaErrorStreamCaptureUnsupported,
               fmt::format("{} while the stream is captured: nothing runs before the graph is launched", what));
  }
  forbid_implicit_order(stream);
}

void Streams::forbid_any_capture(const char* what) {
  if (captures_.empty()) return;
  for (const auto& [id, capture] : captures_) capture->is_invalid = true;
  throw ApiError(cudaErrorStreamCaptureUnsupported,
                 fmt::format("{} while a stream is captured: nothing runs before the graph is launched", what));
}

void Streams::forbid_unsafe_call(const char* what) {
  const cudaStreamCaptureMode of_thread = thread_capture_mode();
  if (captures_.empty() || of_thread == cudaStreamCaptureModeRelaxed) return;
  for (const auto& [id, capture] : captures_) {
    const bool is_ours = capture->thread == std::this_thread::get_id();
    const bool forbids =
        (capture->mode == cudaStreamCaptureModeGlobal && (is_ours || of_thread == cudaStreamCaptureModeGlobal)) ||
        (capture->mode == cudaStreamCaptureModeThreadLocal && is_ours);
    if (!forbids) continue;
    invalidate(
        *capture, cudaErrorStreamCaptureUnsupported,
        fmt::format("{} while a stream is captured: do it before, or capture with cudaStreamCaptureModeRelaxed", what));
  }
}

void Streams::forbid_captured(const Event& event) {
  if (event.captured_by == 0) return;
  const auto found = captures_.find(event.captured_by);
  if (found == captures_.end()) {
    throw ApiError(cudaErrorInvalidValue, "the event was recorded in a capture, so it never happens");
  }
  invalidate(*found->second, cudaErrorCapturedEvent,
             "the event was recorded in a stream that is captured: it never happens");
}

void Streams::forbid_implicit_order(const Stream& stream) {
  if (&stream != &legacy_) return;
  for (const auto& [id, capture] : captures_) {
    for (const Stream* other : capture->streams) {
      if (!other->is_blocking()) continue;
      invalidate(
          *capture, cudaErrorStreamCaptureImplicit,
          "the legacy default stream waits for the stream that is captured: use another stream, or make that one "
          "with cudaStreamNonBlocking");
    }
  }
}

cudaStreamCaptureMode& Streams::thread_capture_mode() {
  thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  return mode;
}

void Streams::reset() {
  captures_.clear();
  streams_.clear();
  of_threads_.clear();
  events_.clear();
  legacy_ = {};
  legacy_.id = kLegacyId;
  host_time_ = 0;
  host_order_ = {};
  free_at_ = {};
}

}  // namespace stagecraft::emulator::runtime
