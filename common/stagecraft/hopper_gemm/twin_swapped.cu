// Configurations for few rows: C transposed, compiled.
#include <cuda_runtime.h>

#include "stagecraft/hopper_gemm/twin_prepare.cuh"

namespace stagecraft {

template Launch prepare<TwinSwapped16>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinSwapped32>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinSwapped56>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinSwapped72>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinSwapped104>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinSwapped128>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinSwapped136>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinSwapped96>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinSwapped112Narrow>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinSwapped160>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinSwapped192>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinSwapped112>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinSwapped208>(const MatrixProduct&, const TwinLaunchOptions&);

}  // namespace stagecraft
