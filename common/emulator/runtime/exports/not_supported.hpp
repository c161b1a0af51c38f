// The body of the functions that the emulated GPU does not have.
#pragma once

namespace stagecraft::emulator::runtime {

/// Says once that the function is not supported (`reported` remembers) and returns cudaErrorNotSupported, which is also
/// CUDA_ERROR_NOT_SUPPORTED.
int not_supported(const char* function, bool& reported) noexcept;
/// Does the same for a function of the driver API, which leaves the runtime's last error alone.
int driver_not_supported(const char* function, bool& reported) noexcept;

}  // namespace stagecraft::emulator::runtime
