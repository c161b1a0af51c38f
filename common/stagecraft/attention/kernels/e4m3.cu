// The kernels of one list of configurations.
#include "stagecraft/attention/kernels/tables.hpp"
#include "stagecraft/attention/launch.cuh"

namespace stagecraft::shipped {

std::span<const AttentionKernel> e4m3_attentions() { return attentions_of<kE4m3Attentions>(); }

}  // namespace stagecraft::shipped
