// Streams and events: what they are, when their work ends on the virtual clock, and what is captured from them.
//
// Each call does its work before it returns, which is an order that all streams permit, so nothing here waits. Streams
// decide only the virtual time at which their work ends, which events report: work of one stream is in order, the
// legacy default stream is in order with all but the non-blocking streams, kernels follow each other, and copies to the
// device and from it have an engine each.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "emulator/checks/global_memory/work_order.hpp"
#include "emulator/runtime/model/errors.hpp"
#include "emulator/runtime/model/work.hpp"

namespace stagecraft::emulator::runtime {

class Graph;
struct GraphNode;
struct Capture;

struct Stream {
  uint64_t id = 0;
  unsigned flags = 0;
  int priority = 0;
  double done_at = 0;  ///< virtual nanoseconds; the end of all its work so far
  checks::StreamOrder order;

  Capture* capture = nullptr;                     ///< its work is added to this instead of being done
  std::vector<GraphNode*> captured_front;         ///< the nodes that the next captured work depends on
  std::vector<cudaGraphEdgeData> captured_edges;  ///< of the front, for cudaStreamGetCaptureInfo; all are plain

  std::map<int, cudaLaunchAttributeValue> attributes;  ///< set with cudaStreamSetAttribute; they only tune

  bool is_blocking() const { return (flags & cudaStreamNonBlocking) == 0; }
};

struct Event {
  unsigned flags = 0;
  std::optional<double> recorded_at;  ///< virtual nanoseconds
  checks::WorkClock order;            ///< the works that have ended when it happens

  uint64_t captured_by = 0;                ///< the capture in which it was recorded last; 0 for none
  std::vector<GraphNode*> captured_front;  ///< the nodes whose completion it then stands for
};

/// A graph that is being made of the work of streams.
struct Capture {
  uint64_t id = 0;
  Stream* origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;  ///< the thread that began it
  Graph* graph = nullptr;
  std::shared_ptr<Graph> made;  ///< the same, unless the program passed the graph
  bool is_invalid = false;      ///< something forbidden was done; it can only be ended
  std::vector<Stream*> streams;
  std::vector<GraphNode*> ends;  ///< the last nodes of streams that were destroyed
};

/// While an object of this class exists, a null stream means that of the calling thread instead of the legacy one. The
/// functions that programs compiled with `nvcc --default-stream per-thread` call have one
/// (exports/per_thread_stream.hpp).
class PerThreadDefault {
 public:
  PerThreadDefault() { ++depth(); }
  ~PerThreadDefault() { --depth(); }
  PerThreadDefault(const PerThreadDefault&) = delete;
  PerThreadDefault& operator=(const PerThreadDefault&) = delete;
  static bool is_on() { return depth() > 0; }

 private:
  static unsigned& depth();
};

/// Parts of the chip that work at the same time.
enum class Engine : uint8_t { compute, to_device, to_host };
/// The time that a piece of work takes on the virtual clock.
struct Cost {
  Engine engine = Engine::compute;
  double nanoseconds = 0;
};

/// Owner of all streams, events and captures, and of the virtual clock. Every function that throws throws ApiError.
class Streams {
 public:
  Streams();
  ~Streams();

  Stream& create(unsigned flags, int priority);
  /// The stream of a handle; null and cudaStreamLegacy are the legacy default stream (but see PerThreadDefault),
  /// cudaStreamPerThread is the calling thread's own. Throws (cudaErrorInvalidResourceHandle) when there is none.
  Stream& require(cudaStream_t stream);
  /// Does the same for a stream that gets work. Throws (cudaErrorStreamCaptureImplicit) when that would order captured
  /// work with other work: the legacy stream while a blocking stream is captured. Throws when its capture is invalid.
  Stream& require_for_work(cudaStream_t stream);
  /// Throws for the default streams.
  void destroy(cudaStream_t stream);

  Event& create_event(unsigned flags);
  /// Throws (cudaErrorInvalidResourceHandle).
  Event& require_event(cudaEvent_t event);
  void destroy_event(cudaEvent_t event);
  /// Records the event in the stream, or in its capture.
  void record(Event& event, Stream& stream);
  /// Orders later work of the stream after the event; so a stream joins the capture in which the event was recorded.
  void wait(Stream& stream, const Event& event);

