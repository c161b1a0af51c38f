// Configurations for few rows, compiled.
#include <cuda_runtime.h>

#include "stagecraft/hopper_gemm/twin_prepare.cuh"

namespace stagecraft {

template Launch prepare<TwinFlat>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinLow>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinLow64>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinLowAlone>(const MatrixProduct&, const TwinLaunchOptions&);

}  // namespace stagecraft
