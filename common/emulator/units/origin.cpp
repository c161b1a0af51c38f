#include "emulator/units/origin.hpp"

#include <fmt/format.h>

namespace stagecraft::emulator::units {

Origin Origin::of(const machine::Fragment& fragment, uint32_t lane) {
  const machine::Block& block = fragment.block();
  return {block.cluster->grid, block.index, fragment.warp->index, lane, fragment.pc};
}

std::string Origin::describe() const {
  std::string text = fmt::format("issued by block ({},{},{}) warp {} lane {}", block.x, block.y, block.z, warp, lane);
  if (grid == nullptr || grid->kernel == nullptr || pc >= grid->kernel->places.size()) return text;
  if (const std::string source = grid->kernel->describe_source(pc); !source.empty()) text += " at " + source;
  if (const std::string name = grid->kernel->describe_instruction(pc); !name.empty()) text += ", " + name;
  return text;
}

}  // namespace stagecraft::emulator::units
