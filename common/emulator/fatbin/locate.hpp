// From a pointer that a program hands over to the bytes that may be read behind it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "emulator/fatbin/error.hpp"

namespace stagecraft::emulator::fatbin {

/// The readable bytes from `pointer` to the end of its mapping in this process; empty when it points nowhere. Reads
/// /proc/self/maps.
std::span<const std::byte> readable_from(const void* pointer);

/// The container behind a `__fatBinC_Wrapper_t`, as registration passes it, cut to the size its header gives. Throws
/// Error of kind `corrupt` when the wrapper or the container is not one.
std::span<const std::byte> container_of_wrapper(const void* wrapper);

/// With `nvcc -rdc=true`: the containers of the objects that were linked, which the wrapper of the linked program lists
/// behind its own container. Empty for any other program. Throws Error of kind `corrupt`.
std::vector<std::span<const std::byte>> linked_containers(const void* wrapper);

}  // namespace stagecraft::emulator::fatbin
