#include "emulator/ptx/module.hpp"

#include <fmt/format.h>

#include <array>

namespace stagecraft::emulator::ptx {
namespace {

struct TypeInfo {
  std::string_view name;
  uint32_t size;
};

/// Names and sizes, in the order of `Type`.
constexpr std::array<TypeInfo, 22> kTypes{{
    {"none", 0},  {"pred", 0}, {"b8", 1},     {"b16", 2}, {"b32", 4},   {"b64", 8}, {"b128", 16}, {"u8", 1},
    {"u16", 2},   {"u32", 4},  {"u64", 8},    {"s8", 1},  {"s16", 2},   {"s32", 4}, {"s64", 8},   {"f16", 2},
    {"f16x2", 4}, {"bf16", 2}, {"bf16x2", 4}, {"f32", 4}, {"f32x2", 8}, {"f64", 8},
}};
static_assert(static_cast<size_t>(Type::f64) + 1 == kTypes.size());

/// The spaces as PTX spells them, in the order of `Space`.
constexpr std::array<std::string_view, 8> kSpaces{"none", "reg", "sreg", "const", "global", "local", "param", "shared"};

}  // namespace

uint32_t size_of(Type type) { return kTypes[static_cast<size_t>(type)].size; }

Type type_from_name(std::string_view name) {
  if (name.size() < 2 || name.size() > 6) return Type::none;
  for (size_t i = 1; i < kTypes.size(); ++i) {
    if (kTypes[i].name == name) return static_cast<Type>(i);
  }
  return Type::none;
}

std::string_view name_of(Type type) { return kTypes[static_cast<size_t>(type)].name; }

std::string_view name_of(Space space) { return kSpaces[static_cast<size_t>(space)]; }

const Function* Module::find_function(std::string_view name) const {
  for (const Function& function : functions) {
    if (function.name == name) return &function;
  }
  return nullptr;
}

std::string Module::describe(SourceId source) const {
  if (source == 0 || source >= source_lines.size()) return {};
  const SourceLine& line = source_lines[source];
  const auto file = files.find(line.file);
  if (file == files.end() || line.line == 0) return {};
  std::string_view path = file->second;
  if (const size_t slash = path.rfind('/'); slash != std::string_view::npos) path.remove_prefix(slash + 1);
  return fmt::format("{}:{}", path, line.line);
}

}  // namespace stagecraft::emulator::ptx
