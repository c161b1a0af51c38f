// Configurations with tiles of 256 rows, compiled.
#include <cuda_runtime.h>

#include "stagecraft/hopper_gemm/twin_prepare.cuh"

namespace stagecraft {

template Launch prepare<TwinTall144>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinTall160>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinTall176>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinTall200>(const MatrixProduct&, const TwinLaunchOptions&);

}  // namespace stagecraft
