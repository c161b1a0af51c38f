#include "emulator/runtime/model/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "emulator/runtime/model/host_access.hpp"
#include "emulator/runtime/model/state.hpp"

namespace stagecraft::emulator::runtime {
namespace {

using machine::Extent3;

constexpr uint64_t kLargestGridX = 0x7fffffff;
constexpr uint64_t kLargestGridYZ = 65535;
constexpr uint32_t kLargestBlockZ = 64;

std::string text_of(Extent3 extent) { return fmt::format("({},{},{})", extent.x, extent.y, extent.z); }

[[noreturn]] void refuse(cudaError_t error, const machine::Kernel& kernel, std::string message) {
  throw ApiError(error, fmt::format("kernel {}: {}", kernel.display_name, message));
}

void check_extents(const machine::Architecture& chip, const machine::Kernel& kernel,
                   const LaunchConfiguration& configuration) {
  const Extent3 grid = configuration.grid, block = configuration.block;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > kLargestGridX || grid.y > kLargestGridYZ ||
      grid.z > kLargestGridYZ) {
    refuse(cudaErrorInvalidConfiguration, kernel,
           fmt::format("a grid of {} blocks; legal are 1 to {} by 1 to {} by 1 to {}", text_of(grid), kLargestGridX,
                       kLargestGridYZ, kLargestGridYZ));
  }
  const uint32_t most = chip.threads_per_block;
  if (block.count() == 0 || block.x > most || block.y > most || block.z > kLargestBlockZ || block.count() > most) {
    refuse(cudaErrorInvalidConfiguration, kernel,
           fmt::format("a block of {} threads; legal are at least 1 each, at most {} by {} by {}, and {} together",
                       text_of(block), most, most, kLargestBlockZ, most));
  }
}

void check_threads(const machine::Architecture& chip, const machine::Kernel& kernel, Extent3 block) {
  const ptx::Extents required = kernel.entry->required_threads;
  if (required.x != 0 && block != Extent3{required.x, required.y, required.z}) {
    refuse(cudaErrorInvalidValue, kernel,
           fmt::format("a block of {} threads, but the kernel requires exactly {}", text_of(block),
                       text_of({required.x, required.y, required.z})));
  }
  const ptx::Extents bound = kernel.entry->max_threads;
  const uint64_t most = uint64_t{bound.x} * bound.y * bound.z;
  if (most != 0 && block.count() > most) {
    refuse(cudaErrorInvalidValue, kernel,
           fmt::format("a block of {} threads, but its __launch_bounds__ promise at most {}", block.count(), most));
  }
  const uint64_t registers = kernel.machine_registers_of(machine::warps_of(block.count()));
  if (registers > chip.registers_per_multiprocessor) {
    refuse(
        cudaErrorLaunchOutOfResources, kernel,
        fmt::format("{} threads of {} registers take {} of the {} registers of a multiprocessor: launch fewer threads, "
                    "or bound them with __launch_bounds__ so that ptxas uses fewer registers",
                    block.count(), kernel.machine_registers, registers, chip.registers_per_multiprocessor));
  }
}

void check_shared(const machine::Architecture& chip, const Function& function, const machine::Kernel& kernel,
                  uint64_t bytes) {
  const FunctionLimits limits = limits_of(chip, function, kernel);
  if (bytes <= limits.max_dynamic_shared_bytes) return;
  const std::string advice =
      bytes <= limits.shared_bytes_left
          ? fmt::format("allow it with cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, {})",
                        bytes)
          : fmt::format("the {} has {} bytes for a block, of which the kernel's static shared memory takes {}",
                        chip.name, chip.shared_per_block_optin, kernel.static_shared_bytes);
  refuse(cudaErrorInvalidValue, kernel,
         fmt::format("{} bytes of dynamic shared memory; legal are at most {}: {}", bytes,
                     limits.max_dynamic_shared_bytes, advice));
}

void check_cluster(const machine::Architecture& chip, const Function& function, const machine::Kernel& kernel,
                   const LaunchConfiguration& configuration, Extent3 cluster) {
  const uint64_t blocks = cluster.count();
  if (blocks == 0)
    refuse(cudaErrorInvalidClusterSize, kernel,
           fmt::format("a cluster of {} blocks; each is at least 1", text_of(cluster)));
  const bool non_portable = function.non_portable_cluster || kernel.entry->max_cluster_rank > chip.cluster_blocks;
  const uint32_t most = non_portable ? chip.cluster_blocks_nonportable : chip.cluster_blocks;
  if (blocks > most) {
    const bool may_opt_in = blocks <= chip.cluster_blocks_nonportable;
    refuse(cudaErrorInvalidClusterSize, kernel,
           fmt::format("a cluster of {} blocks; legal are at most {}{}", text_of(cluster), most,
                       may_opt_in ? ": allow more with cudaFuncSetAttribute(kernel, "
                                    "cudaFuncAttributeNonPortableClusterSizeAllowed, 1)"
                                  : ""));
  }
  const Extent3 grid = configuration.grid;
  if (grid.x % cluster.x != 0 || grid.y % cluster.y != 0 || grid.z % cluster.z != 0) {
    refuse(cudaErrorInvalidClusterSize, kernel,
           fmt::format("a grid of {} blocks is no multiple of its clusters of {}: round the grid up and let the extra "
                       "blocks return",
                       text_of(grid), text_of(cluster)));
  }
}

/// Whether a launch has preferred clusters. CUDA: they need a regular cluster dimension. CUTLASS: chips before sm_100
/// use one shape (media/docs/cpp/profiler.md).
bool uses_preferred_cluster(const machine::Architecture& chip, const LaunchConfiguration& configuration) {
  return configuration.preferred_cluster.count() != 0 && configuration.has_cluster && chip.major >= 10;
}

/// Source: driver_types.h, cudaLaunchAttributePreferredClusterDimension and cudaLaunchAttributeValue.
void check_preferred_cluster(const machine::Architecture& chip, const Function& function, const machine::Kernel& kernel,
                             const LaunchConfiguration& configuration) {
  if (!uses_preferred_cluster(chip, configuration)) return;
  const Extent3 preferred = configuration.preferred_cluster, regular = configuration.cluster;
  if (preferred.x % regular.x != 0 || preferred.y % regular.y != 0 || preferred.z != regular.z) {
    refuse(cudaErrorInvalidClusterSize, kernel,
           fmt::format("a preferred cluster of {} blocks and a regular one of {}: x and y must be multiples of the "
                       "regular cluster's, and z the same",
                       text_of(preferred), text_of(regular)));
  }
  check_cluster(chip, function, kernel, configuration, preferred);
}

/// The blocks of a cooperative grid must all run at once.
void check_residency(const machine::Machine& machine, const machine::Kernel& kernel,
                     const LaunchConfiguration& configuration) {
  const machine::Architecture& chip = machine.architecture();
  const machine::Residency residency =
      machine.residency(kernel, configuration.block, static_cast<uint32_t>(configuration.dynamic_shared_bytes));
  const uint64_t most = uint64_t{residency.blocks} * chip.multiprocessors;
  if (configuration.grid.count() > most) {
    refuse(cudaErrorCooperativeLaunchTooLarge, kernel,
           fmt::format(
               "a cooperative grid of {} blocks; at most {} run at once ({} on each of {} multiprocessors, limited "
               "by {})",
               configuration.grid.count(), most, residency.blocks, chip.multiprocessors, residency.limited_by));
  }
}

/// Checks all of a configuration and returns the cluster that the launch has.
Extent3 check_configuration(const machine::Machine& machine, const Function& function, const machine::Kernel& kernel,
                            const LaunchConfiguration& configuration) {
  const machine::Architecture& chip = machine.architecture();
  check_extents(chip, kernel, configuration);
  check_threads(chip, kernel, configuration.block);
  check_shared(chip, function, kernel, configuration.dynamic_shared_bytes);
  const Extent3 cluster = cluster_of(function, kernel, configuration);
  check_cluster(chip, function, kernel, configuration, cluster);
  check_preferred_cluster(chip, function, kernel, configuration);
  if (configuration.cooperative) check_residency(machine, kernel, configuration);
  return cluster;
}

/// What the machine is asked for, except for the parameters.
machine::LaunchRequest request_of(State& state, const machine::Kernel& kernel, const LaunchConfiguration& configuration,
                                  Extent3 cluster) {
  machine::LaunchRequest request;
  request.kernel = &kernel;
  request.grid = configuration.grid;
  request.block = configuration.block;
  request.cluster = cluster;
  if (uses_preferred_cluster(state.architecture(), configuration)) {
    request.preferred_cluster = configuration.preferred_cluster;
    request.preferred_clusters = state.settings().preferred_clusters;
  }
  request.explicit_cluster = configuration.has_cluster || kernel.entry->cluster.x != 0;
  request.cooperative = configuration.cooperative;
  request.dynamic_shared_bytes = static_cast<uint32_t>(configuration.dynamic_shared_bytes);
  request.stack_bytes = static_cast<uint32_t>(state.limits.stack_bytes);
  request.seed = state.settings().seed;
  return request;
}

std::vector<std::byte> pack(const machine::Kernel& kernel, void* const* arguments) {
  std::vector<std::byte> packed(kernel.parameter_bytes);
  const size_t count = kernel.parameters.size();
  const std::string parameters = fmt::format("{} parameter{}", count, count == 1 ? "" : "s");
  if (!kernel.parameters.empty() && arguments == nullptr) {
    refuse(cudaErrorInvalidValue, kernel,
           fmt::format("it has {}, but the array of arguments is a null pointer", parameters));
  }
  if (!is_readable(arguments, kernel.parameters.size() * sizeof *arguments)) {
    refuse(cudaErrorInvalidValue, kernel,
           fmt::format("it has {}, but the array of arguments, {}, cannot be read", parameters, fmt::ptr(arguments)));
  }
  std::vector<HostValue> values;
  for (size_t index = 0; index < kernel.parameters.size(); ++index) {
    if (arguments[index] == nullptr) {
      refuse(cudaErrorInvalidValue, kernel,
             fmt::format("argument {} is a null pointer; each points to a value", index));
    }
    const machine::ParameterLayout& parameter = kernel.parameters[index];
    values.push_back({arguments[index], packed.data() + parameter.offset, parameter.size});
  }
  if (const size_t bad = copy_values(values); bad != values.size()) {
    refuse(cudaErrorInvalidValue, kernel,
           fmt::format("argument {}, {} bytes at {}, is no memory of the host program; each points to a value", bad,
                       values[bad].bytes, fmt::ptr(values[bad].from)));
  }
  return packed;
}

/// Takes the parameters from a buffer that is packed already (CU_LAUNCH_PARAM_BUFFER_POINTER).
std::vector<std::byte> pack_extra(const machine::Kernel& kernel, void* const* extra) {
  const std::byte* buffer = nullptr;
  size_t size = 0;
  const auto readable = [](const void* pointer, size_t bytes, const char* what) {
    if (is_readable(pointer, bytes)) return;
    throw ApiError(cudaErrorInvalidValue,
                   fmt::format("{}, {} bytes at {}, is no memory of the host program", what, bytes, fmt::ptr(pointer)));
  };
  for (;; extra += 2) {
    readable(extra, sizeof *extra, "extra");
    if (*extra == CU_LAUNCH_PARAM_END) break;
    readable(extra, 2 * sizeof *extra, "extra");
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      buffer = static_cast<const std::byte*>(extra[1]);
    } else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      readable(required(extra[1], "the size in extra"), sizeof size, "the size in extra");
      size = *static_cast<const size_t*>(extra[1]);
    } else {
      throw ApiError(cudaErrorInvalidValue,
                     "extra holds CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE and "
                     "ends with CU_LAUNCH_PARAM_END, and nothing else");
    }
  }
  if (buffer == nullptr) size = 0;
  if (size < kernel.parameter_bytes) {
    refuse(cudaErrorInvalidValue, kernel,
           fmt::format("its parameters take {} bytes, but the buffer has {}", kernel.parameter_bytes, size));
  }
  readable(buffer, kernel.parameter_bytes, "the buffer in extra");
  return {buffer, buffer + kernel.parameter_bytes};
}

}  // namespace

