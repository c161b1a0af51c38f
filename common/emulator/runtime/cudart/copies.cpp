// The runtime API: copying and filling memory, and the variables of the program.
#include <utility>

#include "emulator/runtime/model/api_call.hpp"
#include "emulator/runtime/model/memory_operations.hpp"
#include "emulator/runtime/model/submission.hpp"
#include "emulator/runtime/model/work_parameters.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// Whether the call returns before the work has ended.
enum class Returns { at_once, when_done };

void submit_copy(State& state, cudaStream_t stream, Returns returns, CopyWork work) {
  submit(state, stream, std::move(work));
  if (returns == Returns::when_done) state.streams.host_waits_for(state.streams.require(stream));
}

cudaError_t copy_for(const char* name, void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                     cudaStream_t stream, Returns returns) {
  return run_call(name, Needs::device, [&](State& state) {
    submit_copy(state, stream, returns, {to, {}, from, {}, {bytes}, kind});
  });
}

cudaError_t copy_2d_for(const char* name, void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                        size_t rows, cudaMemcpyKind kind, cudaStream_t stream, Returns returns) {
  return run_call(name, Needs::device, [&](State& state) {
    submit_copy(state, stream, returns, {to, {to_pitch}, from, {from_pitch}, {width, rows}, kind});
  });
}

cudaError_t copy_3d_for(const char* name, const cudaMemcpy3DParms* parameters, cudaStream_t stream, Returns returns) {
  return run_call(name, Needs::device,
                  [&](State& state) { submit_copy(state, stream, returns, copy_work(*required(parameters, "p"))); });
}

cudaError_t copy_3d_peer_for(const char* name, const cudaMemcpy3DPeerParms* parameters, cudaStream_t stream,
                             Returns returns) {
  return run_call(name, Needs::device, [&](State& state) {
    const cudaMemcpy3DPeerParms& what = *required(parameters, "p");
    check_device(what.srcDevice);
    check_device(what.dstDevice);
    submit_copy(state, stream, returns,
                copy_work({what.srcArray, what.srcPos, what.srcPtr, what.dstArray, what.dstPos, what.dstPtr,
                           what.extent, cudaMemcpyDeviceToDevice}));
  });
}

cudaError_t fill_for(const char* name, void* to, size_t pitch, size_t slice, int value, Box box, cudaStream_t stream) {
  return run_call(name, Needs::device, [&](State& state) {
    submit(state, stream, FillWork{to, {pitch, slice}, box, static_cast<uint32_t>(value), 1});
  });
}

cudaError_t copy_to_symbol_for(const char* name, const void* shadow, const void* from, size_t bytes, size_t offset,
                               cudaMemcpyKind kind, cudaStream_t stream, Returns returns) {
  return run_call(name, Needs::device, [&](State& state) {
    if (kind != cudaMemcpyHostToDevice && kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault) {
      throw ApiError(cudaErrorInvalidMemcpyDirection, "a copy to a variable is host to device or device to device");
    }
    submit_copy(state, stream, returns, {symbol_range(state, shadow, offset, bytes), {}, from, {}, {bytes}, kind});
  });
}

cudaError_t copy_from_symbol_for(const char* name, void* to, const void* shadow, size_t bytes, size_t offset,
                                 cudaMemcpyKind kind, cudaStream_t stream, Returns returns) {
  return run_call(name, Needs::device, [&](State& state) {
    if (kind != cudaMemcpyDeviceToHost && kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault) {
      throw ApiError(cudaErrorInvalidMemcpyDirection, "a copy from a variable is device to host or device to device");
    }
    submit_copy(state, stream, returns, {to, {}, symbol_range(state, shadow, offset, bytes), {}, {bytes}, kind});
  });
}

}  // namespace
}  // namespace stagecraft::emulator::runtime

using namespace stagecraft::emulator::runtime;

extern "C" {

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return copy_for("cudaMemcpy", to, from, bytes, kind, nullptr, Returns::when_done);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_for("cudaMemcpyAsync", to, from, bytes, kind, stream, Returns::at_once);
}

cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, size_t bytes) {
  return cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, nullptr);
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                                cudaStream_t stream) {
  return run_call("cudaMemcpyPeer", Needs::device, [&](State& state) {
    check_device(to_device);
    check_device(from_device);
    submit(state, stream, CopyWork{to, {}, from, {}, {bytes}, cudaMemcpyDeviceToDevice});
  });
}

cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t rows,
                         cudaMemcpyKind kind) {
  return copy_2d_for("cudaMemcpy2D", to, to_pitch, from, from_pitch, width, rows, kind, nullptr, Returns::when_done);
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t rows,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_2d_for("cudaMemcpy2DAsync", to, to_pitch, from, from_pitch, width, rows, kind, stream, Returns::at_once);
}

cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* parameters) {
  return copy_3d_for("cudaMemcpy3D", parameters, nullptr, Returns::when_done);
}

cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* parameters, cudaStream_t stream) {
  return copy_3d_for("cudaMemcpy3DAsync", parameters, stream, Returns::at_once);
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind) {
  return copy_to_symbol_for("cudaMemcpyToSymbol", symbol, from, bytes, offset, kind, nullptr, Returns::when_done);
}

cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes, size_t offset,
                                    cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_to_symbol_for("cudaMemcpyToSymbolAsync", symbol, from, bytes, offset, kind, stream, Returns::at_once);
}

cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind) {
  return copy_from_symbol_for("cudaMemcpyFromSymbol", to, symbol, bytes, offset, kind, nullptr, Returns::when_done);
}

cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind,
                                      cudaStream_t stream) {
  return copy_from_symbol_for("cudaMemcpyFromSymbolAsync", to, symbol, bytes, offset, kind, stream, Returns::at_once);
}

cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
  return run_call("cudaGetSymbolAddress", Needs::device,
                  [&](State& state) { *required(pointer, "devPtr") = symbol_range(state, symbol, 0, 0); });
}

cudaError_t cudaGetSymbolSize(size_t* size, const void* symbol) {
  return run_call("cudaGetSymbolSize", Needs::device, [&](State& state) {
    symbol_range(state, symbol, 0, 0);
    const Variable& variable = *state.modules.find_variable(symbol);
    *required(size, "size") = variable.module->symbol(variable.name, state.machine()).size;
  });
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return fill_for("cudaMemset", to, 0, 0, value, {bytes}, nullptr);
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return fill_for("cudaMemsetAsync", to, 0, 0, value, {bytes}, stream);
}

cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t rows) {
  return fill_for("cudaMemset2D", to, pitch, 0, value, {width, rows}, nullptr);
}

cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t rows, cudaStream_t stream) {
  return fill_for("cudaMemset2DAsync", to, pitch, 0, value, {width, rows}, stream);
}

cudaError_t cudaMemset3D(cudaPitchedPtr to, int value, cudaExtent extent) {
  return cudaMemset3DAsync(to, value, extent, nullptr);
}

cudaError_t cudaMemset3DAsync(cudaPitchedPtr to, int value, cudaExtent extent, cudaStream_t stream) {
  return fill_for("cudaMemset3D", to.ptr, to.pitch, to.pitch * to.ysize, value,
                  {extent.width, extent.height, extent.depth}, stream);
}

cudaError_t cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms* parameters) {
  return copy_3d_peer_for("cudaMemcpy3DPeer", parameters, nullptr, Returns::when_done);
}

cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* parameters, cudaStream_t stream) {
  return copy_3d_peer_for("cudaMemcpy3DPeerAsync", parameters, stream, Returns::at_once);
}

cudaError_t cudaMemcpyBatchAsync(void* const* to, const void* const* from, const size_t* bytes, size_t count,
                                 cudaMemcpyAttributes*, size_t*, size_t, cudaStream_t stream) {
  return run_call("cudaMemcpyBatchAsync", Needs::device, [&](State& state) {
    for (size_t index = 0; index < count; ++index) {
      submit_copy(state, stream, Returns::at_once,
                  {required(to, "dsts")[index],
                   {},
                   required(from, "srcs")[index],
                   {},
                   {required(bytes, "sizes")[index]},
                   cudaMemcpyDefault});
    }
  });
}

}  // extern "C"
