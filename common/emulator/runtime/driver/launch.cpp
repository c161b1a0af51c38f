// The driver API: launching kernels and host functions, and the occupancy of kernels.
#include "emulator/runtime/model/launch.hpp"

#include "emulator/runtime/driver/runtime_calls.hpp"
#include "emulator/runtime/model/api_call.hpp"
#include "emulator/runtime/model/occupancy.hpp"
#include "emulator/runtime/model/submission.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// Launches with `kernelParams` or, when that is null, with the buffer that `extra` describes.
CUresult launch_for(const char* name, CUfunction function, const std::function<LaunchConfiguration()>& configuration,
                    void** parameters, void** extra) {
  return run_driver_call(name, Needs::launch, [&](State& state) {
    submit(state, prepare_launch(state, function, configuration(), parameters, extra));
  });
}

/// The driver's copy of a launch configuration as the runtime's; the attributes are the same type.
cudaLaunchConfig_t runtime_configuration(const CUlaunchConfig& config) {
  static_assert(sizeof(CUlaunchAttribute) == sizeof(cudaLaunchAttribute));
  cudaLaunchConfig_t result{};
  result.gridDim = {config.gridDimX, config.gridDimY, config.gridDimZ};
  result.blockDim = {config.blockDimX, config.blockDimY, config.blockDimZ};
  result.dynamicSmemBytes = config.sharedMemBytes;
  result.stream = config.hStream;
  result.attrs = reinterpret_cast<cudaLaunchAttribute*>(config.attrs);
  result.numAttrs = config.numAttrs;
  return result;
}

}  // namespace
}  // namespace stagecraft::emulator::runtime

using namespace stagecraft::emulator::runtime;

extern "C" {

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void** parameters,
                        void** extra) {
  return launch_for(
      "cuLaunchKernel", function,
      [&] {
        return plain_configuration({grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, stream);
      },
      parameters, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                   CUstream stream, void** parameters) {
  return launch_for(
      "cuLaunchCooperativeKernel", function,
      [&] {
        return plain_configuration({grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, stream, true);
      },
      parameters, nullptr);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
  return launch_for(
      "cuLaunchKernelEx", function,
      [&] { return read_configuration(runtime_configuration(*required(config, "config"))); }, parameters, extra);
}

STAGECRAFT_THROUGH(cuLaunchHostFunc, cudaLaunchHostFunc)
STAGECRAFT_THROUGH(cuOccupancyMaxActiveBlocksPerMultiprocessor, cudaOccupancyMaxActiveBlocksPerMultiprocessor)

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction function, int block_size,
                                                              size_t shared_bytes, unsigned flags) {
  return driver_call_through("cuOccupancyMaxActiveBlocksPerMultiprocessor", Needs::device, [&] {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size, shared_bytes, flags);
  });
}

STAGECRAFT_THROUGH(cuOccupancyAvailableDynamicSMemPerBlock, cudaOccupancyAvailableDynamicSMemPerBlock)

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* least_grid, int* block_size, CUfunction function,
                                                   CUoccupancyB2DSize shared_bytes_of_block, size_t shared_bytes,
                                                   int most, unsigned) {
  return run_driver_call("cuOccupancyMaxPotentialBlockSize", Needs::device, [&](State& state) {
    const BestBlock best = best_block_size(
        state.machine(), require_function(state.modules, function), most,
        [&](int threads) { return shared_bytes_of_block == nullptr ? shared_bytes : shared_bytes_of_block(threads); });
    *required(least_grid, "minGridSize") = best.grid;
    *required(block_size, "blockSize") = best.threads;
  });
}

CUresult cuOccupancyMaxPotentialBlockSize(int* least_grid, int* block_size, CUfunction function,
                                          CUoccupancyB2DSize shared_bytes_of_block, size_t shared_bytes, int most) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(least_grid, block_size, function, shared_bytes_of_block,
                                                   shared_bytes, most, 0);
}

CUresult cuOccupancyMaxPotentialClusterSize(int* cluster_size, CUfunction function, const CUlaunchConfig* config) {
  return run_driver_call("cuOccupancyMaxPotentialClusterSize", Needs::device, [&](State& state) {
    const cudaLaunchConfig_t same_configuration = runtime_configuration(*required(config, "config"));
    *required(cluster_size, "clusterSize") = largest_cluster(state.machine(), require_function(state.modules, function),
                                                             read_configuration(same_configuration));
  });
}

CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction function, const CUlaunchConfig* config) {
  return run_driver_call("cuOccupancyMaxActiveClusters", Needs::device, [&](State& state) {
    const cudaLaunchConfig_t same_configuration = runtime_configuration(*required(config, "config"));
    *required(clusters, "numClusters") = resident_clusters(state.machine(), require_function(state.modules, function),
                                                           read_configuration(same_configuration));
  });
}

}  // extern "C"
