// The runtime API: libraries, which are code that is loaded while the program runs.
#include <fmt/format.h>

#include "emulator/runtime/model/api_call.hpp"
#include "emulator/runtime/model/code_images.hpp"

namespace stagecraft::emulator::runtime {
namespace {

cudaLibrary_t handle_of(Module& module) { return reinterpret_cast<cudaLibrary_t>(&module); }

}  // namespace
}  // namespace stagecraft::emulator::runtime

using namespace stagecraft::emulator::runtime;

extern "C" {

// Options tune the translation; there is nothing to tune here.
cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption*, void**, unsigned,
                                cudaLibraryOption*, void**, unsigned) {
  return run_call("cudaLibraryLoadData", Needs::device, [&](State& state) {
    *required(library, "library") = handle_of(load_module(state.modules, state.machine(), copy_image(code)));
  });
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* path, cudaJitOption*, void**, unsigned,
                                    cudaLibraryOption*, void**, unsigned) {
  return run_call("cudaLibraryLoadFromFile", Needs::device, [&](State& state) {
    *required(library, "library") =
        handle_of(load_module(state.modules, state.machine(), read_image(required(path, "fileName"))));
  });
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  return run_call("cudaLibraryUnload", Needs::device,
                  [&](State& state) { state.modules.remove(&require_module(state.modules, library)); });
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  return run_call("cudaLibraryGetKernel", Needs::device, [&](State& state) {
    *required(kernel, "pKernel") =
        reinterpret_cast<cudaKernel_t>(&find_kernel(require_module(state.modules, library), name, state.machine()));
  });
}

cudaError_t cudaLibraryGetGlobal(void** pointer, size_t* bytes, cudaLibrary_t library, const char* name) {
  return run_call("cudaLibraryGetGlobal", Needs::device, [&](State& state) {
    const Symbol symbol = require_module(state.modules, library).symbol(required(name, "name"), state.machine());
    if (pointer != nullptr) *pointer = reinterpret_cast<void*>(symbol.address);
    if (bytes != nullptr) *bytes = symbol.size;
  });
}

cudaError_t cudaLibraryGetManaged(void** pointer, size_t* bytes, cudaLibrary_t library, const char* name) {
  return cudaLibraryGetGlobal(pointer, bytes, library, name);
}

cudaError_t cudaLibraryGetKernelCount(unsigned* count, cudaLibrary_t library) {
  return run_call("cudaLibraryGetKernelCount", Needs::device, [&](State& state) {
    *required(count, "count") =
        static_cast<unsigned>(require_module(state.modules, library).kernel_names(state.machine()).size());
  });
}

cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t* kernels, unsigned count, cudaLibrary_t library) {
  return run_call("cudaLibraryEnumerateKernels", Needs::device, [&](State& state) {
    Module& module = require_module(state.modules, library);
    const std::vector<std::string> names = module.kernel_names(state.machine());
    for (size_t index = 0; index < std::min<size_t>(count, names.size()); ++index) {
      required(kernels, "kernels")[index] = reinterpret_cast<cudaKernel_t>(&module.function(names[index]));
    }
  });
}

}  // extern "C"
