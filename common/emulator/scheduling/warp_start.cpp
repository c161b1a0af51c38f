#include "emulator/scheduling/warp_start.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "emulator/scheduling/special_values.hpp"

namespace stagecraft::emulator::machine {

namespace {

/// Writes `value_of(lane)` to all lanes of a vector.
template <typename ValueOf>
void fill_lanes(std::byte* to, uint32_t element_bytes, ValueOf value_of) {
  const auto fill = [&]<typename Element>(Element*) {
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      const auto value = static_cast<Element>(value_of(lane));
      std::memcpy(to + lane * sizeof value, &value, sizeof value);
    }
  };
  switch (element_bytes) {
    case 0: {  // a predicate
      LaneMask mask = 0;
      for (uint32_t lane = 0; lane < kWarpSize; ++lane) mask |= (value_of(lane) != 0 ? 1u : 0u) << lane;
      std::memcpy(to, &mask, sizeof mask);
      return;
    }
    case 2: return fill(static_cast<uint16_t*>(nullptr));
    case 4: return fill(static_cast<uint32_t*>(nullptr));
    default: return fill(static_cast<uint64_t*>(nullptr));
  }
}

}  // namespace

void fill_constants(const Kernel& kernel, const Extent3& threads, uint32_t warp, std::byte* registers) {
  for (const ConstantSlot& slot : kernel.constants) {
    std::byte* to = registers + slot.offset;
    if (slot.element_bytes <= sizeof slot.low) {
      fill_lanes(to, slot.element_bytes, [&](uint32_t) { return slot.low; });
      continue;
    }
    const std::array<uint64_t, 2> value{slot.low, slot.high};
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) std::memcpy(to + lane * sizeof value, value.data(), sizeof value);
  }
  for (const SpecialSlot& slot : kernel.specials) {
    if (!ptx::is_of_thread(slot.special)) continue;
    fill_lanes(registers + slot.offset, slot.element_bytes,
               [&](uint32_t lane) { return value_of(slot, threads, warp * kWarpSize + lane, nullptr); });
  }
}

void start_warp(Warp& warp) {
  const Block& block = *warp.block;
  const Kernel& kernel = *block.cluster->grid->kernel;
  for (const SpecialSlot& slot : kernel.specials) {
    if (ptx::is_of_thread(slot.special)) continue;
    const uint64_t value = value_of(slot, block.cluster->grid->request->block, 0, &block);
    fill_lanes(warp.registers + slot.offset, slot.element_bytes, [value](uint32_t) { return value; });
  }
  const uint64_t threads = block.cluster->grid->request->block.count();
  const uint64_t first = uint64_t{warp.index} * kWarpSize;
  const auto present = static_cast<uint32_t>(std::min<uint64_t>(kWarpSize, threads - first));
  warp.live = present == kWarpSize ? kAllLanes : (1u << present) - 1;
  warp.fragments.clear();
  auto fragment = std::make_unique<Fragment>();
  fragment->registers = warp.registers;
  fragment->warp = &warp;
  fragment->effects = &block.cluster->grid->effects;
  fragment->mask = warp.live;
  fragment->sequence = block.cluster->next_sequence++;
  warp.fragments.push_back(std::move(fragment));
}

}  // namespace stagecraft::emulator::machine
