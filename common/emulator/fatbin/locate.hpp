// Finds the bytes that may be read from a pointer that a program passes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "emulator/fatbin/error.hpp"

namespace stagecraft::emulator::fatbin {

/// The readable bytes from `pointer` to the end of its mapping in this process; empty when it points nowhere. Reads
/// /proc/self/maps.
std::span<const std::byte> readable_from(const void* pointer);

/// The container that a `__fatBinC_Wrapper_t` points to, cut to the size in its header. Throws
/// Error of kind `corrupt` when the wrapper or the container is not one.
std::span<const std::byte> container_of_wrapper(const void* wrapper);

/// The containers of the objects that `nvcc -rdc=true` linked, which the wrapper of the linked program lists after its
/// own container. Empty for any other program. Throws Error of kind `corrupt`.
std::vector<std::span<const std::byte>> linked_containers(const void* wrapper);

}  // namespace stagecraft::emulator::fatbin
