// Launches the kernel for each of the block-scaled types.
#include <scaled_launch.cuh>

#include "stagecraft/launch_control.hpp"
#include "steps.hpp"

namespace stagecraft {

template <typename Type>
void start_desk_step(const uint8_t* a, const uint8_t* sfa, const uint8_t* b, const uint8_t* sfb, __nv_bfloat16* d,
                     int m, int n, int k) {
  using Schedule = LaunchControlScheduler<WholeTiles<>>;
  start_scaled_gemm<ScaledConfig<Type>, Schedule>({a, sfa}, {b, sfb}, Epilogue<>{}, d, m, n, k, /*blocks=*/0);
}

template void start_desk_step<Mxfp8>(const uint8_t*, const uint8_t*, const uint8_t*, const uint8_t*, __nv_bfloat16*,
                                     int, int, int);
template void start_desk_step<Nvfp4>(const uint8_t*, const uint8_t*, const uint8_t*, const uint8_t*, __nv_bfloat16*,
                                     int, int, int);

}  // namespace stagecraft
