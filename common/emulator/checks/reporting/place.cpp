#include "emulator/checks/reporting/place.hpp"

namespace stagecraft::emulator::checks {

using machine::Place;

namespace {

Place place_of(const machine::Kernel& kernel, const machine::Extent3& block) {
  Place place;
  place.kernel = kernel.display_name;
  place.source_file = kernel.source_file();
  place.has_block = true;
  place.block_x = block.x;
  place.block_y = block.y;
  place.block_z = block.z;
  return place;
}

}  // namespace

Place place_of(const machine::Kernel& kernel, const machine::Extent3& block, uint32_t warp, machine::LaneMask lanes,
               uint32_t pc) {
  Place place = place_of(kernel, block);
  place.has_warp = true;
  place.warp = warp;
  place.lanes = lanes;
  place.source = kernel.describe_source(pc);
  place.calls = kernel.describe_calls(pc);
  place.instruction = kernel.describe_instruction(pc);
  return place;
}

Place place_of(const machine::Fragment& fragment) {
  return place_of(*fragment.grid().kernel, fragment.block().index, fragment.warp->index, fragment.mask, fragment.pc);
}

Place place_of(const machine::Block& block) { return place_of(*block.cluster->grid->kernel, block.index); }

std::string at_line(const machine::Kernel& kernel, uint32_t pc) {
  const std::string source = kernel.describe_source(pc);
  return source.empty() ? std::string() : " at " + source;
}

}  // namespace stagecraft::emulator::checks
