#include "emulator/units/warp_mma_kernels.hpp"

#include "emulator/machine/isa_level.hpp"

namespace stagecraft::emulator::units {

namespace isa1 {
const WarpMmaKernels& warp_kernels();
}
#if !defined(STAGECRAFT_ONE_ISA_LEVEL)
namespace isa3 {
const WarpMmaKernels& warp_kernels();
}
namespace isa4 {
const WarpMmaKernels& warp_kernels();
}

const WarpMmaKernels& warp_mma_kernels() {
  static const WarpMmaKernels& kernels =
      machine::for_this_processor(isa1::warp_kernels, isa3::warp_kernels, isa4::warp_kernels)();
  return kernels;
}
#else
const WarpMmaKernels& warp_mma_kernels() { return isa1::warp_kernels(); }
#endif

}  // namespace stagecraft::emulator::units
