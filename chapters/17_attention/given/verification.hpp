// Runs attention on random matrices, and compares every element of the result with the host's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/reference_attention.hpp"
#include "stagecraft/attention/plan.hpp"

namespace stagecraft {

/// One run.
struct AttentionCase {
  AttentionProblem problem{};
  harness::RandomAttention data{};  ///< not yet rounded; its batch has the lengths, heads, masks and pages
};

/// What it gave.
struct AttentionVerdict {
  size_t elements = 0;      ///< of the output
  size_t wrong = 0;         ///< those, and logarithms, further from the reference than rounding explains
  std::string worst{};      ///< the worst of them in words
  double worst_excess = 0;  ///< its error divided by what is allowed
  double seconds = 0;       ///< from the launch to the end of the kernel
  std::vector<unsigned char> output_bits{};  ///< all bytes of the output
};

/// How rows are in memory.
enum class AttentionLayout {
  tokens,  ///< token after token, each with all heads
  heads,   ///< sequence after sequence, in each head after head
  gaps,    ///< as tokens, with a gap after each head's row, and after each token
};

/// A problem for a batch; the type, layout, and whether lengths are in device memory are the caller's choice. They are
/// where sequences differ.
AttentionProblem problem_of(const harness::AttentionBatch& batch, bool has_sinks, DataType type, AttentionLayout layout,
                            bool has_lengths);

/// The command that runs a problem drawn with this seed is in the messages of the tests; this describes it in words:
/// "2 sequences of 300 queries and 400 keys, 8 heads over 2, bf16 128 and 128, causal".
std::string describe(const AttentionProblem& problem);

/// Runs the plan for the case, and compares. The output and what is around it are poisoned before.
/// @throws std::invalid_argument  with the plan's message, for what it refuses.
/// @throws harness::CudaError     when the kernel does not end well.
AttentionVerdict verify(const AttentionCase& run);

}  // namespace stagecraft
