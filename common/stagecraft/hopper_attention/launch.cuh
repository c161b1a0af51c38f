// How the host starts the kernel.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "harness/cuda_error.hpp"
#include "harness/device_buffer.hpp"
#include "stagecraft/hopper_attention/attention.hpp"
#include "stagecraft/hopper_attention/kernel.cuh"
#include "stagecraft/launch.hpp"
#include "stagecraft/tensor_map.hpp"

namespace stagecraft {

/// The kernel with its arguments, to be started any number of times.
template <typename Config>
class AttentionTwinLaunch {
  using T = AttentionTwin<Config>;
  using Element = typename Config::Element;

 public:
  /// Describes the rows to TMA. Where there are no keys, one row stands in for them, which no query sees.
  /// @param blocks  at most; 0: as many as the device has room for at once.
  explicit AttentionTwinLaunch(const HopperAttention& a, int blocks = 0)
      : problem_{.q = map(a.q, a.queries, a.heads, a, 64),
                 .k = map(a.keys > 0 ? a.k : a.q, a.keys, a.key_heads, a, T::kKeyTile),
                 .v = map(a.keys > 0 ? a.v : a.q, a.keys, a.key_heads, a, T::kKeyTile),
                 .out = map(a.out, a.queries, a.heads, a, 16),
                 .logsumexp = a.logsumexp,
                 .queries = a.queries,
                 .keys = a.keys,
                 .heads = a.heads,
                 .group = a.heads / a.key_heads,
                 .all_heads = a.heads * a.sequences,
                 .section = 1,
                 .taken = nullptr,
                 .scale_log2 = a.scale * 1.44269504088896f} {
    // As many heads at a time as L2 holds keys and values of, with room to spare. Without a mask, all of a head's
    // tiles take as long, and there are enough of them.
    constexpr int64_t kL2Bytes = int64_t{32} << 20;
    const int64_t bytes_of_head = int64_t{2} * std::max(a.keys, 1) * T::kHeadDim * sizeof(Element);
    if (Config::causal) {
      problem_.section =
          static_cast<int>(std::clamp<int64_t>(kL2Bytes / bytes_of_head * problem_.group, 1, problem_.all_heads));
    }
    uint32_t resident = 0;
    harness::check(find_resident_clusters(hopper_attention<Config>, options_, resident),
                   "ask how many blocks the device has room for");
    if (blocks > 0) resident = std::min<uint32_t>(resident, blocks);
    options_.grid = std::min<uint32_t>(resident, problem_.items());
    taken_ = std::make_shared<harness::DeviceBuffer<uint32_t>>(1, "the count of items");
    harness::check(cudaMemset(taken_->data(), 0, taken_->bytes()), "clear the count of items");
    problem_.taken = taken_->data();
  }

  /// Starts the kernel. Throws CudaError when that fails.
  void operator()(cudaStream_t stream = nullptr) const {
    LaunchOptions options = options_;
    options.stream = stream;
    harness::check(launch_kernel(hopper_attention<Config>, options, problem_), "launch the kernel");
  }

 private:
  static CUtensorMap map(const AttentionRows& rows, int tokens, int heads, const HopperAttention& a, uint32_t box) {
    // The stride of what there is once does not matter, and 0 is illegal.
    const auto bytes = [](int64_t elements, int count) {
      return static_cast<uint64_t>(count > 1 ? elements : T::kHeadDim) * sizeof(Element);
    };
    return make_tensor_map(
        static_cast<const Element*>(rows.data),
        {{.extent = static_cast<uint64_t>(T::kHeadDim), .box = 64},
         {.extent = static_cast<uint64_t>(std::max(tokens, 1)), .stride = bytes(rows.token_stride, tokens), .box = box},
         {.extent = static_cast<uint64_t>(heads), .stride = bytes(rows.head_stride, heads), .box = 1},
         {.extent = static_cast<uint64_t>(a.sequences), .stride = bytes(rows.sequence_stride, a.sequences), .box = 1}},
        Swizzle::bytes_128);
  }

  AttentionTwinProblem<Config> problem_;
  std::shared_ptr<harness::DeviceBuffer<uint32_t>> taken_;  // copies of this launch must not run at once
  LaunchOptions options_{.block = T::kThreads, .dynamic_shared_bytes = sizeof(typename T::Shared)};
};

}  // namespace stagecraft
