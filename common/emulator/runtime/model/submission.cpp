#include "emulator/runtime/model/submission.hpp"

#include "emulator/runtime/model/launch.hpp"
#include "emulator/runtime/model/memory_operations.hpp"
#include "emulator/runtime/model/state.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// A visitor of std::visit, made of one function for each case.
template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

}  // namespace

void check_work(State& state, const Work& work) {
  std::visit(Overloaded{
                 [&](const KernelWork& kernel) { check_launch(state, kernel); },
                 [&](const CopyWork& copy) {
                   check_copy(state, copy.to, copy.to_layout, copy.from, copy.from_layout, copy.box, copy.kind);
                 },
                 [&](const FillWork& fill) { check_fill(state, fill.to, fill.layout, fill.box, fill.value_bytes); },
                 [&](const HostWork& host) { required(reinterpret_cast<void*>(host.function), "the host function"); },
                 [&](const RecordWork& record) { state.streams.require_event(record.event); },
                 [&](const WaitWork& wait) { state.streams.require_event(wait.event); },
                 [&](const ChildWork& child) { check_works(state, *child.graph); },
                 [&](const ConditionalWork& conditional) {
                   condition(state, conditional.handle);
                   for (const auto& body : conditional.bodies) check_works(state, *body);
                 },
                 [&](const auto&) {},
             },
             work);
}

void check_works(State& state, const Graph& graph) {
  for (const auto& node : graph.nodes()) check_work(state, node->work);
}

void perform(State& state, Stream& stream, const Work& work) {
  std::visit(
      Overloaded{
          [&](const KernelWork& kernel) { state.streams.work(stream, run_kernel(state, kernel)); },
          [&](const CopyWork& copy) {
            state.streams.work(
                stream, copy_box(state, copy.to, copy.to_layout, copy.from, copy.from_layout, copy.box, copy.kind));
          },
          [&](const FillWork& fill) {
            state.streams.work(stream, fill_box(state, fill.to, fill.layout, fill.box, fill.value, fill.value_bytes));
          },
          [&](const RecordWork& record) { state.streams.record(state.streams.require_event(record.event), stream); },
          [&](const WaitWork& wait) { state.streams.wait(stream, state.streams.require_event(wait.event)); },
          [&](const AllocateWork& allocation) {
            if (allocation.memory->is_live) {
              throw ApiError(
                  cudaErrorInvalidValue,
                  "the graph allocates memory that an earlier launch allocated and nobody has freed: free it, "
                  "or instantiate with cudaGraphInstantiateFlagAutoFreeOnLaunch");
            }
            allocation.memory->is_live = true;
          },
          [&](const FreeWork& free) { release(state, free.pointer, false); },
          [&](const auto&) {},
      },
      work);
}

GraphNode* capture_work(State& state, Stream& stream, const Work& work) {
  if (stream.capture == nullptr) return nullptr;
  check_work(state, work);
  return &state.streams.capture(stream, work);
}

void submit(State& state, cudaStream_t stream, Work work) {
  Stream& target = state.streams.require_for_work(stream);
  if (capture_work(state, target, work) == nullptr) perform(state, target, work);
}

}  // namespace stagecraft::emulator::runtime
