// The text of one printf in device code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace stagecraft::emulator::machine {

/// Reads the zero-terminated string at a device address; nullopt when the address is bad.
using ReadDeviceString = std::function<std::optional<std::string>(uint64_t address)>;

/// Formats as CUDA's device-side printf does. `arguments` is the buffer that the compiler passes to `vprintf`: the
/// promoted arguments one after the other, each at its natural alignment (4 bytes for int, 8 for long long, double and
/// pointers).
///
/// Never fails: a conversion that device code does not know, or for which no argument is left, is printed as it is
/// in the format, as the chip does with `%zu` and `%n` (measured on an H200). Widths and precisions count up to 4096.
/// Source: CUDA C++ Programming Guide, "Formatted Output".
std::string format_device_printf(std::string_view format, std::span<const std::byte> arguments,
                                 const ReadDeviceString& read_string);

}  // namespace stagecraft::emulator::machine
