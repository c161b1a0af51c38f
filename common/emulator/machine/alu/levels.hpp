// What each level's vector files provide to the catalog: one function per file, in a namespace per level.
#pragma once

#include "emulator/machine/alu/handlers.hpp"

namespace stagecraft::emulator::machine::alu {

#define STAGECRAFT_DECLARE_LEVEL(name)   \
  namespace name {                       \
  void put_integer(Catalog& catalog);    \
  void put_carry(Catalog& catalog);      \
  void put_bits(Catalog& catalog);       \
  void put_comparison(Catalog& catalog); \
  void put_floating(Catalog& catalog);   \
  void put_elementary(Catalog& catalog); \
  void put_half(Catalog& catalog);       \
  void put_conversion(Catalog& catalog); \
  void put_narrow(Catalog& catalog);     \
  }
STAGECRAFT_DECLARE_LEVEL(isa1)
STAGECRAFT_DECLARE_LEVEL(isa3)
STAGECRAFT_DECLARE_LEVEL(isa4)
#undef STAGECRAFT_DECLARE_LEVEL

}  // namespace stagecraft::emulator::machine::alu
