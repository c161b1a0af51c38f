// The finished kernels, for each type of elements.
#include "launch.cuh"

namespace stagecraft {

template void launch_decoding(const DecodingShape&, const DecodingOperands<__nv_bfloat16>&, const DecodingOptions&);
template void launch_decoding(const DecodingShape&, const DecodingOperands<__nv_fp8_e4m3>&, const DecodingOptions&);

}  // namespace stagecraft
