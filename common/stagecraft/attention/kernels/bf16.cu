// The kernels of one list of configurations.
#include "stagecraft/attention/kernels/tables.hpp"
#include "stagecraft/attention/launch.cuh"

namespace stagecraft::shipped {

std::span<const AttentionKernel> bf16_attentions() { return attentions_of<kBf16Attentions>(); }

}  // namespace stagecraft::shipped
