// What a kernel needs and how much of it fits on the chip, as cudaFunc* and cudaOccupancy* report it.
#pragma once

#include <cstddef>
#include <functional>

#include "emulator/runtime/model/launch.hpp"
#include "emulator/runtime/model/state.hpp"

namespace stagecraft::emulator::runtime {

cudaFuncAttributes function_attributes(machine::Machine& machine, Function& function);
/// Throws ApiError (cudaErrorInvalidValue) for an attribute that cannot be set, or a value that the chip does not have.
void set_function_attribute(State& state, Function& function, cudaFuncAttribute attribute, int value);

/// Blocks that fit on one multiprocessor at the same time.
int resident_blocks(machine::Machine& machine, Function& function, int block_size, size_t dynamic_shared_bytes);
/// Dynamic shared memory each of `blocks` blocks can have when all of them must fit on one multiprocessor.
size_t available_shared_bytes(machine::Machine& machine, Function& function, int blocks, int block_size);
/// Blocks in the largest cluster with which the configuration can be launched.
int largest_cluster(machine::Machine& machine, Function& function, const LaunchConfiguration& configuration);
/// Clusters of this configuration that run at the same time on the chip.
int resident_clusters(machine::Machine& machine, Function& function, const LaunchConfiguration& configuration);

/// The block size with the most resident threads, of those that are whole warps, and the blocks that fill the chip.
struct BestBlock {
  int grid = 0;
  int threads = 0;
};
/// `most` bounds the size; 0 for none. Dynamic shared memory may depend on the size.
BestBlock best_block_size(machine::Machine& machine, Function& function, int most,
                          const std::function<size_t(int)>& shared_bytes);

}  // namespace stagecraft::emulator::runtime
