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
  int64_t rounds = 0;  ///< tiles, or pieces of them, that the busiest block, or pair, computes one after the other
  /// Cycles that the busiest tensor core multiplies for: its arithmetic, or reading A and B from shared memory at 128
  /// bytes a cycle. An instruction takes, for 32 bytes along K, max(N/2, 16 + N/4) cycles with M = 64 and
  /// max(N/2, 32 + N/4) with M = 128; of a pair, max(N/4, 17 + N/8) with M = 128 and max(N/2, 36 + N/8) with M = 256.
  /// Source: SemiAnalysisAI/microbench-blackwell, umma_throughput (a fit); M = 64 from its peak rate.
  int64_t mma_cycles = 0;
  /// Bytes of A and B that all blocks together load from L2: a tile that is multicast counts once, and what is beyond
  /// the edges of a matrix does not count.
  int64_t operand_bytes = 0;
};

/// The estimate for a problem on `blocks` blocks that run at the same time. The request counts by its division along
/// K alone.
GemmEstimate estimate(const GemmConfig& config, const GemmProblem& problem, int blocks,
                      const GemmRequest& request = {});

/// What a chooser has decided.
struct GemmChoice {
  size_t index = 0;                  ///< in the list of candidates
  std::vector<std::string> reasons;  ///< why, one sentence a line
};

/// The tiles of a configuration and their schedule: "tile 128x64, k-group 1, 2 accumulators".
std::string describe_tiles(const GemmConfig& config);

/// What a kernel adds, where it is not what is usual: " of f32", of C, ", bias of bf16".
std::string describe_additions(const GemmConfig& config);

/// Why A and B of a problem cannot be exchanged; null if they can. rules.inc refuses the same.
const char* why_not_exchanged(const GemmProblem& problem);

/// What a kernel with exchanged operands computes: the transpose of D, as B * A transposed.
GemmProblem exchanged(const GemmProblem& problem);

/// Chooses one of `candidates` that compute the problem as requested: those with the fewest cycles, give or take a
/// tenth, because the estimate is not more exact than that; of these the one that loads the fewest bytes, then the one
/// with fewer cycles, and then the first. Kernels that compute D transposed are among them where D has few rows and
/// more columns, and the request names neither tiles nor clusters.
/// @returns the choice; or no_kernel, which request no candidate meets; or bad_configuration, why none can.
GemmExpected<GemmChoice> choose_kernel(std::span<const GemmConfig> candidates, const GemmProblem& problem,
                                       const GemmRequest& request, int blocks);

/// The configuration that the problem and the request name, whether or not such a kernel was compiled: what the caller
/// left out is chosen so that it is legal, if the rest is. rules.inc says what is legal.
GemmConfig derive_config(const GemmProblem& problem, const GemmRequest& request);

}  // namespace stagecraft
