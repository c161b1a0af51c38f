#include "emulator/machine/observation.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "emulator/machine/memory_access.hpp"
#include "emulator/ptx/modifiers.hpp"

namespace stagecraft::emulator::machine {

namespace {

constexpr uint32_t kMostBytes = 32;  // of one lane in one access

/// Of all lanes, those that take part and the others: so it is a loop that the compiler turns into vector code.
void find_addresses(const Fragment& fragment, const AccessDetail& access, uint64_t* addresses) {
  if (access.base == kNoRegister || access.space == AccessSpace::call_parameter) {
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) addresses[lane] = address_of_lane(fragment, access, lane);
    return;
  }
  const std::byte* const base = fragment.registers + access.base;
  const bool wraps = access.space == AccessSpace::shared || access.space == AccessSpace::shared_cluster;
  const uint64_t counting = wraps ? 0xffffffffu : ~uint64_t{0};  // the bits that do
  const auto offset = static_cast<uint64_t>(access.offset);
  if (access.wide) {
    std::array<uint64_t, kWarpSize> values;
    std::memcpy(values.data(), base, sizeof values);
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) addresses[lane] = (values[lane] + offset) & counting;
  } else {
    std::array<uint32_t, kWarpSize> values;
    std::memcpy(values.data(), base, sizeof values);
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) addresses[lane] = (values[lane] + offset) & counting;
  }
}

/// The lanes whose generic addresses lie in one of the windows of 4 GiB.
LaneMask lanes_within(const uint64_t* addresses, uint64_t window) {
  LaneMask lanes = 0;
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    lanes |= (addresses[lane] - window < kWindowBytes ? 1u : 0u) << lane;
  }
  return lanes;
}

bool overlap(const uint64_t* addresses, LaneMask lanes, uint32_t bytes) {
  if (lanes == kAllLanes) {
    uint32_t overlaps = 0;
    for (uint32_t lane = 1; lane < kWarpSize; ++lane) {
      overlaps |= addresses[lane] < addresses[lane - 1] + bytes ? 1u : 0u;
    }
    if (overlaps == 0) return false;
  }
  // Nearly always the addresses rise or fall from lane to lane by at least an element.
  uint64_t last = 0;
  bool rising = true, falling = true, first = true;
  for_each_lane(lanes, [&](uint32_t lane) {
    const uint64_t address = addresses[lane];
    if (!first) {
      rising = rising && address >= last + bytes;
      falling = falling && address + bytes <= last;
    }
    first = false;
    last = address;
  });
  if (rising || falling) return false;
  std::array<uint64_t, kWarpSize> sorted;
  size_t count = 0;
  for_each_lane(lanes, [&](uint32_t lane) { sorted[count++] = addresses[lane]; });
  std::sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(count));
  for (size_t i = 1; i < count; ++i) {
    if (sorted[i] < sorted[i - 1] + bytes) return true;
  }
  return false;
}

/// What each lane stores: the instruction's own moves, into a buffer in place of memory.
void collect_values(const Fragment& fragment, const AccessDetail& access, LaneMask lanes, std::byte* values) {
  std::array<uint64_t, kWarpSize> pointers{};
  for_each_lane(lanes, [&](uint32_t lane) { pointers[lane] = reinterpret_cast<uint64_t>(values + lane * kMostBytes); });
  for (uint32_t element = 0; element < access.count; ++element) {
    access.moves[element](fragment.registers + access.registers[element], pointers.data(),
                          element * access.element_bytes, lanes);
  }
}

