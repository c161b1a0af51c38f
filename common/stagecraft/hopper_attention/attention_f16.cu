// The kernels of f16, compiled.
#include "stagecraft/hopper_attention/configurations.cuh"

namespace stagecraft {

template std::function<void(cudaStream_t)> prepare_attention_of<__half>(const HopperAttention&, int);

}  // namespace stagecraft