FunctionLimits limits_of(const machine::Architecture& chip, const Function& function, const machine::Kernel& kernel) {
  FunctionLimits limits;
  limits.max_threads = chip.threads_per_block;
  const ptx::Extents bound =
      kernel.entry->max_threads.x != 0 ? kernel.entry->max_threads : kernel.entry->required_threads;
  if (const uint64_t most = uint64_t{bound.x} * bound.y * bound.z; most != 0) {
    limits.max_threads = static_cast<uint32_t>(std::min<uint64_t>(limits.max_threads, most));
  }
  while (limits.max_threads > machine::kWarpSize &&
         kernel.machine_registers_of(machine::warps_of(limits.max_threads)) > chip.registers_per_multiprocessor) {
    limits.max_threads -= machine::kWarpSize;
  }
  const uint32_t taken = kernel.static_shared_bytes;
  limits.shared_bytes_left = chip.shared_per_block_optin - std::min(taken, chip.shared_per_block_optin);
  limits.max_dynamic_shared_bytes =
      function.max_dynamic_shared_bytes.value_or(chip.shared_per_block - std::min(taken, chip.shared_per_block));
  return limits;
}

Extent3 cluster_of(const Function& function, const machine::Kernel& kernel, const LaunchConfiguration& configuration) {
  const ptx::Extents required = kernel.entry->cluster;
  if (required.x != 0) {
    const Extent3 fixed{required.x, required.y, required.z};
    if (configuration.has_cluster && configuration.cluster != fixed) {
      refuse(cudaErrorInvalidClusterSize, kernel,
             fmt::format("a cluster of {} blocks, but its __cluster_dims__ are {}", text_of(configuration.cluster),
                         text_of(fixed)));
    }
    return fixed;
  }
  if (configuration.has_cluster) return configuration.cluster;
  return function.has_required_cluster ? function.required_cluster : Extent3{1, 1, 1};
}

