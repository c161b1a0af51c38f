// The tensor memory of one multiprocessor.
#pragma once

namespace stagecraft::emulator::units {

class TensorMemory {};

}  // namespace stagecraft::emulator::units
