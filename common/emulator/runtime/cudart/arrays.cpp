// The runtime API: CUDA arrays, and copies to and from them.
#include "emulator/runtime/model/arrays.hpp"

#include <utility>

#include "emulator/runtime/model/api_call.hpp"
#include "emulator/runtime/model/submission.hpp"

// Some of these functions are deprecated.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace stagecraft::emulator::runtime {
namespace {

cudaError_t create_array(const char* name, cudaArray_t* array, const cudaChannelFormatDesc* format, cudaExtent extent,
                         unsigned flags) {
  return run_call(name, Needs::no_capture, [&](State& state) {
    required(array, "array");
    *array =
        reinterpret_cast<cudaArray_t>(&state.memory.arrays.create(state, *required(format, "desc"), extent, flags));
  });
}

void submit_and_wait(State& state, cudaStream_t stream, bool waits, CopyWork work) {
  submit(state, stream, std::move(work));
  if (waits) state.streams.host_waits_for(state.streams.require(stream));
}

cudaError_t to_array(const char* name, cudaArray_t to, size_t x, size_t y, const void* from, Layout from_layout,
                     Box box, cudaMemcpyKind kind, cudaStream_t stream, bool waits) {
  return run_call(name, Needs::device, [&](State& state) {
    const ArrayPlace place = place_in(state.memory.arrays.require(to), {x, y, 0}, box);
    submit_and_wait(state, stream, waits, {place.pointer, place.layout, from, from_layout, box, kind});
  });
}

cudaError_t from_array(const char* name, void* to, Layout to_layout, cudaArray_const_t from, size_t x, size_t y,
                       Box box, cudaMemcpyKind kind, cudaStream_t stream, bool waits) {
  return run_call(name, Needs::device, [&](State& state) {
    const ArrayPlace place = place_in(state.memory.arrays.require(from), {x, y, 0}, box);
    submit_and_wait(state, stream, waits, {to, to_layout, place.pointer, place.layout, box, kind});
  });
}

/// Copies `bytes` consecutive bytes from a place on: whole rows, or a part of one.
Box rows_of(const Array& array, size_t x, size_t bytes) {
  if (x == 0 && bytes > array.pitch && bytes % array.pitch == 0) return {array.pitch, bytes / array.pitch};
  return {bytes};
}

cudaError_t linear_to_array(const char* name, cudaArray_t to, size_t x, size_t y, const void* from, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream, bool waits) {
  return run_call(name, Needs::device, [&](State& state) {
    const Box box = rows_of(state.memory.arrays.require(to), x, bytes);
    const ArrayPlace place = place_in(state.memory.arrays.require(to), {x, y, 0}, box);
    submit_and_wait(state, stream, waits, {place.pointer, place.layout, from, {box.width}, box, kind});
  });
}

cudaError_t linear_from_array(const char* name, void* to, cudaArray_const_t from, size_t x, size_t y, size_t bytes,
                              cudaMemcpyKind kind, cudaStream_t stream, bool waits) {
  return run_call(name, Needs::device, [&](State& state) {
    const Box box = rows_of(state.memory.arrays.require(from), x, bytes);
    const ArrayPlace place = place_in(state.memory.arrays.require(from), {x, y, 0}, box);
    submit_and_wait(state, stream, waits, {to, {box.width}, place.pointer, place.layout, box, kind});
  });
}

}  // namespace
}  // namespace stagecraft::emulator::runtime

using namespace stagecraft::emulator::runtime;

extern "C" {

cudaError_t cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* format, size_t width, size_t height,
                            unsigned flags) {
  return create_array("cudaMallocArray", array, format, {width, height, 0}, flags);
}

cudaError_t cudaMalloc3DArray(cudaArray_t* array, const cudaChannelFormatDesc* format, cudaExtent extent,
                              unsigned flags) {
  return create_array("cudaMalloc3DArray", array, format, extent, flags);
}