KernelWork prepare_launch(State& state, const void* stub_or_handle, LaunchConfiguration configuration,
                          void* const* arguments) {
  return prepare_launch(state, stub_or_handle, std::move(configuration), arguments, nullptr);
}

KernelWork prepare_launch(State& state, const void* stub_or_handle, LaunchConfiguration configuration,
                          void* const* arguments, void* const* extra) {
  KernelWork work{stub_or_handle, &require_function(state.modules, stub_or_handle), std::move(configuration), {}};
  const machine::Kernel& kernel = work.function->module->kernel(*work.function, state.machine());
  state.streams.require(work.configuration.stream);
  const Extent3 cluster = check_configuration(state.machine(), *work.function, kernel, work.configuration);
  if (arguments != nullptr && extra != nullptr) {
    throw ApiError(cudaErrorInvalidValue, "both kernelParams and extra are given; one must be null");
  }
  work.request = request_of(state, kernel, work.configuration, cluster);
  work.request.parameters = extra == nullptr ? pack(kernel, arguments) : pack_extra(kernel, extra);
  return work;
}

KernelWork prepare_again(State& state, KernelWork work) {
  const machine::Kernel& kernel = work.function->module->kernel(*work.function, state.machine());
  std::vector<std::byte> parameters = std::move(work.request.parameters);
  work.request = request_of(state, kernel, work.configuration, cluster_of(*work.function, kernel, work.configuration));
  work.request.parameters = std::move(parameters);
  return work;
}