Outcome observed(Fragment& fragment, const Op& op, LaneMask mask) {
  const Grid& grid = fragment.grid();
  const uint32_t pc = fragment.pc;
  const ObservedOp& plain = grid.kernel->observed[pc];
  const auto* access = static_cast<const AccessDetail*>(plain.access);

  // Before the instruction, because a load may overwrite the register that holds its address.
  std::array<uint64_t, kWarpSize> addresses;
  alignas(16) std::array<std::byte, kWarpSize * kMostBytes> values;
  LaneMask shared = 0, global = 0;
  bool overlapping = false;
  if (access != nullptr) {
    const LaneMask lanes = access->suppliers != 0 ? access->suppliers : mask;
    find_addresses(fragment, *access, addresses.data());
    if (access->space == AccessSpace::generic) {
      shared = lanes & lanes_within(addresses.data(), kSharedWindow);
      global = lanes & ~shared & ~lanes_within(addresses.data(), kLocalWindow);
      for_each_lane(shared, [&](uint32_t lane) { addresses[lane] -= kSharedWindow; });
    } else {
      (access->space == AccessSpace::global ? global : shared) = lanes;
    }
    if (static_cast<AccessOrder>(plain.order) == AccessOrder::weak) {
      global = 0;
      overlapping = access->verb == AccessVerb::writes && access->suppliers == 0 && shared != 0 &&
                    overlap(addresses.data(), shared, access->bytes);
      if (overlapping) collect_values(fragment, *access, shared, values.data());
    }
  }

  const LaneMask before = fragment.mask;
  const Outcome outcome = mask == kAllLanes ? plain.full(fragment, op, mask) : plain.masked(fragment, op, mask);
  if (outcome == Outcome::blocked) return outcome;

  if (plain.synchronises) {
    // `converge` has made the participants one fragment, unless the lanes of the mask were all of them at once: those
    // of one group or of several (`among_members`).
    LaneMask group = 0;
    for (LaneMask rest = fragment.mask == before ? mask : fragment.mask; rest != 0; rest &= ~group) {
      group = lanes_of_first_group(fragment, rest, op.a);
      for (Observer* observer : grid.memory_observers) observer->warp_synchronised(fragment, group);
    }
  }
  if (const auto kind = static_cast<FenceKind>(plain.fence); kind != FenceKind::other) {
    for (Observer* observer : grid.memory_observers) observer->fence(fragment, mask, kind);
  }
  if (access == nullptr) return outcome;
  const AccessKind kind = access->verb == AccessVerb::reads    ? AccessKind::read
                          : access->verb == AccessVerb::writes ? AccessKind::write
                                                               : AccessKind::update;
  for (const bool is_shared : {true, false}) {
    const LaneMask lanes = is_shared ? shared : global;
    if (lanes == 0) continue;
    const MemoryAccess event{&fragment,
                             pc,
                             lanes,
                             kind,
                             static_cast<AccessOrder>(plain.order),
                             is_shared,
                             access->bytes,
                             addresses.data(),
                             overlapping ? values.data() : nullptr};
    for (Observer* observer : grid.memory_observers) observer->access(event);
  }
  return outcome;
}

bool may_be_shared(AccessSpace space) {
  return space == AccessSpace::shared || space == AccessSpace::shared_cluster || space == AccessSpace::generic;
}

FenceKind fence_of(const ptx::Instruction& instruction) {
  const bool is_fence = instruction.opcode == "fence" || instruction.opcode == "membar";
  if (!is_fence || ptx::has_modifier(instruction, "tensormap::generic")) return FenceKind::other;
  if (ptx::has_modifier(instruction, "mbarrier_init")) return FenceKind::mbarrier_init;
  if (ptx::has_modifier(instruction, "proxy")) {
    // .global leaves shared memory out.
    return ptx::has_modifier(instruction, "alias") || ptx::has_modifier(instruction, "global") ? FenceKind::other
                                                                                               : FenceKind::proxy_async;
  }
  return FenceKind::memory;
}

/// Whether the instruction orders the memory accesses of the lanes that meet in it. That is bar.warp.sync alone: shfl,
/// vote, elect and the others with .sync only make lanes wait for each other (PTX ISA, bar.warp.sync against the rest;
/// CUDA C++ Programming Guide, warp shuffle, vote and match functions: they imply no memory barrier). A block's
/// barriers are announced where they are.
bool synchronises(const ptx::Instruction& instruction) {
  return instruction.opcode == "bar" && ptx::has_modifier(instruction, "warp");
}

}  // namespace

