// The environment variables of the emulated GPU, as settings.ini lists them.
#pragma once

#include <cstdint>
#include <string_view>

namespace stagecraft::emulator::settings {

/// One for each section of settings.ini: `report_file` is [report-file].
enum class Setting {
#define STAGECRAFT_SETTING(id, ...) id,
#include "emulator/settings/rows.inc"
#undef STAGECRAFT_SETTING
};

struct Row {
  Setting setting;
  const char* name;          ///< of the variable, such as STAGECRAFT_DEVICE
  std::string_view must_be;  ///< the legal values, as the end of "STAGECRAFT_DEVICE is "b300", but must be "
  std::string_view words;  ///< the legal values with | between them; empty where a value is something else than a word
  std::string_view standard;  ///< the value that holds without the variable; empty where none does
  uint64_t least, most;       ///< of a number
};

inline constexpr Row kRows[] = {
#define STAGECRAFT_SETTING(id, ...) {Setting::id, __VA_ARGS__},
#include "emulator/settings/rows.inc"
#undef STAGECRAFT_SETTING
};

constexpr const Row& row(Setting setting) { return kRows[static_cast<int>(setting)]; }

/// Throws std::invalid_argument with a sentence: what the variable is, and what it must be.
[[noreturn]] void illegal(Setting setting, std::string_view value);

/// For a setting whose values are words: throws as illegal() when the value is none of them.
void check_word(Setting setting, std::string_view value);

/// Returns the variable's value, or its standard where it is not set or empty. `get_variable` is std::getenv, or what a
/// test has in its place.
std::string_view value_of(Setting setting, const char* (*get_variable)(const char* name));

/// The same from this process's environment, for code that no call of CUDA has led to: where check_word() would throw,
/// it ends the process with the sentence and status 1.
std::string_view word_of(Setting setting);

}  // namespace stagecraft::emulator::settings
