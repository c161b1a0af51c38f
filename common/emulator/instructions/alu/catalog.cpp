#include <stdexcept>
#include <string>
#include <unordered_map>

#include "emulator/host/isa_level.hpp"
#include "emulator/instructions/alu/handlers.hpp"
#include "emulator/instructions/alu/levels.hpp"

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

#define STAGECRAFT_CASE(level, isa, ...)                               \
  case level: {                                                        \
    static const Catalog* const catalog = build([](Catalog& entries) { \
      isa::put_integer(entries);                                       \
      isa::put_carry(entries);                                         \
      isa::put_bits(entries);                                          \
      isa::put_comparison(entries);                                    \
      isa::put_floating(entries);                                      \
      isa::put_elementary(entries);                                    \
      isa::put_half(entries);                                          \
      isa::put_conversion(entries);                                    \
      isa::put_narrow(entries);                                        \
      isa::put_stochastic(entries);                                    \
    });                                                                \
    return *catalog;                                                   \
  }

const Catalog& catalog_of_level(int level) {
  switch (level) {
    STAGECRAFT_EACH_ISA(STAGECRAFT_CASE, )
    default: throw std::logic_error("no arithmetic was built for level " + std::to_string(level));
  }
}
#undef STAGECRAFT_CASE

const Catalog& catalog() {
  static const Catalog& chosen = catalog_of_level(isa_level());
  return chosen;
}

}  // namespace stagecraft::emulator::machine::alu
