// How the host starts a GEMM kernel, and tables of kernels made from lists of configurations. The kernel itself is only
// declared here; launch.cuh has both.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <tuple>
#include <utility>

#include "stagecraft/gemm/extents.hpp"
#include "stagecraft/gemm/kernel_table.hpp"
#include "stagecraft/gemm/problem.hpp"
#include "stagecraft/gemm/roles.hpp"
#include "stagecraft/gemm/types.hpp"
#include "stagecraft/launch.hpp"

namespace stagecraft {

template <typename Types>
__global__ void gemm_kernel(const __grid_constant__ GemmParameters<Types> problem);

namespace detail {

/// The tensor map of an operand with `rows` along M or N.
template <typename T, int Slices>
OperandBatch<T, Slices> operand_map(const GemmOperand& operand, const void* address, int64_t rows, int64_t k,
                                    int64_t batches) {
  const auto bytes = [&](int64_t elements) { return static_cast<uint64_t>(elements) * T::bits / 8; };
  return make_operand_batch<T, Slices>(static_cast<const matrix_element<typename T::element_type>*>(address), rows, k,
                                       bytes(operand.pitch), batches, bytes(operand.batch_stride));
}

/// The tensor maps of A and B for the blocks of a cluster.
template <typename Types, typename Cluster>
GemmOperandMaps<Types, Cluster> operand_maps(const GemmLaunch& launch, int64_t batches_of_a) {
  const auto& [problem, arguments] = std::tie(launch.problem, launch.arguments);
  return {.a = operand_map<typename Types::ATile, Cluster::blocks_sharing_a>(problem.a, arguments.a, problem.m,
                                                                             problem.k, batches_of_a),
          .b = operand_map<typename Types::BTile, Cluster::blocks_sharing_b>(problem.b, arguments.b, problem.n,
                                                                             problem.k, problem.batches)};
}

/// The same for smaller clusters, if there may be some.
template <typename Types>
auto fallback_maps(const GemmLaunch& launch, int64_t batches_of_a) {
  if constexpr (Types::has_fallback) {
    return operand_maps<Types, typename Types::Fallback>(launch, batches_of_a);
  } else {
    return Absent{};
  }
}

template <typename T>
inline constexpr bool is_direct = false;
template <typename Element>
inline constexpr bool is_direct<DirectMatrix<Element>> = true;

/// The tensor map of a matrix of D's shape, or where it is, if the kernel has one and the launch wants it.
template <typename Map>
Map result_map(bool is_wanted, const GemmCompanion& matrix, const void* address, int64_t rows, int64_t columns,
               int64_t batches) {
  if constexpr (std::is_same_v<Map, Absent>) {
    return {};
  } else if constexpr (is_direct<Map>) {
    using Element = std::remove_pointer_t<decltype(Map::address)>;
    return {const_cast<Element*>(static_cast<const Element*>(address)), matrix.pitch, matrix.batch_stride};
  } else if constexpr (requires { &Map::is_read; }) {
    return {result_map<decltype(Map::map)>(is_wanted, matrix, address, rows, columns, batches), is_wanted};
  } else {
    using T = typename Map::tile_type;
    if (!is_wanted) return {};
    const auto bytes = [&](int64_t elements) { return static_cast<uint64_t>(elements) * T::bits / 8; };
    return make_batched_tile_map<T>(static_cast<const typename T::element_type*>(address), rows, columns,
                                    bytes(matrix.pitch), batches, bytes(matrix.batch_stride));
  }
}

/// The tensor maps of scale factors, or of scales, where the operands have them.
template <typename Types>
auto scale_factor_maps(const GemmLaunch& launch) {
  if constexpr (Types::is_scaled) {
    using Scale = typename Types::SfaTile::element_type;
    const GemmProblem& problem = launch.problem;
    const int64_t m = padded_to(128, problem.m), n = padded_to(128, problem.n);
    int64_t rows_of_all = m * problem.batches;
    if (problem.groups.is_contiguous()) {
      rows_of_all = launch.groups.scale_rows[problem.batches - 1] + padded_to(128, problem.groups.rows.back());
    }
    const int64_t blocks = padded_to(4, ceil_div(problem.k, Types::scale_block));
    return ScaleFactorMaps<Types>{
        .a = make_tile_map<typename Types::SfaTile>(static_cast<const Scale*>(launch.arguments.a_scale_factors),
                                                    rows_of_all, blocks),
        .b = make_tile_map<typename Types::SfbTile>(static_cast<const Scale*>(launch.arguments.b_scale_factors),
                                                    n * problem.batches, blocks),
        .rows_of_a = static_cast<int>(m),
        .rows_of_b = static_cast<int>(n)};
  } else if constexpr (Types::is_promoted) {
    const GemmProblem& problem = launch.problem;
    const int64_t k_tiles = ceil_div(problem.k, Types::tile_k);
    const uint64_t pitch = padded_to(4, problem.m);
    return BlockwiseScales<Types>{.a = make_tile_map<typename Types::AScales::ScalesTile>(
                                      static_cast<const float*>(launch.arguments.a_scale_factors),
                                      problem.matrices_of_a() * k_tiles, problem.m, pitch * sizeof(float)),
                                  .b = static_cast<const float*>(launch.arguments.b_scale_factors),
                                  .k_tiles = static_cast<int>(k_tiles),
                                  .blocks_of_b = static_cast<int>(ceil_div(problem.n, 128))};
  } else {
    return Absent{};
  }
}

/// Where the scale factors of D go, if it has them.
template <typename Types>
typename Types::DScaling d_scaling(const GemmLaunch& launch, int64_t columns) {
  if constexpr (Types::scales_d) {
    using Type = block_scaled_type<Types::config.d>;
    const int64_t rows = padded_to(128, launch.problem.m), atoms_of_row = ceil_div(columns, 4 * Type::block);
    return {static_cast<typename Type::Scale*>(launch.arguments.d_scale_factors), static_cast<int>(columns),
            rows * atoms_of_row * 4};
  } else {
    return {};
  }
}

/// The tiles of a launch, and how they are divided.
template <typename Types>
typename Types::Tiles tiles_of(const GemmLaunch& launch) {
  constexpr GemmConfig kConfig = Types::config;
  const auto count = [](int64_t extent, int tile) { return static_cast<uint32_t>(ceil_div(extent, tile)); };
  const GemmProblem& problem = launch.problem;
  const ProductTiles product{.rows = count(problem.m, Types::block_m),
                             .columns = count(problem.n, kConfig.tile_n),
                             .k_tiles = count(problem.k, Types::tile_k),
                             .batches = static_cast<uint32_t>(problem.batches)};
  if constexpr (kConfig.groups) {
    return typename Types::Tiles{launch.groups, product.columns, product.k_tiles, launch.splits};
  } else if constexpr (kConfig.divides_k) {
    using Cluster = typename Types::Cluster;
    if (launch.stream_k) return typename Types::Tiles{StreamK<Cluster>{product, launch.clusters, launch.raster}};
    return typename Types::Tiles{SplitK<Cluster>{product, launch.splits, launch.raster}};
  } else {
    return typename Types::Tiles{product, launch.raster};
  }
}

/// Where factors in device memory are, if the kernel reads any.
template <typename Types>
auto device_factors_of(const GemmArguments& arguments) {
  if constexpr (Types::config.device_factors) {
    return DeviceFactors{arguments.device_alpha, arguments.device_beta, arguments.device_scale, arguments.a_scale,
                         arguments.b_scale};
  } else {
    return Absent{};
  }
}

/// The kernel's parameter, except the workspace. Throws TensorMapError.
///
/// Every map is made in its place: g++ 12 does not align a temporary object that is then assigned.
template <typename Types>
GemmParameters<Types> parameters_of(const GemmLaunch& launch) {
  using Parameters = GemmParameters<Types>;
  using Cluster = typename Types::Cluster;
  const auto& [m, n, k, batches, a, b, d, fusion, c, second, groups] = launch.problem;
  const int64_t batches_of_a = launch.problem.matrices_of_a();
  const GemmArguments& arguments = launch.arguments;
  const int64_t columns = n / Types::columns_per_result;
  const int64_t rows_of_d = launch.swaps ? n : m, columns_of_d = launch.swaps ? m : n;
  return {
      .operands = operand_maps<Types, Cluster>(launch, batches_of_a),
      .fallback = fallback_maps<Types>(launch, batches_of_a),
      .scale_factors = scale_factor_maps<Types>(launch),
      .d_map = result_map<typename Parameters::DMap>(launch.has_d_map, d, arguments.d, m, columns, batches_of_a),
      .second_map = result_map<typename Parameters::SecondMap>(fusion.second_output, second, arguments.second, m, n,
                                                               batches_of_a),
      .c_map =
          result_map<typename Parameters::CMap>(fusion.c && reads_c(arguments), c, arguments.c, m, n, batches_of_a),
      .d = static_cast<typename Types::DElement*>(arguments.d),
      .d_pitch = d.pitch,
      .d_batch_stride = d.batch_stride,
      .has_d_map = launch.has_d_map,
      .m = static_cast<int>(m),
      .n = static_cast<int>(n),
      .tiles = tiles_of<Types>(launch),
      .workspace = {},
      .epilogue = {.alpha = arguments.alpha,
                   .beta = arguments.beta,
                   .scale = arguments.scale,
                   .row_scales = {fusion.row_scales ? arguments.row_scales : nullptr, rows_of_d},
                   .column_scales = {fusion.column_scales ? arguments.column_scales : nullptr, columns_of_d},
                   .bias = {fusion.bias ? arguments.bias : nullptr, columns_of_d},
                   .activation = fusion.activation,
                   .absolute_maximum = fusion.absolute_maximum ? arguments.absolute_maximum : nullptr,
                   .has_second_output = fusion.second_output},
      .d_scaling = d_scaling<Types>(launch, columns),
      .device_factors = device_factors_of<Types>(arguments),
  };
}

/// How a kernel is launched, without its grid.
template <typename Types>
LaunchOptions launch_options() {
  using Cluster = typename Types::Cluster;
  using Fallback = typename Types::Fallback;
  return {.block = kGemmThreads,
          .cluster = dim3(Fallback::rows, Fallback::columns),
          .preferred_cluster = Types::has_fallback ? dim3(Cluster::rows, Cluster::columns) : dim3(0, 0, 0),
          .dynamic_shared_bytes = sizeof(typename Types::Shared)};
}

/// Starts a kernel.
template <typename Types>
cudaError_t start(GemmParameters<Types>& parameters, const GemmLaunch& launch) {
  if constexpr (Types::config.divides_k) {
    const size_t counter_bytes = parameters.tiles.counters() * sizeof(uint32_t);
    auto* const bytes = static_cast<unsigned char*>(launch.workspace);
    parameters.workspace = {
        .sums = reinterpret_cast<float*>(bytes),
        .counters = reinterpret_cast<uint32_t*>(bytes + sizeof(float) * Types::slot_floats * parameters.tiles.slots())};
    if (counter_bytes > 0) {
      const cudaError_t error = cudaMemsetAsync(parameters.workspace.counters, 0, counter_bytes, launch.stream);
      if (error != cudaSuccess) return error;
    }
  }
  LaunchOptions options = launch_options<Types>();
  options.grid = Types::Scheduler::grid(parameters.tiles, launch.clusters);
  options.stream = launch.stream;
  options.programmatic_dependent_launch = launch.dependent;
  return launch_kernel(gemm_kernel<Types>, options, parameters);
}

}  // namespace detail

/// Starts one kernel. The problem has been checked; what the driver or the runtime still refuses is returned.
template <GemmConfig Config>
std::optional<GemmError> launch_gemm(const GemmLaunch& launch) {
  using Types = GemmTypes<Config>;
  try {
    GemmParameters<Types> parameters = detail::parameters_of<Types>(launch);
    const cudaError_t error = detail::start<Types>(parameters, launch);
    if (error == cudaSuccess) return std::nullopt;
    return GemmError{GemmFailure::launch_failed, std::string("cannot launch the kernel: ") + cudaGetErrorString(error)};
  } catch (const TensorMapError& error) {
    return GemmError{GemmFailure::bad_problem, error.what()};
  }
}

/// Bytes of device memory through which the blocks of a launch add up pieces.
template <GemmConfig Config>
size_t gemm_workspace_bytes(const GemmLaunch& launch) {
  using Types = GemmTypes<Config>;
  const auto tiles = detail::tiles_of<Types>(launch);
  return sizeof(float) * Types::slot_floats * tiles.slots() + sizeof(uint32_t) * tiles.counters();
}

/// Clusters of a kernel that the current device runs at the same time. Where some may be smaller, several of those
/// count as one, because together they compute what one does, and one at least if any fits: they need not run at the
/// same time.
template <GemmConfig Config>
cudaError_t find_gemm_clusters(uint32_t& clusters) {
  using Types = GemmTypes<Config>;
  LaunchOptions options = detail::launch_options<Types>();
  cudaError_t error = find_resident_clusters(gemm_kernel<Types>, options, clusters);
  if (!Types::has_fallback || error != cudaSuccess) return error;
  options.preferred_cluster = dim3(0, 0, 0);
  uint32_t smaller = 0;
  error = find_resident_clusters(gemm_kernel<Types>, options, smaller);
  if (smaller > 0) clusters = std::max({clusters, smaller * Types::Fallback::blocks / Types::Cluster::blocks, 1u});
  return error;
}

/// What the host knows of a kernel.
template <GemmConfig Config>
constexpr GemmKernel gemm_kernel_entry() {
  using Types = GemmTypes<Config>;
  return {.config = Config,
          .stages = Types::stages,
          .shared_bytes = Types::shared_bytes,
          .launch = &launch_gemm<Config>,
          .workspace_bytes = &gemm_workspace_bytes<Config>,
          .find_clusters = &find_gemm_clusters<Config>};
}

/// The kernels of a list of configurations, in the same order.
/// @tparam Configs  a constexpr std::array of GemmConfig.
template <const auto& Configs>
std::span<const GemmKernel> kernels_of() {
  static constexpr auto kKernels = []<size_t... I>(std::index_sequence<I...>) {
    return std::array<GemmKernel, sizeof...(I)>{gemm_kernel_entry<Configs[I]>()...};
  }
  (std::make_index_sequence<Configs.size()>{});
  return kKernels;
}

}  // namespace stagecraft
