// Which of several kernels a problem should run on, and why.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "stagecraft/gemm/config.hpp"
#include "stagecraft/gemm/error.hpp"
#include "stagecraft/gemm/plan.hpp"

namespace stagecraft {

/// How much work a problem is with one configuration.
struct GemmEstimate {
  int64_t tiles = 0;   ///< tiles of D, of all batches
  int64_t rounds = 0;  ///< tiles that the busiest block, or pair, computes, one after the other
  /// Cycles that the busiest tensor core multiplies for: its arithmetic, or reading A and B from shared memory at 128
  /// bytes a cycle. An instruction takes, for 32 bytes along K, max(N/2, 16 + N/4) cycles with M = 64 and
  /// max(N/2, 32 + N/4) with M = 128; of a pair, max(N/4, 17 + N/8) with M = 128 and max(N/2, 36 + N/8) with M = 256.
  /// Source: SemiAnalysisAI/microbench-blackwell, umma_throughput (a fit); M = 64 from its peak rate.
  int64_t mma_cycles = 0;
  int64_t operand_bytes = 0;  ///< that all blocks together load from L2; a tile that is multicast counts once
};

/// The estimate for a problem on `blocks` blocks that run at the same time.
GemmEstimate estimate(const GemmConfig& config, const GemmProblem& problem, int blocks);

/// What a chooser has decided.
struct GemmChoice {
  size_t index = 0;                  ///< in the list of candidates
  std::vector<std::string> reasons;  ///< why, one sentence a line
};

/// Chooses one of `candidates`: of those that compute the problem as requested, the one with the fewest cycles; among
/// equals, the one that loads the fewest bytes, and then the first.
/// @returns the choice, or which request no candidate meets.
GemmExpected<GemmChoice> choose_kernel(std::span<const GemmConfig> candidates, const GemmProblem& problem,
                                       const GemmRequest& request, int blocks);

}  // namespace stagecraft
