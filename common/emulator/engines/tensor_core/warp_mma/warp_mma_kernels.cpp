#include "emulator/engines/tensor_core/warp_mma/warp_mma_kernels.hpp"

#include "emulator/host/isa_level.hpp"

namespace stagecraft::emulator::machine {

STAGECRAFT_DECLARE_ISA(const WarpMmaKernels& warp_kernels())

const WarpMmaKernels& warp_mma_kernels() {
  static const WarpMmaKernels& chosen = STAGECRAFT_CALL_ISA(warp_kernels);
  return chosen;
}

}  // namespace stagecraft::emulator::machine
