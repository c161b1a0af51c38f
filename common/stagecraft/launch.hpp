// Host side: starts a kernel with clusters, dynamic shared memory and all else that `<<<>>>` has no place for. Errors
// are values.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <type_traits>

namespace stagecraft {

/// How a kernel is launched.
struct LaunchOptions {
  dim3 grid = {1, 1, 1};     ///< blocks; each dimension a multiple of the cluster's
  dim3 block = {1, 1, 1};    ///< threads
  dim3 cluster = {1, 1, 1};  ///< blocks that share their shared memory; at most 8, on most chips 16
  /// A larger cluster, each dimension a multiple of the cluster's, for the multiprocessors where it fits; those that
  /// are left get `cluster`. The grid is a multiple of it, and z that of the cluster. The kernel must work with both,
  /// and ask `cluster_blocks()` which it has; ranks and multicast masks are those of the cluster that it has. 0: none.
  /// Source: CUDA, cudaLaunchAttributePreferredClusterDimension.
  dim3 preferred_cluster = {0, 0, 0};
  uint32_t dynamic_shared_bytes = 0;  ///< for each block
  cudaStream_t stream = nullptr;      ///< by default the default stream
  /// The kernel may start before the one ahead of it in the stream has ended (programmatic dependent launch). It must
  /// call `wait_for_earlier_grids()` of dependent_launch.hpp before it uses what that one writes.
  bool programmatic_dependent_launch = false;
};

namespace detail {

/// A cudaLaunchConfig_t and the attributes that it points to. It must not be copied.
class LaunchConfiguration {
 public:
  explicit LaunchConfiguration(const LaunchOptions& options)
      : config_{.gridDim = options.grid,
                .blockDim = options.block,
                .dynamicSmemBytes = options.dynamic_shared_bytes,
                .stream = options.stream,
                .attrs = attributes_.data(),
                .numAttrs = 0} {
    const bool has_preferred = count(options.preferred_cluster) > 0;
    if (count(options.cluster) > 1 || has_preferred) {  // CUDA ignores a preferred cluster without a regular one
      cudaLaunchAttribute& attribute = add(cudaLaunchAttributeClusterDimension);
      attribute.val.clusterDim = {options.cluster.x, options.cluster.y, options.cluster.z};
    }
    if (has_preferred) {
      cudaLaunchAttribute& attribute = add(cudaLaunchAttributePreferredClusterDimension);
      attribute.val.preferredClusterDim = {options.preferred_cluster.x, options.preferred_cluster.y,
                                           options.preferred_cluster.z};
    }
    if (options.programmatic_dependent_launch) {
      add(cudaLaunchAttributeProgrammaticStreamSerialization).val.programmaticStreamSerializationAllowed = 1;
    }
  }
  LaunchConfiguration(const LaunchConfiguration&) = delete;
  LaunchConfiguration& operator=(const LaunchConfiguration&) = delete;

  const cudaLaunchConfig_t& get() const { return config_; }

  static uint32_t count(dim3 extent) { return extent.x * extent.y * extent.z; }

 private:
  cudaLaunchAttribute& add(cudaLaunchAttributeID id) {
    cudaLaunchAttribute& attribute = attributes_[config_.numAttrs++];
    attribute.id = id;
    return attribute;
  }

  std::array<cudaLaunchAttribute, 3> attributes_{};
  cudaLaunchConfig_t config_;
};

/// Permits what the options need and a kernel may not have unasked.
inline cudaError_t permit(const void* kernel, const LaunchOptions& options) {
  constexpr uint32_t kSharedBytesUnasked = 48 * 1024, kClusterUnasked = 8;
  if (options.dynamic_shared_bytes > kSharedBytesUnasked) {
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                   static_cast<int>(options.dynamic_shared_bytes));
    if (error != cudaSuccess) return error;
  }
  if (LaunchConfiguration::count(options.cluster) > kClusterUnasked ||
      LaunchConfiguration::count(options.preferred_cluster) > kClusterUnasked) {
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  }
  return cudaSuccess;
}

}  // namespace detail

/// Launches a kernel, and returns what went wrong with that. What goes wrong while it runs, a later call returns.
///
///     const cudaError_t error = launch_kernel(gemm<Config>, {.grid = grid, .block = 192, .stream = stream}, problem);
template <typename... Parameters>
[[nodiscard]] cudaError_t launch_kernel(void (*kernel)(Parameters...), const LaunchOptions& options,
                                        const std::type_identity_t<std::remove_cvref_t<Parameters>>&... arguments) {
  const auto* function = reinterpret_cast<const void*>(kernel);
  if (const cudaError_t error = detail::permit(function, options); error != cudaSuccess) return error;
  void* addresses[] = {const_cast<void*>(static_cast<const void*>(&arguments))..., nullptr};
  const detail::LaunchConfiguration configuration(options);
  return cudaLaunchKernelExC(&configuration.get(), function, addresses);
}

/// Finds out how many clusters of this launch the device can run at the same time: the grid of a persistent kernel.
///
/// The grid in the options does not count. With a preferred cluster, that many of it fit where it is used everywhere.
/// @param clusters  the answer; 0 if not even one fits.
template <typename... Parameters>
[[nodiscard]] cudaError_t find_resident_clusters(void (*kernel)(Parameters...), LaunchOptions options,
                                                 uint32_t& clusters) {
  clusters = 0;
  const auto* function = reinterpret_cast<const void*>(kernel);
  if (const cudaError_t error = detail::permit(function, options); error != cudaSuccess) return error;
  if (detail::LaunchConfiguration::count(options.preferred_cluster) > 0) options.cluster = options.preferred_cluster;
  options.preferred_cluster = {0, 0, 0};
  options.grid = options.cluster;
  int found = 0, device = 0, multiprocessors = 0;
  if (detail::LaunchConfiguration::count(options.cluster) == 1) {
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess) {
      error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
    }
    if (error == cudaSuccess) {
      const auto threads = static_cast<int>(detail::LaunchConfiguration::count(options.block));
      error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&found, function, threads, options.dynamic_shared_bytes);
    }
    if (error == cudaSuccess) clusters = static_cast<uint32_t>(found) * static_cast<uint32_t>(multiprocessors);
    return error;
  }
  const detail::LaunchConfiguration configuration(options);
  const cudaError_t error = cudaOccupancyMaxActiveClusters(&found, function, &configuration.get());
  if (error == cudaSuccess) clusters = static_cast<uint32_t>(found);
  return error;
}

}  // namespace stagecraft
