// The attention kernels that are compiled into the library, and how the host starts one of them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>
#include <span>

#include "stagecraft/attention/plan.hpp"

namespace stagecraft {

/// What a launch is given: a checked problem of which everything is filled in.
struct AttentionLaunch {
  AttentionProblem problem{};      ///< what to compute
  AttentionArguments arguments{};  ///< where everything is
  uint32_t blocks = 1;             ///< at most, which go on from item to item
  bool queries_follow = true;      ///< queries of a sequence follow those of the one before
  bool keys_follow = true;         ///< the same of keys
  cudaStream_t stream = nullptr;   ///< where the kernel is started
};

/// A compiled kernel.
struct AttentionKernel {
  AttentionConfig config;                                           ///< what it was compiled for
  int stages;                                                       ///< of its ring of keys and values
  uint32_t shared_bytes;                                            ///< of each block, dynamic ones
  std::optional<AttentionError> (*launch)(const AttentionLaunch&);  ///< starts it
  cudaError_t (*find_blocks)(uint32_t&);  ///< how many the current device runs at the same time
};

/// All compiled kernels, those of smaller dimensions first.
std::span<const AttentionKernel* const> shipped_attentions();

}  // namespace stagecraft
