// What the code that nvcc generates calls: registration before main, and the pieces of `<<<>>>`.
//
// Registration only takes notes. Modules are read when first used, so that a program whose fat binary has nothing for
// the emulated chip gets the error as from a real driver: from the first call that needs the module.
#include <memory>
#include <vector>

#include "emulator/runtime/model/api_call.hpp"
#include "emulator/runtime/model/launch.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// What `<<<>>>` pushes and the stub of the kernel pops.
struct CallConfiguration {
  dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t stream;
};
thread_local std::vector<CallConfiguration> call_configurations;

Module* module_of(State& state, void** handle) {
  auto* module = reinterpret_cast<Module*>(handle);
  if (!state.modules.contains(module)) {
    throw ApiError(cudaErrorInvalidResourceHandle, "the fat binary's handle is not one that registration returned");
  }
  return module;
}

}  // namespace
}  // namespace stagecraft::emulator::runtime

using namespace stagecraft::emulator::runtime;

#pragma GCC visibility push(default)
extern "C" {

void** __cudaRegisterFatBinary(void* wrapper) {
  void** handle = nullptr;
  run_call("__cudaRegisterFatBinary", Needs::no_driver, [&](State& state) {
    handle = reinterpret_cast<void**>(&state.modules.add(std::make_unique<Module>(wrapper)));
  });
  return handle;
}

void __cudaRegisterFatBinaryEnd(void**) {}

void __cudaUnregisterFatBinary(void** handle) {
  run_call("__cudaUnregisterFatBinary", Needs::no_driver,
           [&](State& state) { state.modules.remove(reinterpret_cast<Module*>(handle)); });
}

void __cudaRegisterFunction(void** handle, const char* host_stub, char*, const char* name, int, uint3*, uint3*, dim3*,
                            dim3*, int*) {
  run_call("__cudaRegisterFunction", Needs::no_driver, [&](State& state) {
    state.modules.add_function(*module_of(state, handle), host_stub, required(name, "deviceName"));
  });
}

void __cudaRegisterVar(void** handle, char* shadow, char*, const char* name, int, size_t, int, int) {
  run_call("__cudaRegisterVar", Needs::no_driver, [&](State& state) {
    state.modules.add_variable(*module_of(state, handle), shadow, required(name, "deviceName"));
  });
}

void __cudaRegisterHostVar(void** handle, const char* name, char* shadow, size_t) {
  run_call("__cudaRegisterHostVar", Needs::no_driver, [&](State& state) {
    state.modules.add_variable(*module_of(state, handle), shadow, required(name, "deviceName"));
  });
}

void __cudaRegisterManagedVar(void** handle, void** host_pointer, char*, const char* name, int, size_t, int, int) {
  run_call("__cudaRegisterManagedVar", Needs::no_driver, [&](State& state) {
    Module& module = *module_of(state, handle);
    module.add_managed(required(host_pointer, "hostVarPtrAddress"), required(name, "deviceName"));
    state.modules.add_variable(module, host_pointer, name);
  });
}

/// Called before the host first touches a `__managed__` variable.
char __cudaInitModule(void** handle) {
  return run_call("__cudaInitModule", Needs::device,
                  [&](State& state) { module_of(state, handle)->load(state.machine()); }) == cudaSuccess;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream) {
  return run_call("__cudaPushCallConfiguration", Needs::no_driver, [&](State&) {
    call_configurations.push_back({grid, block, shared_bytes, stream});
  });
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, void* stream) {
  return run_call("__cudaPopCallConfiguration", Needs::no_driver, [&](State&) {
    if (call_configurations.empty()) {
      throw ApiError(cudaErrorMissingConfiguration, "a kernel's stub was called without <<<grid, block>>>");
    }
    const CallConfiguration configuration = call_configurations.back();
    call_configurations.pop_back();
    *grid = configuration.grid;
    *block = configuration.block;
    *shared_bytes = configuration.shared_bytes;
    *static_cast<cudaStream_t*>(stream) = configuration.stream;
  });
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host_stub) {
  return run_call("__cudaGetKernel", Needs::no_driver, [&](State& state) {
    *kernel = reinterpret_cast<cudaKernel_t>(&require_function(state.modules, host_stub));
  });
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                               cudaStream_t stream) {
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, arguments, shared_bytes, stream);
}

}  // extern "C"
#pragma GCC visibility pop
