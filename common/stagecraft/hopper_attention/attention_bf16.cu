// The kernels of bf16, compiled.
#include "stagecraft/hopper_attention/configurations.cuh"

namespace stagecraft {

template std::function<void(cudaStream_t)> prepare_attention_of<__nv_bfloat16>(const HopperAttention&, int);

}  // namespace stagecraft
