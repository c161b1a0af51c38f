// The device that a program runs on, and whether it can.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

#include "harness/cuda_error.hpp"

namespace stagecraft::harness {

/// The current device's properties. Throws CudaError when there is none.
inline cudaDeviceProp current_device() {
  int device = 0;
  check(cudaGetDevice(&device), "find a CUDA device");
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, device), "ask the device for its properties");
  return properties;
}

/// Why the device cannot run tcgen05 instructions, and what can; empty where it has the tensor cores of data-centre
/// Blackwell.
inline std::string reason_without_tcgen05(const cudaDeviceProp& device) {
  if (device.major == 10) return "";
  const std::string name = std::string(device.name) + " has compute capability " + std::to_string(device.major) + "." +
                           std::to_string(device.minor);
  std::string why = ", and only 10.x (B200, GB200, B300) has the tcgen05 instructions that are needed here.";
  if (device.major == 9) why = " (Hopper). Its tensor cores take wgmma, not the tcgen05 that is needed here.";
  if (device.major == 12) {
    why =
        ": consumer Blackwell, which has no tensor memory and none of the tcgen05 instructions that are needed here. "
        "It multiplies with mma.sync, as in chapter 19.";
  }
  return name + why +
         " Run it on the emulated B200: build with -Dgpu_backend=emulator, and leave STAGECRAFT_DEVICE unset.";
}

/// Throws, in words, unless the device has tcgen05 instructions.
inline void require_tcgen05(const cudaDeviceProp& device) {
  const std::string reason = reason_without_tcgen05(device);
  if (!reason.empty()) throw std::runtime_error(reason);
}

}  // namespace stagecraft::harness
