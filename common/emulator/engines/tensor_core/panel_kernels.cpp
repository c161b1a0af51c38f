#include "emulator/engines/tensor_core/panel_kernels.hpp"

#include "emulator/host/isa_level.hpp"

namespace stagecraft::emulator::machine {

STAGECRAFT_DECLARE_ISA(const PanelKernels& kernels())

const PanelKernels& panel_kernels() {
  static const PanelKernels& chosen = STAGECRAFT_CALL_ISA(kernels);
  return chosen;
}

}  // namespace stagecraft::emulator::machine
