// The functions that the CUDA runtime provides to device code.
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <optional>
#include <unordered_map>

#include "emulator/instructions/calls.hpp"
#include "emulator/instructions/device_printf.hpp"
#include "emulator/state/fragments.hpp"
#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

namespace {

template <typename T>
T argument(const Fragment& fragment, const std::vector<CallArea>& areas, size_t index, uint32_t lane) {
  T value{};
  const CallArea& area = areas.at(index);
  std::memcpy(&value, fragment.registers + area.offset + lane * area.stride, std::min<size_t>(sizeof value, area.size));
  return value;
}

template <typename T>
void set_result(Fragment& fragment, const std::vector<CallArea>& areas, uint32_t lane, T value) {
  if (areas.empty()) return;
  std::memcpy(fragment.registers + areas[0].offset + lane * areas[0].stride, &value,
              std::min<size_t>(sizeof value, areas[0].size));
}

/// The bytes from a generic address to the end of what it points into; empty when it points to nothing.
std::span<const std::byte> bytes_from(const Fragment& fragment, uint32_t lane, uint64_t address) {
  const Located located = locate(address);
  const Warp& warp = *fragment.warp;
  switch (located.where) {
    case Located::Where::local:
      if (located.address >= warp.local_stride) return {};
      return {warp.local + lane * warp.local_stride + located.address, warp.local_stride - located.address};
    case Located::Where::shared: {
      const Block* block = fragment.cluster().block_of(static_cast<uint32_t>(located.address));
      const uint32_t offset = located.address & kSharedOffsetMask;
      if (block == nullptr || offset >= block->shared.size()) return {};
      return {block->shared.data() + offset, block->shared.size() - offset};
    }
    case Located::Where::global: break;
  }
  const Allocation* allocation = fragment.grid().memory->find(address);
  if (allocation == nullptr) return {};
  return {DeviceMemory::host(address), allocation->address + allocation->size - address};
}

std::optional<std::string> string_at(const Fragment& fragment, uint32_t lane, uint64_t address) {
  const auto bytes = bytes_from(fragment, lane, address);
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  const auto* end = bytes.empty() ? nullptr : static_cast<const char*>(std::memchr(text, 0, bytes.size()));
  if (end == nullptr) return std::nullopt;
  return std::string(text, end);
}

void print(Fragment& fragment, LaneMask mask, const std::vector<CallArea>& arguments,
           const std::vector<CallArea>& results) {
  note_effect(fragment);
  for_each_lane(mask, [&](uint32_t lane) {
    const auto format = string_at(fragment, lane, argument<uint64_t>(fragment, arguments, 0, lane));
    if (!format) {
      throw Fault(FaultKind::illegal_address, "printf: the format is no string in device memory", {}, 1u << lane);
    }
    const auto values = bytes_from(fragment, lane, argument<uint64_t>(fragment, arguments, 1, lane));
    const std::string text =
        format_device_printf(*format, values, [&](uint64_t address) { return string_at(fragment, lane, address); });
    fragment.grid().print(text);
    set_result(fragment, results, lane, static_cast<int32_t>(text.size()));
  });
}

/// __assertfail(message, file, line, function, character size)
void fail_assertion(Fragment& fragment, LaneMask mask, const std::vector<CallArea>& arguments,
                    const std::vector<CallArea>&) {
  const uint32_t lane = first_lane(mask);
  const auto text = [&](size_t index) {
    return string_at(fragment, lane, argument<uint64_t>(fragment, arguments, index, lane)).value_or("?");
  };
  const uint32_t thread = thread_of(fragment, lane);
  const Extent3& size = fragment.grid().request->block;
  throw Fault(FaultKind::assertion,
              fmt::format("{}:{}: {}: thread ({},{},{}): assertion `{}` failed", text(1),
                          argument<uint32_t>(fragment, arguments, 2, lane), text(3), thread % size.x,
                          thread / size.x % size.y, thread / size.x / size.y, text(0)),
              {}, mask);
}

void allocate(Fragment& fragment, LaneMask mask, const std::vector<CallArea>& arguments,
              const std::vector<CallArea>& results) {
  note_effect(fragment);
  for_each_lane(mask, [&](uint32_t lane) {
    const auto size = argument<uint64_t>(fragment, arguments, 0, lane);
    const auto address =
        fragment.grid().memory->allocate(std::max<uint64_t>(size, 1), AllocationKind::heap, "malloc in a kernel");
    set_result(fragment, results, lane, address.value_or(0));
  });
}

void release(Fragment& fragment, LaneMask mask, const std::vector<CallArea>& arguments, const std::vector<CallArea>&) {
  note_effect(fragment);
  for_each_lane(mask, [&](uint32_t lane) {
    const auto address = argument<uint64_t>(fragment, arguments, 0, lane);
    if (address == 0) return;
    DeviceMemory& memory = *fragment.grid().memory;
    const Allocation* allocation = memory.find(address);
    const bool of_heap = allocation != nullptr && allocation->kind == AllocationKind::heap;
    if (!of_heap || !memory.release(address)) {
      throw Fault(FaultKind::launch_failure,
                  fmt::format("free({:#x}): not the start of what malloc gave to a kernel", address),
                  {memory.describe(address)}, 1u << lane);
    }
  });
}

/// cudaGraphSetConditional(handle, value): the handle is the address of the value, which the graph's owner reads.
void set_condition(Fragment& fragment, LaneMask mask, const std::vector<CallArea>& arguments,
                   const std::vector<CallArea>&) {
  note_effect(fragment);
  for_each_lane(mask, [&](uint32_t lane) {
    const auto handle = argument<uint64_t>(fragment, arguments, 0, lane);
    const auto value = argument<uint32_t>(fragment, arguments, 1, lane);
    if (fragment.grid().memory->find(handle, sizeof value) == nullptr) {
      throw Fault(FaultKind::illegal_address,
                  fmt::format("cudaGraphSetConditional: {:#x} is no handle of a condition", handle),
                  {"cudaGraphConditionalHandleCreate gives one"}, 1u << lane);
    }
    std::memcpy(DeviceMemory::host(handle), &value, sizeof value);
  });
}

}  // namespace

Builtin find_builtin(const std::string& name) {
  static const std::unordered_map<std::string, Builtin> builtins = {{"vprintf", print},
                                                                    {"__assertfail", fail_assertion},
                                                                    {"malloc", allocate},
                                                                    {"free", release},
                                                                    {"cudaGraphSetConditional", set_condition}};
  const auto found = builtins.find(name);
  return found == builtins.end() ? nullptr : found->second;
}

}  // namespace stagecraft::emulator::machine
