#include "emulator/runtime/model/occupancy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "emulator/fatbin/selection.hpp"
#include "emulator/runtime/model/state.hpp"

namespace stagecraft::emulator::runtime {
namespace {

uint32_t checked_block_size(const machine::Architecture& chip, int block_size) {
  const uint32_t most = chip.threads_per_block;
  if (block_size < 1) {
    throw ApiError(cudaErrorInvalidValue, fmt::format("a block of {} threads; legal are 1 to {}", block_size, most));
  }
  return static_cast<uint32_t>(block_size);
}

uint32_t blocks_on_multiprocessor(machine::Machine& machine, Function& function, machine::Extent3 block,
                                  uint64_t shared_bytes) {
  const machine::Kernel& kernel = function.module->kernel(function, machine);
  const FunctionLimits limits = limits_of(machine.architecture(), function, kernel);
  if (block.count() > limits.max_threads || shared_bytes > limits.max_dynamic_shared_bytes) return 0;
  return machine.residency(kernel, block, static_cast<uint32_t>(shared_bytes)).blocks;
}

}  // namespace

cudaFuncAttributes function_attributes(machine::Machine& machine, Function& function) {
  const machine::Kernel& kernel = function.module->kernel(function, machine);
  const FunctionLimits limits = limits_of(machine.architecture(), function, kernel);
  const ptx::Function& entry = *kernel.entry;
  cudaFuncAttributes attributes{};
  attributes.sharedSizeBytes = kernel.static_shared_bytes;
  attributes.constSizeBytes = function.module->constant_bytes();
  attributes.localSizeBytes = kernel.local_bytes;
  attributes.maxThreadsPerBlock = static_cast<int>(limits.max_threads);
  attributes.numRegs = static_cast<int>(kernel.machine_registers);
  const auto target = fatbin::parse_target(function.module->text().target);
  attributes.ptxVersion = target ? static_cast<int>(target->sm) : 0;
  attributes.binaryVersion = static_cast<int>(machine.architecture().major * 10 + machine.architecture().minor);
  attributes.maxDynamicSharedSizeBytes = static_cast<int>(limits.max_dynamic_shared_bytes);
  attributes.preferredShmemCarveout = function.shared_carveout;
  attributes.clusterDimMustBeSet = entry.explicit_cluster && entry.cluster.x == 0;
  attributes.requiredClusterWidth = static_cast<int>(entry.cluster.x);
  attributes.requiredClusterHeight = static_cast<int>(entry.cluster.y);
  attributes.requiredClusterDepth = static_cast<int>(entry.cluster.z);
  attributes.nonPortableClusterSizeAllowed = function.non_portable_cluster;
  return attributes;
}

void set_function_attribute(State& state, Function& function, cudaFuncAttribute attribute, int value) {
  const machine::Kernel& kernel = function.module->kernel(function, state.machine());
  const auto refuse = [&](std::string message) {
    throw ApiError(cudaErrorInvalidValue, fmt::format("kernel {}: {}", kernel.display_name, message));
  };
  switch (attribute) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize: {
      const uint32_t most = limits_of(state.architecture(), function, kernel).shared_bytes_left;
      if (value < 0 || static_cast<uint32_t>(value) > most) {
        refuse(
            fmt::format("{} bytes of dynamic shared memory; legal are 0 to {}: the {} has {} for a block, and static "
                        "shared memory takes {}",
                        value, most, state.architecture().name, state.architecture().shared_per_block_optin,
                        kernel.static_shared_bytes));
      }
      function.max_dynamic_shared_bytes = static_cast<uint32_t>(value);
      return;
    }
    case cudaFuncAttributePreferredSharedMemoryCarveout:
      if (value < -1 || value > 100)
        refuse(fmt::format("a carveout of {}; legal are -1 (default) to 100 percent", value));
      function.shared_carveout = value;
      return;
    case cudaFuncAttributeNonPortableClusterSizeAllowed: function.non_portable_cluster = value != 0; return;
    case cudaFuncAttributeRequiredClusterWidth:
    case cudaFuncAttributeRequiredClusterHeight:
    case cudaFuncAttributeRequiredClusterDepth: {
      if (value < 1) refuse(fmt::format("a required cluster extent of {}; it is at least 1", value));
      if (kernel.entry->cluster.x != 0) refuse("its cluster is fixed by __cluster_dims__");
      machine::Extent3& cluster = function.required_cluster;
      if (!function.has_required_cluster) cluster = {1, 1, 1};
      function.has_required_cluster = true;
      (attribute == cudaFuncAttributeRequiredClusterWidth    ? cluster.x
       : attribute == cudaFuncAttributeRequiredClusterHeight ? cluster.y
                                                             : cluster.z) = static_cast<uint32_t>(value);
      return;
    }
    case cudaFuncAttributeClusterDimMustBeSet:
    case cudaFuncAttributeClusterSchedulingPolicyPreference: return;
    default:
      // Programs such as Triton try attributes of later versions of CUDA for each of their kernels.
      if (!state.modules.refuses_first(attribute)) throw ApiError(cudaErrorInvalidValue, "");
      refuse(fmt::format(
          "attribute {} cannot be set; legal are 8 (largest dynamic shared memory) to 15, and programs that "
          "try those of later versions of CUDA go on without. That is said once",
          static_cast<int>(attribute)));
  }
}

