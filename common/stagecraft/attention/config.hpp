// What an attention kernel is compiled for. All else - masks, soft cap, lengths, pages, sinks - a launch decides.
#pragma once

#include "stagecraft/gemm/config.hpp"

namespace stagecraft {

/// What one attention kernel is compiled for. It is a template argument: `AttentionTypes<AttentionConfig{}>`.
///
/// The kernel computes any dimensions up to its own: TMA fills up the rows of its tiles with zeros.
struct AttentionConfig {
  DataType type = DataType::bf16;    ///< elements of Q, K and V: bf16, f16 or e4m3
  DataType output = DataType::bf16;  ///< elements of the output: as Q, or bf16 for e4m3
  int head_dim = 128;                ///< elements of a row of Q and K, at most: 64, 128 or 192
  int value_dim = 128;               ///< elements of a row of V and of the output, at most: 64 or 128
  bool polynomials = false;          ///< half of the powers are computed by polynomials

  /// The same kernel.
  bool operator==(const AttentionConfig&) const = default;
};

}  // namespace stagecraft
