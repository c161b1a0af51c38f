// Configurations for few rows: two blocks share K, compiled.
#include <cuda_runtime.h>

#include "stagecraft/hopper_gemm/twin_prepare.cuh"

namespace stagecraft {

template Launch prepare<TwinSplit>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinSplit64>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinSplit80>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinSplitTall64>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinSplitTall80>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinSplitHigh80>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinSplitHigh96>(const MatrixProduct&, const TwinLaunchOptions&);

}  // namespace stagecraft
