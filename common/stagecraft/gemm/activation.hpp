// The activations, as a launch names them.
#pragma once

#include <cstdint>

namespace stagecraft {

/// What is applied to each element of the result, or to pairs of columns.
enum class GemmActivation : uint8_t {
  none,
  relu,        ///< max(x, 0)
  gelu,        ///< x * Phi(x), by erf
  gelu_tanh,   ///< its usual approximation, by tanh
  silu,        ///< x / (1 + exp(-x))
  gated_silu,  ///< silu(column 2j) * column 2j + 1 gives column j of D, which has half as many
};

}  // namespace stagecraft
