#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "emulator/machine/alu/handlers.hpp"
#include "emulator/machine/alu/levels.hpp"

namespace stagecraft::emulator::machine::alu {

struct Catalog::Table {
  std::unordered_map<uint32_t, Handlers> handlers;
};

namespace {

uint32_t key_of(Operation operation, ptx::Type type, uint16_t variant) {
  return static_cast<uint32_t>(operation) << 24 | static_cast<uint32_t>(type) << 16 | variant;
}

int processor_level() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool level_3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                       __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool level_4 = level_3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                       __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                       __builtin_cpu_supports("avx512vl");
  return level_4 ? 4 : level_3 ? 3 : 1;
#else
  return 1;
#endif
}

int choose_level() {
  const int processor = processor_level();
  const char* wish = std::getenv("STAGECRAFT_ISA");
  if (wish == nullptr) return processor;
  if (std::strcmp(wish, "1") == 0) return 1;
  if (std::strcmp(wish, "3") == 0 && processor >= 3) return 3;
  return processor;
}

template <typename Fill>
const Catalog* build(Fill fill) {
  auto* catalog = new Catalog;
  fill(*catalog);
  return catalog;
}

}  // namespace

Catalog::Catalog() : table_(new Table) {}
Catalog::~Catalog() { delete table_; }

void Catalog::put(Operation operation, ptx::Type type, uint16_t variant, Handlers handlers) {
  table_->handlers[key_of(operation, type, variant)] = handlers;
}

Handlers Catalog::find(Operation operation, ptx::Type type, uint16_t variant) const {
  const auto found = table_->handlers.find(key_of(operation, type, variant));
  return found == table_->handlers.end() ? Handlers{} : found->second;
}

size_t Catalog::size() const { return table_->handlers.size(); }

int vector_level() {
  static const int level = choose_level();
  return level;
}

#define STAGECRAFT_FILL(level)      \
  [](Catalog& catalog) {            \
    level::put_integer(catalog);    \
    level::put_carry(catalog);      \
    level::put_bits(catalog);       \
    level::put_comparison(catalog); \
    level::put_floating(catalog);   \
    level::put_elementary(catalog); \
    level::put_half(catalog);       \
    level::put_conversion(catalog); \
    level::put_narrow(catalog);     \
  }

const Catalog& catalog_of_level(int level) {
#if defined(__x86_64__)
  if (level == 4) {
    static const Catalog* const catalog = build(STAGECRAFT_FILL(level_4));
    return *catalog;
  }
  if (level == 3) {
    static const Catalog* const catalog = build(STAGECRAFT_FILL(level_3));
    return *catalog;
  }
#endif
  static const Catalog* const catalog = build(STAGECRAFT_FILL(level_1));
  return *catalog;
}

const Catalog& catalog() {
  static const Catalog& chosen = catalog_of_level(vector_level());
  return chosen;
}

}  // namespace stagecraft::emulator::machine::alu
