#include "emulator/runtime/model/work_parameters.hpp"

#include <fmt/format.h>

#include "emulator/runtime/model/arrays.hpp"
#include "emulator/runtime/model/launch.hpp"
#include "emulator/runtime/model/state.hpp"

namespace stagecraft::emulator::runtime {
namespace {

void* position(const cudaPitchedPtr& memory, const cudaPos& at) {
  if (memory.ptr == nullptr) return nullptr;
  return static_cast<char*>(memory.ptr) + at.x + memory.pitch * (at.y + memory.ysize * at.z);
}

cudaPitchedPtr pitched(const void* pointer, Layout layout, Box box) {
  return {const_cast<void*>(pointer), layout.pitch == 0 ? box.width : layout.pitch, box.width,
          layout.pitch == 0 || layout.slice == 0 ? box.rows : layout.slice / layout.pitch};
}

}  // namespace

// The unit of extents and places is a texel where an array takes part, and a byte otherwise.
CopyWork copy_work(const cudaMemcpy3DParms& what) {
  Arrays& arrays = State::instance().memory.arrays;
  const Array* const to = what.dstArray == nullptr ? nullptr : &arrays.require(what.dstArray);
  const Array* const from = what.srcArray == nullptr ? nullptr : &arrays.require(what.srcArray);
  const uint64_t unit = to != nullptr ? to->texel_bytes : from != nullptr ? from->texel_bytes : 1;
  if (to != nullptr && from != nullptr && to->texel_bytes != from->texel_bytes) {
    throw ApiError(cudaErrorInvalidValue, fmt::format("a copy from texels of {} bytes to texels of {} bytes",
                                                      from->texel_bytes, to->texel_bytes));
  }
  const Box box{what.extent.width * unit, what.extent.height, what.extent.depth};
  const auto side = [&](const Array* array, const cudaPitchedPtr& memory, cudaPos at) -> ArrayPlace {
    if (array != nullptr) return place_in(*array, {at.x * array->texel_bytes, at.y, at.z}, box);
    return {position(memory, at), {memory.pitch, memory.pitch * memory.ysize}};
  };
  const ArrayPlace target = side(to, what.dstPtr, what.dstPos), source = side(from, what.srcPtr, what.srcPos);
  return {target.pointer, target.layout, source.pointer, source.layout, box, what.kind};
}

cudaMemcpy3DParms parameters_of(const CopyWork& work) {
  cudaMemcpy3DParms result{};
  result.srcPtr = pitched(work.from, work.from_layout, work.box);
  result.dstPtr = pitched(work.to, work.to_layout, work.box);
  result.extent = {work.box.width, work.box.rows, work.box.depth};
  result.kind = work.kind;
  return result;
}

FillWork fill_work(const cudaMemsetParams& what) {
  if (what.elementSize != 1 && what.elementSize != 2 && what.elementSize != 4) {
    throw ApiError(cudaErrorInvalidValue, fmt::format("elements of {} bytes; legal are 1, 2 and 4", what.elementSize));
  }
  uint64_t width = 0;
  if (__builtin_mul_overflow(what.width, what.elementSize, &width)) {
    throw ApiError(cudaErrorInvalidValue, fmt::format("{} elements exceed the address space", what.width));
  }
  return {what.dst, {what.pitch}, {width, what.height}, what.value, what.elementSize};
}

cudaMemsetParams parameters_of(const FillWork& work) {
  return {work.to, work.layout.pitch, work.value, work.value_bytes, work.box.width / work.value_bytes, work.box.rows};
}

KernelWork kernel_work(State& state, const cudaKernelNodeParams& what,
                       const std::vector<cudaLaunchAttribute>& attributes) {
  cudaLaunchConfig_t config{};
  config.gridDim = what.gridDim;
  config.blockDim = what.blockDim;
  config.dynamicSmemBytes = what.sharedMemBytes;
  config.attrs = const_cast<cudaLaunchAttribute*>(attributes.data());
  config.numAttrs = static_cast<unsigned>(attributes.size());
  return prepare_launch(state, what.func, read_configuration(config), what.kernelParams, what.extra);
}

cudaKernelNodeParams kernel_parameters_of(machine::Machine& machine, GraphNode& node) {
  auto& work = std::get<KernelWork>(node.work);
  const machine::Kernel& kernel = work.function->module->kernel(*work.function, machine);
  node.arguments.clear();
  for (const machine::ParameterLayout& parameter : kernel.parameters) {
    node.arguments.push_back(work.request.parameters.data() + parameter.offset);
  }
  const machine::Extent3 grid = work.configuration.grid, block = work.configuration.block;
  cudaKernelNodeParams result{};
  result.func = const_cast<void*>(work.handle);
  result.gridDim = {grid.x, grid.y, grid.z};
  result.blockDim = {block.x, block.y, block.z};
  result.sharedMemBytes = static_cast<unsigned>(work.configuration.dynamic_shared_bytes);
  result.kernelParams = node.arguments.data();
  return result;
}

AllocateWork allocate_work(State& state, cudaMemAllocNodeParams& parameters) {
  if (parameters.poolProps.handleTypes != cudaMemHandleTypeNone) {
    throw ApiError(cudaErrorNotSupported, "memory of a graph cannot be shared with other processes");
  }
  if (parameters.bytesize == 0) throw ApiError(cudaErrorInvalidValue, "0 bytes; at least 1 is legal");
  AllocateWork work;
  work.memory = std::make_shared<GraphMemory>(state, parameters.bytesize);
  parameters.dptr = work.memory->address;
  work.parameters = parameters;
  return work;
}

Work work_of(State& state, cudaGraphNodeParams& what, const Work* before) {
  switch (what.type) {
    case cudaGraphNodeTypeEmpty: return EmptyWork{};
    case cudaGraphNodeTypeKernel: {
      const cudaKernelNodeParams kernel{what.kernel.func,           what.kernel.gridDim,      what.kernel.blockDim,
                                        what.kernel.sharedMemBytes, what.kernel.kernelParams, what.kernel.extra};
      const auto* known = before == nullptr ? nullptr : std::get_if<KernelWork>(before);
      return kernel_work(state, kernel,
                         known == nullptr ? std::vector<cudaLaunchAttribute>{} : known->configuration.attributes);
    }
    case cudaGraphNodeTypeMemcpy: return copy_work(what.memcpy.copyParams);
    case cudaGraphNodeTypeMemset:
      return fill_work({what.memset.dst, what.memset.pitch, what.memset.value, what.memset.elementSize,
                        what.memset.width, what.memset.height});
    case cudaGraphNodeTypeHost: return HostWork{what.host.fn, what.host.userData};
    case cudaGraphNodeTypeEventRecord: return RecordWork{what.eventRecord.event};
    case cudaGraphNodeTypeWaitEvent: return WaitWork{what.eventWait.event};
    case cudaGraphNodeTypeMemFree: return FreeWork{what.free.dptr};
    case cudaGraphNodeTypeGraph: {
      NodeMap copies;
      return ChildWork{state.graphs.require(what.graph.graph).clone(copies)};
    }
    case cudaGraphNodeTypeMemAlloc: {
      cudaMemAllocNodeParams allocation{what.alloc.poolProps, what.alloc.accessDescs, what.alloc.accessDescCount,
                                        what.alloc.bytesize, nullptr};
      AllocateWork work = allocate_work(state, allocation);
      what.alloc.dptr = allocation.dptr;
      return work;
    }
    case cudaGraphNodeTypeConditional: {
      ConditionalWork work{what.conditional.handle, what.conditional.type, {}};
      const bool is_while = work.type == cudaGraphCondTypeWhile;
      if (what.conditional.size < 1 || (is_while && what.conditional.size != 1)) {
        throw ApiError(cudaErrorInvalidValue, fmt::format("a conditional node of type {} with {} graphs",
                                                          static_cast<int>(work.type), what.conditional.size));
      }
      for (unsigned index = 0; index < what.conditional.size; ++index) work.bodies.push_back(std::make_shared<Graph>());
      return work;
    }
    default:
      throw ApiError(cudaErrorNotSupported, fmt::format("nodes of type {} are not supported by the emulated GPU",
                                                        static_cast<int>(what.type)));
  }
}

}  // namespace stagecraft::emulator::runtime