int resident_blocks(machine::Machine& machine, Function& function, int block_size, size_t dynamic_shared_bytes) {
  return static_cast<int>(blocks_on_multiprocessor(
      machine, function, {checked_block_size(machine.architecture(), block_size), 1, 1}, dynamic_shared_bytes));
}

BestBlock best_block_size(machine::Machine& machine, Function& function, int most,
                          const std::function<size_t(int)>& shared_bytes) {
  const machine::Kernel& kernel = function.module->kernel(function, machine);
  int limit = static_cast<int>(limits_of(machine.architecture(), function, kernel).max_threads);
  if (most > 0) limit = std::min(limit, most);
  constexpr int kWarp = machine::kWarpSize;
  BestBlock best;
  int best_threads = 0;
  // The runtime's header (cuda_runtime.h, cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags) goes from the
  // largest size down, so that the largest of equally good ones is taken.
  for (int aligned = (limit + kWarp - 1) / kWarp * kWarp; aligned > 0; aligned -= kWarp) {
    const int threads = std::min(aligned, limit);
    const int blocks = resident_blocks(machine, function, threads, shared_bytes(threads));
    if (threads * blocks <= best_threads) continue;
    best_threads = threads * blocks;
    best = {blocks * static_cast<int>(machine.architecture().multiprocessors), threads};
  }
  return best;
}

size_t available_shared_bytes(machine::Machine& machine, Function& function, int blocks, int block_size) {
  const uint32_t threads = checked_block_size(machine.architecture(), block_size);
  if (blocks < 1) throw ApiError(cudaErrorInvalidValue, fmt::format("{} blocks; at least 1 is legal", blocks));
  const machine::Kernel& kernel = function.module->kernel(function, machine);
  // Residency falls with shared memory: find the most that still fits.
  uint64_t fits = 0,
           too_much = uint64_t{limits_of(machine.architecture(), function, kernel).max_dynamic_shared_bytes} + 1;
  if (blocks_on_multiprocessor(machine, function, {threads, 1, 1}, 0) < static_cast<uint32_t>(blocks)) return 0;
  while (too_much - fits > 1) {
    const uint64_t middle = (fits + too_much) / 2;
    const bool is_enough =
        blocks_on_multiprocessor(machine, function, {threads, 1, 1}, middle) >= static_cast<uint32_t>(blocks);
    (is_enough ? fits : too_much) = middle;
  }
  return fits;
}

int largest_cluster(machine::Machine& machine, Function& function, const LaunchConfiguration& configuration) {
  if (blocks_on_multiprocessor(machine, function, configuration.block, configuration.dynamic_shared_bytes) == 0)
    return 0;
  const machine::Architecture& chip = machine.architecture();
  return static_cast<int>(function.non_portable_cluster ? chip.cluster_blocks_nonportable : chip.cluster_blocks);
}

int resident_clusters(machine::Machine& machine, Function& function, const LaunchConfiguration& configuration) {
  const machine::Kernel& kernel = function.module->kernel(function, machine);
  const uint64_t cluster = std::max<uint64_t>(cluster_of(function, kernel, configuration).count(), 1);
  const uint64_t blocks =
      blocks_on_multiprocessor(machine, function, configuration.block, configuration.dynamic_shared_bytes);
  return static_cast<int>(blocks * machine.architecture().multiprocessors / cluster);
}

}  // namespace stagecraft::emulator::runtime
