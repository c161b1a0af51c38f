// The runtime API: launching kernels.
#include "emulator/runtime/model/launch.hpp"

#include "emulator/runtime/model/api_call.hpp"
#include "emulator/runtime/model/submission.hpp"

using namespace stagecraft::emulator::runtime;

extern "C" {

cudaError_t cudaLaunchKernel(const void* func, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                             cudaStream_t stream) {
  return run_call("cudaLaunchKernel", Needs::launch, [&](State& state) {
    submit(state, prepare_launch(state, func, plain_configuration(grid, block, shared_bytes, stream), arguments));
  });
}

cudaError_t cudaLaunchCooperativeKernel(const void* func, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                                        cudaStream_t stream) {
  return run_call("cudaLaunchCooperativeKernel", Needs::launch, [&](State& state) {
    submit(state, prepare_launch(state, func, plain_configuration(grid, block, shared_bytes, stream, true), arguments));
  });
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* func, void** arguments) {
  return run_call("cudaLaunchKernelExC", Needs::launch, [&](State& state) {
    submit(state, prepare_launch(state, func, read_configuration(*required(config, "config")), arguments));
  });
}

}  // extern "C"
