#include "emulator/runtime/driver/jit_log.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace stagecraft::emulator::runtime {

JitLog::JitLog(unsigned count, const CUjit_option* options, void** values) {
  if (options == nullptr || values == nullptr) return;
  for (unsigned index = 0; index < count; ++index) {
    void*& value = values[index];
    switch (options[index]) {
      case CU_JIT_INFO_LOG_BUFFER:
        if (value != nullptr) *static_cast<char*>(value) = '\0';
        break;
      case CU_JIT_ERROR_LOG_BUFFER:
        errors_ = static_cast<char*>(value);
        if (errors_ != nullptr) *errors_ = '\0';
        break;
      // These pass the size of the buffer, of which the value holds 32 bits, and then return the size of the text.
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        room_ = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(value));
        written_size_ = &value;
        value = nullptr;
        break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
      case CU_JIT_WALL_TIME: value = nullptr; break;
      default: break;
    }
  }
}

void JitLog::tell_error(std::string_view message) {
  if (errors_ == nullptr || room_ == 0) return;
  const size_t bytes = std::min(message.size(), room_ - 1);
  std::memcpy(errors_, message.data(), bytes);
  errors_[bytes] = '\0';
  if (written_size_ != nullptr) *written_size_ = reinterpret_cast<void*>(bytes);
}

}  // namespace stagecraft::emulator::runtime