AccessOrder order_of(const ptx::Instruction& instruction) {
  if (ptx::has_modifier(instruction, "acquire")) return AccessOrder::acquire;
  if (ptx::has_modifier(instruction, "release")) return AccessOrder::release;
  if (ptx::has_modifier(instruction, "acq_rel") || ptx::has_modifier(instruction, "sc"))
    return AccessOrder::acquire_release;
  const bool atomic = instruction.opcode == "atom" || instruction.opcode == "red";
  if (atomic || ptx::has_modifier(instruction, "relaxed") || ptx::has_modifier(instruction, "volatile") ||
      ptx::has_modifier(instruction, "mmio")) {
    return AccessOrder::relaxed;
  }
  return AccessOrder::weak;
}

void observe(Kernel& kernel) {
  kernel.observed.resize(kernel.code.size());
  for (size_t pc = 0; pc < kernel.code.size(); ++pc) {
    const OpPlace& place = kernel.places[pc];
    if (place.function == nullptr || place.instruction >= place.function->body.size()) continue;
    const ptx::Instruction& instruction = place.function->body[place.instruction];
    Op& op = kernel.code[pc];
    ObservedOp plain{op.full, op.masked};
    const auto* access = dynamic_cast<const AccessDetail*>(op.detail);
    if (access != nullptr && !ptx::has_modifier(instruction, "bulk") && instruction.opcode != "discard") {
      const AccessOrder order = order_of(instruction);
      const bool strong_global = access->space == AccessSpace::global && order != AccessOrder::weak;
      if (may_be_shared(access->space) || strong_global) plain.access = access;
      plain.order = static_cast<uint8_t>(order);
    }
    // Of an instruction that became several Ops, the last is the one with effects.
    const bool last = pc + 1 == kernel.code.size() || kernel.places[pc + 1].function != place.function ||
                      kernel.places[pc + 1].instruction != place.instruction;
    plain.synchronises = last && synchronises(instruction);
    plain.fence = static_cast<uint8_t>(last ? fence_of(instruction) : FenceKind::other);
    if (plain.access == nullptr && !plain.synchronises && fence_of(instruction) == FenceKind::other) continue;
    kernel.observed[pc] = plain;
    op.full = op.masked = observed;
  }
}

void announce_access(Fragment& fragment, uint32_t lane, AccessKind kind, uint32_t shared_address, uint32_t bytes) {
  std::array<uint64_t, kWarpSize> addresses{};
  addresses[lane] = shared_address;
  const MemoryAccess event{&fragment, fragment.pc, 1u << lane,       kind,   AccessOrder::weak,
                           true,      bytes,       addresses.data(), nullptr};
  for (Observer* observer : fragment.grid().memory_observers) observer->access(event);
}

uint64_t announce_operation(AsyncOperation operation) {
  Grid& grid = operation.fragment->grid();
  operation.number = ++grid.operations;
  for (Observer* observer : grid.memory_observers) observer->issued(operation);
  return operation.number;
}

void announce_group(const GroupEvent& event) {
  for (Observer* observer : event.fragment->grid().memory_observers) observer->group(event);
}

void announce_warpgroup_wait(const WarpgroupWait& event) {
  for (Observer* observer : event.fragment->grid().memory_observers) observer->warpgroup_waited(event);
}

void announce_rendezvous(const Rendezvous& event) {
  for (Observer* observer : event.cluster->grid->memory_observers) observer->rendezvous(event);
}

void announce_tensor(const TensorEvent& event) {
  for (Observer* observer : event.fragment->grid().memory_observers) observer->tensor(event);
}

}  // namespace stagecraft::emulator::machine