void check_launch(State& state, const KernelWork& work) {
  const machine::Kernel& kernel = work.function->module->kernel(*work.function, state.machine());
  check_configuration(state.machine(), *work.function, kernel, work.configuration);
}

LaunchConfiguration plain_configuration(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                                        bool cooperative) {
  LaunchConfiguration configuration;
  configuration.grid = {grid.x, grid.y, grid.z};
  configuration.block = {block.x, block.y, block.z};
  configuration.dynamic_shared_bytes = shared_bytes;
  configuration.stream = stream;
  if (cooperative) {
    configuration.cooperative = true;
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
    configuration.attributes.push_back(attribute);
  }
  return configuration;
}

LaunchConfiguration read_configuration(const cudaLaunchConfig_t& config) {
  LaunchConfiguration result;
  result.grid = {config.gridDim.x, config.gridDim.y, config.gridDim.z};
  result.block = {config.blockDim.x, config.blockDim.y, config.blockDim.z};
  result.dynamic_shared_bytes = config.dynamicSmemBytes;
  result.stream = config.stream;
  if (config.numAttrs != 0 && config.attrs == nullptr) {
    throw ApiError(cudaErrorInvalidValue, fmt::format("numAttrs is {}, but attrs is a null pointer", config.numAttrs));
  }
  result.attributes.assign(config.attrs, config.attrs + config.numAttrs);
  for (const cudaLaunchAttribute& attribute : result.attributes) {
    switch (attribute.id) {
      case cudaLaunchAttributeClusterDimension:
        result.cluster = {attribute.val.clusterDim.x, attribute.val.clusterDim.y, attribute.val.clusterDim.z};
        result.has_cluster = true;
        break;
      case cudaLaunchAttributePreferredClusterDimension:
        result.preferred_cluster = {attribute.val.preferredClusterDim.x, attribute.val.preferredClusterDim.y,
                                    attribute.val.preferredClusterDim.z};
        break;
      case cudaLaunchAttributeCooperative: result.cooperative = attribute.val.cooperative != 0; break;
      // These have no effect where each grid has finished before the next begins.
      case cudaLaunchAttributeIgnore:
      case cudaLaunchAttributeAccessPolicyWindow:
      case cudaLaunchAttributeSynchronizationPolicy:
      case cudaLaunchAttributeClusterSchedulingPolicyPreference:
      case cudaLaunchAttributeProgrammaticStreamSerialization:
      case cudaLaunchAttributePriority:
      case cudaLaunchAttributeMemSyncDomainMap:
      case cudaLaunchAttributeMemSyncDomain:
      case cudaLaunchAttributePreferredSharedMemoryCarveout:
      case cudaLaunchAttributeNvlinkUtilCentricScheduling:
      // Recorded by submit.
      case cudaLaunchAttributeProgrammaticEvent:
      case cudaLaunchAttributeLaunchCompletionEvent: break;
      default:
        throw ApiError(
            cudaErrorNotSupported,
            fmt::format("launch attribute {} is not supported by the emulated GPU; supported are cluster "
                        "dimensions, cooperative, programmatic stream serialisation and those that only tune",
                        static_cast<int>(attribute.id)));
    }
  }
  return result;
}

Function& require_function(const ModuleTable& modules, const void* stub_or_handle) {
  Function* function = modules.find_function(stub_or_handle);
  if (function == nullptr) {
    if (stub_or_handle == nullptr) throw ApiError(cudaErrorInvalidDeviceFunction, "the kernel is a null pointer");
    throw ApiError(cudaErrorInvalidResourceHandle,
                   fmt::format("{} is no __global__ function of this program", fmt::ptr(stub_or_handle)));
  }
  return *function;
}

}  // namespace stagecraft::emulator::runtime
