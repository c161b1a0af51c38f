// What the program passes as a pointer to its own memory: whether it can be read, before it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace stagecraft::emulator::runtime {

/// Whether the first and the last byte of a range of host memory can be read; a null or garbage pointer and a range
/// that runs off its mapping are caught without touching them. Where the host forbids to ask, the answer is yes.
bool is_readable(const void* pointer, uint64_t bytes);

/// Whether each page of a range of host memory is mapped, and its first and last byte can be read.
bool is_mapped(const void* pointer, uint64_t bytes);

/// A value of the program and where its copy goes.
struct HostValue {
  const void* from = nullptr;
  void* to = nullptr;
  size_t bytes = 0;
};

/// Copies all of them. Returns the index of the first that cannot be read; their number when there is none.
size_t copy_values(std::span<const HostValue> values);

}  // namespace stagecraft::emulator::runtime
