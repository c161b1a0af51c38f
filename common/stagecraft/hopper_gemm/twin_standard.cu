// Configurations for large products, and those that TMA cannot store, compiled.
#include <cuda_runtime.h>

#include "stagecraft/hopper_gemm/twin_prepare.cuh"

namespace stagecraft {

template Launch prepare<TwinDefaults>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinHalved>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinLarge>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinByThreads>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinThinByThreads>(const MatrixProduct&, const TwinLaunchOptions&);
template Launch prepare<TwinFlatByThreads>(const MatrixProduct&, const TwinLaunchOptions&);

}  // namespace stagecraft
