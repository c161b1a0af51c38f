// Configurations for products that one round of wider tiles computes, compiled.
#include <cuda_runtime.h>

#include "stagecraft/hopper_gemm/twin_prepare.cuh"

namespace stagecraft {

template Launch prepare<TwinWide176>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinWide192>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinWide208>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinWide208Rows>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinWide224>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinWide224Rows>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinWide256>(const MatrixProduct&, const TwinLaunchOptions&);

}  // namespace stagecraft
