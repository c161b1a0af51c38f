// The functions by which the vector files fill the catalog: one per file, in a namespace per level.
#pragma once

#include "emulator/host/isa_level.hpp"
#include "emulator/instructions/alu/handlers.hpp"

namespace stagecraft::emulator::machine::alu {

STAGECRAFT_DECLARE_ISA(void put_integer(Catalog& catalog); void put_carry(Catalog& catalog);
                       void put_bits(Catalog& catalog); void put_comparison(Catalog& catalog);
                       void put_floating(Catalog& catalog); void put_elementary(Catalog& catalog);
                       void put_half(Catalog& catalog); void put_conversion(Catalog& catalog);
                       void put_narrow(Catalog& catalog); void put_stochastic(Catalog& catalog))

}  // namespace stagecraft::emulator::machine::alu
