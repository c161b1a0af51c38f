#include <unordered_map>

#include "emulator/machine/alu/handlers.hpp"
#include "emulator/machine/alu/levels.hpp"
#include "emulator/machine/isa_level.hpp"

namespace stagecraft::emulator::machine::alu {

struct Catalog::Table {
  std::unordered_map<uint32_t, Handlers> handlers;
};

namespace {

uint32_t key_of(Operation operation, ptx::Type type, uint16_t variant) {
  return static_cast<uint32_t>(operation) << 24 | static_cast<uint32_t>(type) << 16 | variant;
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

const Catalog& catalog_of_level([[maybe_unused]] int level) {
#if !defined(STAGECRAFT_ONE_ISA_LEVEL)
  if (level == 4) {
    static const Catalog* const catalog = build(STAGECRAFT_FILL(isa4));
    return *catalog;
  }
  if (level == 3) {
    static const Catalog* const catalog = build(STAGECRAFT_FILL(isa3));
    return *catalog;
  }
#endif
  static const Catalog* const catalog = build(STAGECRAFT_FILL(isa1));
  return *catalog;
}

const Catalog& catalog() {
  static const Catalog& chosen = catalog_of_level(isa_level());
  return chosen;
}

}  // namespace stagecraft::emulator::machine::alu
