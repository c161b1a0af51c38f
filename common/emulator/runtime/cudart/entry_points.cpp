// The runtime API: versions, and the driver's functions by name.
#include <algorithm>

#include "emulator/runtime/exports/driver_functions.hpp"
#include "emulator/runtime/model/api_call.hpp"
#include "emulator/runtime/model/device_attributes.hpp"

using namespace stagecraft::emulator::runtime;

extern "C" {

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version,
                                             unsigned long long flags, cudaDriverEntryPointQueryResult* status) {
  return run_call("cudaGetDriverEntryPointByVersion", Needs::nothing, [&](State&) {
    required(symbol, "symbol");
    required(function, "funcPtr");
    const bool of_thread =
        flags == cudaEnablePerThreadDefaultStream || (flags == cudaEnableDefault && PerThreadDefault::is_on());
    *function = find_driver_function(symbol, static_cast<int>(std::min(version, 1u << 30)), of_thread);
    if (status != nullptr) {
      *status = *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    }
  });
}

cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* status) {
  return cudaGetDriverEntryPointByVersion(symbol, function, kCudaVersion, flags, status);
}

cudaError_t cudaDriverGetVersion(int* version) {
  return run_call("cudaDriverGetVersion", Needs::fork_safe,
                  [&](State&) { *required(version, "driverVersion") = kCudaVersion; });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  return run_call("cudaRuntimeGetVersion", Needs::no_driver,
                  [&](State&) { *required(version, "runtimeVersion") = kCudaVersion; });
}

}  // extern "C"
