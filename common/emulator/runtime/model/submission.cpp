#include "emulator/runtime/model/submission.hpp"

#include "emulator/runtime/model/kernel_runs.hpp"
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

/// Holds what a copy or a fill accesses in the memory of kernels against what they do there.
class CheckedWork {
 public:
  CheckedWork(State& state, Stream& stream, const char* name) : state_(state) {
    if (!state.settings().checks.global) return;
    state.launches.global_memory.begin(state.streams.begin(stream, false), name, false);
  }
  void accesses(const void* begin, Layout layout, Box box, bool writes) {
    if (!state_.settings().checks.global) return;
    const auto address = reinterpret_cast<uint64_t>(begin);
    const bool is_run = box.depth == 1 && (box.rows == 1 || layout.pitch == box.width);
    if (is_run) return accesses(address, box.width * box.rows, writes);
    for (uint64_t slice = 0; slice < box.depth; ++slice) {
      for (uint64_t row = 0; row < box.rows; ++row) {
        accesses(address + slice * layout.slice + row * layout.pitch, box.width, writes);
      }
    }
  }

 private:
  void accesses(uint64_t address, uint64_t bytes, bool writes) {
    const auto finding =
        state_.launches.global_memory.accessed_by_work(state_.machine().memory(), address, bytes, writes);
    if (!finding) return;
    state_.reporter.report(*finding);
    if (state_.settings().findings_are_errors) state_.set_fault(cudaErrorLaunchFailure);
  }

  State& state_;
};

/// The work of a graph's node, once more. PTX does not say that %gridid is another one then, and on a B300 it is not
/// (deepseek-ai/DeepGEMM#451): with odd seeds it is the same here, too.
KernelWork replay_of(State& state, const KernelWork& node) {
  KernelWork work = prepare_again(state, node);
  if (work.request.seed % 2 != 0) {
    work.request.grid_id = state.launches.grid_ids.try_emplace(&node, state.machine().launches() + 1).first->second;
  }
  return work;
}

/// The events that are recorded after the work. A kernel has ended then, and so has the part of it that such an event
/// stands for.
std::vector<Event*> events_after(State& state, const Work& work) {
  const auto* kernel = std::get_if<KernelWork>(&work);
  if (kernel == nullptr) return {};
  std::vector<Event*> events;
  for (const cudaLaunchAttribute& attribute : kernel->configuration.attributes) {
    if (attribute.id == cudaLaunchAttributeProgrammaticEvent) {
      events.push_back(&state.streams.require_event(attribute.val.programmaticEvent.event));
    } else if (attribute.id == cudaLaunchAttributeLaunchCompletionEvent) {
      events.push_back(&state.streams.require_event(attribute.val.launchCompletionEvent.event));
    }
  }
  return events;
}

}  // namespace

void check_work(State& state, const Work& work) {
  std::visit(Overloaded{
                 [&](const KernelWork& kernel) { check_launch(state, kernel); },
                 [&](const CopyWork& copy) {
                   check_copy(state.machine().memory(), copy.to, copy.to_layout, copy.from, copy.from_layout, copy.box,
                              copy.kind);
                 },
                 [&](const FillWork& fill) {
                   check_fill(state.machine().memory(), fill.to, fill.layout, fill.box, fill.value_bytes);
                 },
                 [&](const HostWork& host) { required(reinterpret_cast<void*>(host.function), "the host function"); },
                 [&](const RecordWork& record) { state.streams.require_event(record.event); },
                 [&](const WaitWork& wait) { state.streams.require_event(wait.event); },
                 [&](const ChildWork& child) { check_works(state, *child.graph); },
                 [&](const ConditionalWork& conditional) {
                   condition(state.graphs, conditional.handle);
                   for (const auto& body : conditional.bodies) check_works(state, *body);
                 },
                 [&](const auto&) {},
             },
             work);
}

void check_works(State& state, const Graph& graph) {
  for (const auto& node : graph.nodes()) check_work(state, node->work);
}

void perform(State& state, Stream& stream, const Work& work, bool in_graph) {
  std::visit(
      Overloaded{
          [&](const KernelWork& kernel) {
            state.streams.work(stream, in_graph ? run_kernel(state, stream, replay_of(state, kernel), in_graph)
                                                : run_kernel(state, stream, kernel, in_graph));
          },
          [&](const CopyWork& copy) {
            CheckedWork checked(state, stream, "a cudaMemcpy");
            const Cost cost = copy_box(state.machine().memory(), copy.to, copy.to_layout, copy.from, copy.from_layout,
                                       copy.box, copy.kind);
            if (cost.engine == Engine::to_host) {
              note_nan(state.machine().memory(), copy.from, copy.from_layout, copy.box, state.launches.nan);
            }
            checked.accesses(copy.from, copy.from_layout, copy.box, false);
            checked.accesses(copy.to, copy.to_layout, copy.box, true);
            state.streams.work(stream, cost);
          },
          [&](const FillWork& fill) {
            CheckedWork checked(state, stream, "a cudaMemset");
            const Cost cost =
                fill_box(state.machine().memory(), fill.to, fill.layout, fill.box, fill.value, fill.value_bytes);
            checked.accesses(fill.to, fill.layout, fill.box, true);
            state.streams.work(stream, cost);
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
  const std::vector<Event*> events = events_after(state, work);
  if (capture_work(state, target, work) == nullptr) perform(state, target, work, /*in_graph=*/false);
  for (Event* event : events) state.streams.record(*event, target);
}

void submit(State& state, KernelWork work) {
  const cudaStream_t stream = work.configuration.stream;
  submit(state, stream, Work(std::move(work)));
}

}  // namespace stagecraft::emulator::runtime
