// The driver API: modules and libraries.
#include "emulator/runtime/driver/jit_log.hpp"
#include "emulator/runtime/driver/runtime_calls.hpp"
#include "emulator/runtime/model/api_call.hpp"
#include "emulator/runtime/model/code_images.hpp"
#include "emulator/runtime/model/launch.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// Loads a module, which belongs to the current context, unlike a library.
CUmodule load_into_context(State& state, std::string image) {
  Module& module = load_module(state.modules, state.machine(), std::move(image));
  module.context = state.contexts.current();
  return reinterpret_cast<CUmodule>(&module);
}

}  // namespace
}  // namespace stagecraft::emulator::runtime

using namespace stagecraft::emulator::runtime;

extern "C" {

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return run_driver_call("cuModuleLoadData", Needs::device, [&](State& state) {
    *required(module, "module") = load_into_context(state, copy_image(image));
  });
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count, CUjit_option* options, void** values) {
  JitLog log(count, options, values);
  return run_driver_call("cuModuleLoadDataEx", Needs::device, [&](State& state) {
    with_log(log, [&] { *required(module, "module") = load_into_context(state, copy_image(image)); });
  });
}

CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) { return cuModuleLoadData(module, image); }

CUresult cuModuleLoad(CUmodule* module, const char* path) {
  return run_driver_call("cuModuleLoad", Needs::device, [&](State& state) {
    *required(module, "module") = load_into_context(state, read_image(required(path, "fname")));
  });
}

CUresult cuModuleUnload(CUmodule module) {
  return run_driver_call("cuModuleUnload", Needs::device, [&](State& state) {
    require_module(state.modules, module);
    state.modules.remove(reinterpret_cast<Module*>(module));
  });
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  return run_driver_call("cuModuleGetFunction", Needs::device, [&](State& state) {
    Function& found = find_kernel(require_module(state.modules, module), name, state.machine());
    found.module->kernel(found, state.machine());
    *required(function, "hfunc") = reinterpret_cast<CUfunction>(&found);
  });
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr* pointer, size_t* bytes, CUmodule module, const char* name) {
  return run_driver_call("cuModuleGetGlobal", Needs::device, [&](State& state) {
    const Symbol symbol = require_module(state.modules, module).symbol(required(name, "name"), state.machine());
    if (pointer != nullptr) *pointer = symbol.address;
    if (bytes != nullptr) *bytes = symbol.size;
  });
}

CUresult cuLibraryLoadData(CUlibrary* library, const void* image, CUjit_option*, void**, unsigned, CUlibraryOption*,
                           void**, unsigned) {
  return run_driver_call("cuLibraryLoadData", Needs::device, [&](State& state) {
    *required(library, "library") =
        reinterpret_cast<CUlibrary>(&load_module(state.modules, state.machine(), copy_image(image)));
  });
}

CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option*, void**, unsigned, CUlibraryOption*,
                               void**, unsigned) {
  return through<cudaLibraryLoadFromFile>("cuLibraryLoadFromFile", library, path, nullptr, nullptr, 0u, nullptr,
                                          nullptr, 0u);
}

STAGECRAFT_THROUGH(cuLibraryUnload, cudaLibraryUnload)
STAGECRAFT_THROUGH(cuLibraryGetKernel, cudaLibraryGetKernel)
STAGECRAFT_THROUGH(cuLibraryGetGlobal, cudaLibraryGetGlobal)
STAGECRAFT_THROUGH(cuLibraryGetManaged, cudaLibraryGetManaged)
STAGECRAFT_THROUGH(cuLibraryGetKernelCount, cudaLibraryGetKernelCount)
STAGECRAFT_THROUGH(cuLibraryEnumerateKernels, cudaLibraryEnumerateKernels)
STAGECRAFT_THROUGH(cuModuleGetFunctionCount, cudaLibraryGetKernelCount)
STAGECRAFT_THROUGH(cuModuleEnumerateFunctions, cudaLibraryEnumerateKernels)

// A library and its module are the same object.
CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library) {
  return run_driver_call("cuLibraryGetModule", Needs::device, [&](State& state) {
    *required(module, "pMod") = reinterpret_cast<CUmodule>(&require_module(state.modules, library));
  });
}

CUresult cuKernelGetLibrary(CUlibrary* library, CUkernel kernel) {
  return run_driver_call("cuKernelGetLibrary", Needs::device, [&](State& state) {
    *required(library, "pLib") = reinterpret_cast<CUlibrary>(require_function(state.modules, kernel).module);
  });
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_EAGER_LOADING;
  return CUDA_SUCCESS;
}

CUresult cuFuncGetModule(CUmodule* module, CUfunction function) {
  return run_driver_call("cuFuncGetModule", Needs::device, [&](State& state) {
    *required(module, "hmod") = reinterpret_cast<CUmodule>(require_function(state.modules, function).module);
  });
}

}  // extern "C"