  // ---- The virtual clock ----
  /// Books the engine for work of the stream, as soon as both are free.
  void work(Stream& stream, Cost cost);
  /// Moves the host's time to the end of the stream's work so far.
  void host_waits_for(const Stream& stream) {
    host_time_ = std::max(host_time_, stream.done_at);
    host_learns(stream);
  }
  void host_waits_for(const Event& event) {
    if (event.recorded_at) host_time_ = std::max(host_time_, *event.recorded_at);
    host_learns(event);
  }
  void host_waits_for_all();

  // ---- What may happen at the same time on a chip (checks/global_memory/work_order.hpp) ----
  /// The next work of the stream begins.
  /// @param may_overlap  a kernel that may begin before the kernel before it has ended
  checks::WorkStart begin(Stream& stream, bool is_kernel, bool may_overlap = false);
  /// The kernel that began last has ended.
  /// @param has_waited       some thread has executed griddepcontrol.wait
  /// @param lets_next_start  it has griddepcontrol.launch_dependents
  static void kernel_ended(Stream& stream, bool has_waited, bool lets_next_start);
  /// All works of the stream have ended for its next one.
  static void all_ended(Stream& stream) { stream.order.known.miss_none(stream.order.component); }
  /// The host knows that the stream's work, what the event stands for, or all of the work has ended, without waiting.
  void host_learns(const Stream& stream) { host_order_.join(order_at(stream)); }
  void host_learns(const Event& event) { host_order_.join(event.order); }
  void host_learns_all();

  // ---- Captures ----
  /// Captures the stream into a new graph, or into `into` after the nodes of `front`. Throws.
  void begin_capture(Stream& stream, cudaStreamCaptureMode mode, Graph* into, std::vector<GraphNode*> front);
  /// Ends the capture and returns its graph, unless the program passed that. Throws; the capture has ended even then,
  /// if the stream had one.
  std::shared_ptr<Graph> end_capture(Stream& stream, Graph*& graph);
  /// Adds work that was checked to the graph that the stream is captured into.
  GraphNode& capture(Stream& stream, Work work);
  bool is_capturing(uint64_t capture) const;
  /// Throws (cudaErrorStreamCaptureUnsupported), and makes the capture invalid, when the stream is captured.
  void forbid_capture_of(Stream& stream, const char* what);
  /// Does the same for a call that concerns all streams.
  void forbid_any_capture(const char* what);
  /// Does the same for a call that is unsafe while streams are captured, if their modes and the thread's forbid it.
  void forbid_unsafe_call(const char* what);
  /// Throws (cudaErrorCapturedEvent) when the event stands for captured work, which cannot be waited for.
  void forbid_captured(const Event& event);
  /// Throws as require_for_work does.
  void forbid_implicit_order(const Stream& stream);

  /// The mode of this thread for unsafe calls, set by cudaThreadExchangeStreamCaptureMode.
  static cudaStreamCaptureMode& thread_capture_mode();

  void reset();

 private:
  Stream& of_this_thread();
  /// When work of the stream can begin at the earliest.
  double ready_at(const Stream& stream) const;
  /// Which works have ended then.
  checks::WorkClock order_at(const Stream& stream) const;
  /// Which of them are known from outside of the stream.
  checks::WorkClock order_around(const Stream& stream) const;
  [[noreturn]] void invalidate(Capture& capture, cudaError_t error, std::string message);

  std::unordered_map<Stream*, std::unique_ptr<Stream>> streams_;
  std::unordered_map<std::thread::id, std::unique_ptr<Stream>> of_threads_;
  std::unordered_map<Event*, std::unique_ptr<Event>> events_;
  std::map<uint64_t, std::unique_ptr<Capture>> captures_;
  Stream legacy_;
  uint64_t next_id_ = 3;  // after the legacy and the per-thread ones
  uint64_t next_capture_ = 1;
  double host_time_ = 0;
  checks::WorkClock host_order_;     ///< works that the host knows to have ended
  uint32_t next_component_ = 1;      ///< of a stream in such a clock
  std::array<double, 3> free_at_{};  // of each engine
};

}  // namespace stagecraft::emulator::runtime