cudaError_t cudaFreeArray(cudaArray_t array) {
  return run_call("cudaFreeArray", Needs::no_capture, [&](State& state) {
    if (array != nullptr) state.memory.arrays.destroy(state.machine().memory(), array);
  });
}

cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc* format, cudaExtent* extent, unsigned* flags, cudaArray_t array) {
  return run_call("cudaArrayGetInfo", Needs::device, [&](State& state) {
    const Array& found = state.memory.arrays.require(array);
    if (format != nullptr) *format = found.format;
    if (extent != nullptr) *extent = found.extent;
    if (flags != nullptr) *flags = found.flags;
  });
}

cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc* format, cudaArray_const_t array) {
  return run_call("cudaGetChannelDesc", Needs::device,
                  [&](State& state) { *required(format, "desc") = state.memory.arrays.require(array).format; });
}

cudaError_t cudaMemcpy2DToArray(cudaArray_t to, size_t x, size_t y, const void* from, size_t pitch, size_t width,
                                size_t rows, cudaMemcpyKind kind) {
  return to_array("cudaMemcpy2DToArray", to, x, y, from, {pitch}, {width, rows}, kind, nullptr, true);
}
cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t to, size_t x, size_t y, const void* from, size_t pitch, size_t width,
                                     size_t rows, cudaMemcpyKind kind, cudaStream_t stream) {
  return to_array("cudaMemcpy2DToArrayAsync", to, x, y, from, {pitch}, {width, rows}, kind, stream, false);
}
cudaError_t cudaMemcpy2DFromArray(void* to, size_t pitch, cudaArray_const_t from, size_t x, size_t y, size_t width,
                                  size_t rows, cudaMemcpyKind kind) {
  return from_array("cudaMemcpy2DFromArray", to, {pitch}, from, x, y, {width, rows}, kind, nullptr, true);
}
cudaError_t cudaMemcpy2DFromArrayAsync(void* to, size_t pitch, cudaArray_const_t from, size_t x, size_t y, size_t width,
                                       size_t rows, cudaMemcpyKind kind, cudaStream_t stream) {
  return from_array("cudaMemcpy2DFromArrayAsync", to, {pitch}, from, x, y, {width, rows}, kind, stream, false);
}

cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from, size_t from_x,
                                     size_t from_y, size_t width, size_t rows, cudaMemcpyKind kind) {
  return run_call("cudaMemcpy2DArrayToArray", Needs::device, [&](State& state) {
    const Box box{width, rows};
    const ArrayPlace target = place_in(state.memory.arrays.require(to), {to_x, to_y, 0}, box);
    const ArrayPlace source = place_in(state.memory.arrays.require(from), {from_x, from_y, 0}, box);
    submit_and_wait(state, nullptr, true, {target.pointer, target.layout, source.pointer, source.layout, box, kind});
  });
}

cudaError_t cudaMemcpyToArray(cudaArray_t to, size_t x, size_t y, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return linear_to_array("cudaMemcpyToArray", to, x, y, from, bytes, kind, nullptr, true);
}
cudaError_t cudaMemcpyToArrayAsync(cudaArray_t to, size_t x, size_t y, const void* from, size_t bytes,
                                   cudaMemcpyKind kind, cudaStream_t stream) {
  return linear_to_array("cudaMemcpyToArrayAsync", to, x, y, from, bytes, kind, stream, false);
}
cudaError_t cudaMemcpyFromArray(void* to, cudaArray_const_t from, size_t x, size_t y, size_t bytes,
                                cudaMemcpyKind kind) {
  return linear_from_array("cudaMemcpyFromArray", to, from, x, y, bytes, kind, nullptr, true);
}
cudaError_t cudaMemcpyFromArrayAsync(void* to, cudaArray_const_t from, size_t x, size_t y, size_t bytes,
                                     cudaMemcpyKind kind, cudaStream_t stream) {
  return linear_from_array("cudaMemcpyFromArrayAsync", to, from, x, y, bytes, kind, stream, false);
}

}  // extern "C"
