#include "emulator/units/mma_kernels.hpp"

#include "emulator/machine/isa_level.hpp"

namespace stagecraft::emulator::units {

namespace isa1 {
const MmaKernels& kernels();
}
#if !defined(STAGECRAFT_ONE_ISA_LEVEL)
namespace isa3 {
const MmaKernels& kernels();
}
namespace isa4 {
const MmaKernels& kernels();
}

const MmaKernels& mma_kernels() {
  static const MmaKernels& kernels = machine::for_this_processor(isa1::kernels, isa3::kernels, isa4::kernels)();
  return kernels;
}
#else
const MmaKernels& mma_kernels() { return isa1::kernels(); }
#endif

}  // namespace stagecraft::emulator::units
