#include "stagecraft/hopper_gemm/c_interface.h"

#include <exception>
#include <string>

#include "harness/cuda_error.hpp"
#include "stagecraft/hopper_gemm/twin.hpp"
#include "stagecraft/tensor_map.hpp"

using namespace stagecraft;

/// What the opaque handle is.
struct stagecraft_hopper_plan {
  Launch launch;
  const char* configuration;
};

namespace {

thread_local std::string last_message;

/// Thrown by the checks below; no exception leaves this file.
struct Refused {
  stagecraft_status status;
  std::string message;
};

[[noreturn]] void refuse(std::string message) { throw Refused{STAGECRAFT_BAD_PROBLEM, std::move(message)}; }

stagecraft_status report(stagecraft_status status, const char* message) noexcept {
  try {
    last_message = message;
  } catch (const std::exception&) {
    last_message.clear();
  }
  return status;
}

/// Calls what may throw. A C program must not see an exception.
template <typename Work>
stagecraft_status guarded(const Work& work) noexcept {
  try {
    work();
    return STAGECRAFT_OK;
  } catch (const Refused& refused) {
    return report(refused.status, refused.message.c_str());
  } catch (const TensorMapError& error) {
    return report(STAGECRAFT_BAD_PROBLEM, error.what());
  } catch (const harness::CudaError& error) {
    return report(STAGECRAFT_LAUNCH_FAILED, error.what());
  } catch (const std::exception& error) {
    return report(STAGECRAFT_OUT_OF_MEMORY, error.what());
  }
}

constexpr int64_t kLargestExtent = int64_t{1} << 24, kMostElements = int64_t{1} << 40;

MatrixProduct converted(const stagecraft_hopper_problem& from) {
  if (from.type != STAGECRAFT_BF16 && from.type != STAGECRAFT_E4M3) {
    refuse("the type is " + std::to_string(from.type) + ". Legal are STAGECRAFT_BF16 and STAGECRAFT_E4M3.");
  }
  for (const auto& [name, extent] : {std::pair{"M", from.m}, {"N", from.n}, {"K", from.k}}) {
    if (extent >= 1 && extent <= kLargestExtent) continue;
    refuse(std::string(name) + " = " + std::to_string(extent) + " is too " + (extent < 1 ? "small" : "large") +
           ". Legal are 1 to " + std::to_string(kLargestExtent) + ".");
  }
  if (from.m * from.n >= kMostElements) refuse("C has 2^40 elements or more. Compute it in parts.");
  for (const auto& [name, address] : {std::pair<const char*, const void*>{"A", from.a}, {"B", from.b}, {"C", from.c}}) {
    if (address == nullptr) refuse(std::string("the address of ") + name + " is null.");
    if (reinterpret_cast<uintptr_t>(address) % 16 != 0) {
      refuse(std::string("the address of ") + name + " is not a multiple of 16 bytes, as the tensor map needs.");
    }
  }
  return {.type = from.type == STAGECRAFT_E4M3 ? OperandType::e4m3 : OperandType::bf16,
          .a = from.a,
          .b = from.b,
          .c = static_cast<__nv_bfloat16*>(from.c),
          .m = from.m,
          .n = from.n,
          .k = from.k};
}

void check_device() {
  int device = 0, major = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (error != cudaSuccess) {
    throw Refused{STAGECRAFT_BAD_DEVICE, std::string("there is no usable device: ") + cudaGetErrorString(error)};
  }
  if (major != 9) {
    throw Refused{STAGECRAFT_BAD_DEVICE, "the device has compute capability " + std::to_string(major) +
                                             ".x, and only 9.0 (H100, H200) has the wgmma instructions that the "
                                             "kernels need."};
  }
}

}  // namespace

stagecraft_status stagecraft_hopper_create(const stagecraft_hopper_problem* problem, stagecraft_hopper_plan** plan) {
  return guarded([&] {
    if (plan == nullptr) refuse("there is nowhere to put the plan: the pointer to it is null.");
    *plan = nullptr;
    if (problem == nullptr) refuse("the problem is null.");
    const MatrixProduct product = converted(*problem);
    check_device();
    const TwinChoice choice = choose_twin(product);
    *plan = new stagecraft_hopper_plan{prepare_twin(choice, product), name_of(choice.kind)};
  });
}

void stagecraft_hopper_destroy(stagecraft_hopper_plan* plan) { delete plan; }

const char* stagecraft_hopper_configuration(const stagecraft_hopper_plan* plan) {
  return plan != nullptr ? plan->configuration : "";
}

stagecraft_status stagecraft_hopper_run(stagecraft_hopper_plan* plan, CUstream_st* stream) {
  return guarded([&] {
    if (plan == nullptr) refuse("the plan is null.");
    plan->launch(stream);
  });
}

const char* stagecraft_hopper_message(void) { return last_message.c_str(); }
