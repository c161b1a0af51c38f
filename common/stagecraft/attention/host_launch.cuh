// How the host starts an attention kernel, and tables of kernels made from lists of configurations. The kernel itself
// is only declared here; launch.cuh has both.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "stagecraft/attention/kernel_table.hpp"
#include "stagecraft/attention/problem.hpp"
#include "stagecraft/attention/types.hpp"
#include "stagecraft/launch.hpp"

namespace stagecraft {

template <typename Types>
__global__ void attention_kernel(const __grid_constant__ AttentionParameters<Types> problem);

namespace detail {

/// The tensor map of Q, K, V or the output: rows of `columns` elements, in boxes of `lines` of them, for each head. One
/// without rows is of one that no kernel reads, because tensor maps are not empty.
template <typename T>
BatchedTileMap<T> map_of_rows(const void* address, int64_t rows, int64_t columns, const AttentionStrides& strides,
                              int64_t matrices, int lines = T::lines) {
  using Element = typename T::element_type;
  const auto bytes = [](int64_t elements) { return static_cast<uint64_t>(elements) * T::bits / 8; };
  return {make_tensor_map(static_cast<const Element*>(address),
                          {{.extent = static_cast<uint64_t>(columns), .box = T::box_elements},
                           {.extent = static_cast<uint64_t>(std::max<int64_t>(rows, 1)),
                            .stride = bytes(strides.token),
                            .box = static_cast<uint32_t>(lines)},
                           {.extent = static_cast<uint64_t>(matrices), .stride = bytes(strides.head), .box = 1}},
                          T::swizzle)};
}

/// Why a launch has failed.
inline std::optional<AttentionError> launch_failure(cudaError_t error) {
  if (error == cudaSuccess) return std::nullopt;
  return AttentionError{AttentionFailure::launch_failed,
                        std::string("the kernel could not be launched: ") + cudaGetErrorString(error)};
}

}  // namespace detail

/// How a kernel's blocks are launched.
template <typename Types>
LaunchOptions attention_options(uint32_t blocks, cudaStream_t stream) {
  return {.grid = blocks, .block = kAttentionBlock, .dynamic_shared_bytes = Types::shared_bytes, .stream = stream};
}

/// Starts the kernel of a configuration.
template <AttentionConfig Config>
std::optional<AttentionError> launch_attention(const AttentionLaunch& launch) {
  using Types = AttentionTypes<Config>;
  const auto& [problem, arguments, blocks, queries_follow, keys_follow, stream] = launch;
  const auto& [size, pages, pages_of_sequence] = problem.pages;
  const auto narrow = [](int64_t value) { return static_cast<int>(value); };
  const int64_t items = (problem.queries + kItemQueries - 1) / kItemQueries * problem.sequences * problem.heads;
  if (items == 0) return std::nullopt;

  const int64_t matrices_of_q = queries_follow ? problem.heads : problem.sequences * problem.heads;
  const int64_t matrices_of_k = keys_follow ? problem.kv_heads : problem.sequences * problem.kv_heads;
  const int64_t query_rows = problem.variable_queries ? arguments.all_queries
                             : queries_follow         ? problem.sequences * problem.queries
                                                      : problem.queries;
  const int64_t key_rows = size > 0                ? pages * size
                           : problem.variable_keys ? arguments.all_keys
                           : keys_follow           ? problem.sequences * problem.keys
                                                   : problem.keys;
  const int piece = size > 0 ? narrow(std::min<int64_t>(size, kBlockKeys)) : kBlockKeys;
  constexpr float kLog2E = 0x1.715476p0f;
  try {
    using detail::map_of_rows;
    const AttentionParameters<Types> parameters{
        .q = map_of_rows<typename Types::Queries>(arguments.q, query_rows, problem.head_dim, problem.q, matrices_of_q),
        .k =
            map_of_rows<typename Types::Keys>(arguments.k, key_rows, problem.head_dim, problem.k, matrices_of_k, piece),
        .v = map_of_rows<typename Types::Values>(arguments.v, key_rows, problem.value_dim, problem.v, matrices_of_k,
                                                 piece),
        .o = map_of_rows<typename Types::Outputs>(arguments.o, query_rows, problem.value_dim, problem.o, matrices_of_q),
        .output = static_cast<typename Types::OutputElement*>(arguments.o),
        .output_token_stride = problem.o.token,
        .output_head_stride = problem.o.head,
        .output_batch_stride = queries_follow ? 0 : problem.o.sequence,
        .logsumexp = problem.logsumexp ? arguments.logsumexp : nullptr,
        .logsumexp_stride = problem.variable_queries ? arguments.all_queries : problem.sequences * problem.queries,
        .sinks = problem.sinks ? arguments.sinks : nullptr,
        .query_begins = problem.variable_queries ? arguments.query_begins : nullptr,
        .key_begins = problem.variable_keys && size == 0 ? arguments.key_begins : nullptr,
        .key_lengths = problem.variable_keys && size > 0 ? arguments.key_lengths : nullptr,
        .page_table = size > 0 ? arguments.page_table : nullptr,
        .query_places = {.rows_of_sequence = queries_follow ? narrow(problem.queries) : 0,
                         .heads_of_sequence = queries_follow ? 0 : narrow(problem.heads)},
        .key_places = {.rows_of_sequence = keys_follow ? narrow(problem.keys) : 0,
                       .heads_of_sequence = keys_follow ? 0 : narrow(problem.kv_heads)},
        .sequences = narrow(problem.sequences),
        .heads = narrow(problem.heads),
        .heads_of_group = narrow(problem.heads / problem.kv_heads),
        .queries = narrow(problem.queries),
        .keys = narrow(problem.keys),
        .value_dim = narrow(problem.value_dim),
        .page_size = narrow(size),
        .pages_of_sequence = narrow(pages_of_sequence),
        .piece_keys = piece,
        .has_exact_ends = !keys_follow,
        .visible = {.left = narrow(problem.mask.window_left), .right = narrow(problem.mask.window_right)},
        .scale_log2 = kLog2E * (problem.soft_cap != 0 ? problem.soft_cap : problem.scale),
        .inner_scale = problem.soft_cap != 0 ? problem.scale / problem.soft_cap : 0,
        .output_scale = arguments.output_scale};
    const auto most = static_cast<uint32_t>(std::min<int64_t>(blocks, items));
    return detail::launch_failure(
        launch_kernel(attention_kernel<Types>, attention_options<Types>(most, stream), parameters));
  } catch (const TensorMapError& error) {
    return AttentionError{AttentionFailure::bad_problem, error.what()};
  }
}

/// How many blocks of a kernel the current device runs at the same time.
template <AttentionConfig Config>
cudaError_t find_attention_blocks(uint32_t& blocks) {
  using Types = AttentionTypes<Config>;
  return find_resident_clusters(attention_kernel<Types>, attention_options<Types>(1, nullptr), blocks);
}

/// What the host knows of a kernel.
template <AttentionConfig Config>
constexpr AttentionKernel attention_kernel_entry() {
  using Types = AttentionTypes<Config>;
  return {.config = Config,
          .stages = Types::stages,
          .shared_bytes = Types::shared_bytes,
          .launch = &launch_attention<Config>,
          .find_blocks = &find_attention_blocks<Config>};
}

/// The kernels of a list of configurations, in the same order.
/// @tparam Configs  a constexpr std::array of AttentionConfig.
template <const auto& Configs>
std::span<const AttentionKernel> attentions_of() {
  static constexpr auto kKernels = []<size_t... I>(std::index_sequence<I...>) {
    return std::array<AttentionKernel, sizeof...(I)>{attention_kernel_entry<Configs[I]>()...};
  }
  (std::make_index_sequence<Configs.size()>{});
  return kKernels;
}

}  // namespace stagecraft
