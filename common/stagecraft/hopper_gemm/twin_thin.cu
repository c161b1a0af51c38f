// Configurations for products of few tiles, compiled.
#include <cuda_runtime.h>

#include "stagecraft/hopper_gemm/twin_prepare.cuh"

namespace stagecraft {

template Launch prepare<TwinThin>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinThinRows>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinThin112>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinThin144>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinThin144Columns>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinThin160>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinQuad112>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinQuad176>(const MatrixProduct&, const TwinLaunchOptions&);

}  // namespace stagecraft
