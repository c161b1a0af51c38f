// The special registers of PTX (PTX ISA, "Special Registers"): which names exist.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace stagecraft::emulator::ptx {

/// What may follow the name of a special register.
enum class SpecialRegister : uint8_t {
  unknown,  ///< there is no such special register
  scalar,   ///< nothing: `%laneid`
  vector,   ///< a component or nothing: `%tid.x`, `%tid`
};

/// Looks up a name without percent sign and component: "tid", "laneid", "envreg7".
SpecialRegister find_special_register(std::string_view name);

/// All names, for suggestions.
const std::vector<std::string_view>& special_register_names();

}  // namespace stagecraft::emulator::ptx
