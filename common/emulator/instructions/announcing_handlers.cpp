#include "emulator/instructions/announcing_handlers.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "emulator/instructions/memory_access.hpp"
#include "emulator/instructions/value_origins.hpp"
#include "emulator/instructions/warpgroup_registers.hpp"
#include "emulator/state/announcements.hpp"
#include "emulator/state/fragments.hpp"

namespace stagecraft::emulator::machine {

namespace {

/// Adds for all lanes, whether they take part or not: the compiler turns such a loop into vector code.
template <typename Value, typename Address>
void add_to_each(const std::byte* __restrict values, uint64_t offset, Address* __restrict sums) {
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    Value value;
    std::memcpy(&value, values + lane * sizeof value, sizeof value);
    sums[lane] = static_cast<Address>(value) + static_cast<Address>(offset);
  }
}

/// The addresses of all lanes. Addresses of shared memory have 32 bits.
template <typename Address>
[[gnu::always_inline]] inline void find_addresses(const Fragment& fragment, const AccessDetail& access,
                                                  Address* addresses) {
  if (access.base == kNoRegister || access.space == AccessSpace::call_parameter) {
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      addresses[lane] = static_cast<Address>(address_of_lane(fragment, access, lane));
    }
    return;
  }
  const std::byte* const base = fragment.registers + access.base;
  const auto offset = static_cast<uint64_t>(access.offset);
  if (access.wide) {
    add_to_each<uint64_t>(base, offset, addresses);
  } else {
    add_to_each<uint32_t>(base, offset, addresses);
  }
}

/// The lanes whose generic addresses are in one of the windows of 4 GiB.
LaneMask lanes_within(const uint64_t* addresses, uint64_t window) {
  LaneMask lanes = 0;
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    lanes |= (addresses[lane] - window < kWindowBytes ? 1u : 0u) << lane;
  }
  return lanes;
}

bool overlap(const uint32_t* addresses, LaneMask lanes, uint32_t bytes) {
  // Nearly always the addresses rise from lane to lane by at least an element.
  std::array<uint32_t, kWarpSize> ends;
  ends[0] = addresses[0];
  for (uint32_t lane = 1; lane < kWarpSize; ++lane) ends[lane] = addresses[lane - 1] + bytes;
  uint32_t overlaps = 0;
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) overlaps |= addresses[lane] < ends[lane] ? 1u : 0u;
  if (overlaps == 0) return false;
  // Or they are in different elements, which a small table of their numbers shows.
  std::array<uint64_t, 16> elements{};
  bool apart = std::has_single_bit(bytes);
  const auto width = static_cast<uint32_t>(std::countr_zero(bytes));
  for_each_lane(lanes, [&](uint32_t lane) {
    const uint32_t element = addresses[lane] >> width;
    uint64_t& part = elements[element / 64 % elements.size()];
    apart = apart && (part >> element % 64 & 1) == 0 && (addresses[lane] & (bytes - 1)) == 0;
    part |= uint64_t{1} << element % 64;
  });
  if (apart) return false;
  std::array<uint32_t, kWarpSize> sorted;
  size_t count = 0;
  for_each_lane(lanes, [&](uint32_t lane) { sorted[count++] = addresses[lane]; });
  std::sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(count));
  for (size_t i = 1; i < count; ++i) {
    if (sorted[i] < sorted[i - 1] + bytes) return true;
  }
  return false;
}

/// Collects what each lane stores, with the instruction's own moves into a buffer in place of memory.
void collect_values(const Fragment& fragment, const AccessDetail& access, LaneMask lanes, std::byte* values) {
  std::array<uint64_t, kWarpSize> pointers{};
  for_each_lane(lanes,
                [&](uint32_t lane) { pointers[lane] = reinterpret_cast<uint64_t>(values + lane * kAccessBytes); });
  for (uint32_t element = 0; element < access.count; ++element) {
    access.moves[element](fragment.registers + access.registers[element], pointers.data(),
                          element * access.element_bytes, lanes);
  }
}

/// Whether the lanes of a whole warp access one row, without gaps.
bool is_row(const uint32_t* addresses, LaneMask lanes, uint32_t bytes) {
  uint32_t gaps = ~lanes;
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) gaps |= addresses[lane] - addresses[0] - lane * bytes;
  return gaps == 0;
}

/// Copies what is in shared memory where each lane is about to write. It is not known yet whether the addresses are
/// legal.
void save_bytes(const Fragment& fragment, const uint32_t* addresses, uint32_t bytes, LaneMask lanes, std::byte* saved) {
  if (is_row(addresses, lanes, bytes)) {
    const Block* block = fragment.cluster().block_of(addresses[0]);
    const size_t offset = addresses[0] & kSharedOffsetMask, size = size_t{bytes} * kWarpSize;
    if (block != nullptr && offset + size <= block->shared.size()) {
      std::memcpy(saved, block->shared.data() + offset, size);
      return;
    }
  }
  const Block* block = nullptr;
  uint32_t rank = ~0u;
  for_each_lane(lanes, [&](uint32_t lane) {
    if (const uint32_t of_lane = addresses[lane] >> kSharedRankShift; of_lane != rank) {
      rank = of_lane;
      block = fragment.cluster().block_of(addresses[lane]);
    }
    const size_t offset = addresses[lane] & kSharedOffsetMask;
    if (block == nullptr || offset + bytes > block->shared.size()) return;
    std::memcpy(saved + size_t{lane} * bytes, block->shared.data() + offset, bytes);
  });
}

Outcome execute(Fragment& fragment, const Op& op, LaneMask mask, const ObservedOp& plain) {
  return mask == kAllLanes ? plain.full(fragment, op, mask) : plain.masked(fragment, op, mask);
}

AccessKind kind_of(AccessVerb verb) {
  switch (verb) {
    case AccessVerb::reads: return AccessKind::read;
    case AccessVerb::writes: return AccessKind::write;
    case AccessVerb::updates: break;
  }
  return AccessKind::update;
}

void announce_to(const Grid& grid, const MemoryAccess& event) {
  for (Observer* observer : grid.memory_observers) observer->memory_accessed(event);
}

/// An access of shared memory, or a strong one of global memory. It takes the addresses before the instruction is
/// executed, because a load may overwrite the register that holds them.
class ObservedAccess {
 public:
  ObservedAccess(const Fragment& fragment, LaneMask mask, const ObservedOp& plain)
      : access_(*static_cast<const AccessDetail*>(plain.access)),
        pc_(fragment.pc),
        order_(static_cast<AccessOrder>(plain.order)),
        scope_(static_cast<MemoryScope>(plain.scope)) {
    const LaneMask lanes = access_.suppliers != 0 ? access_.suppliers : mask;
    if (access_.space == AccessSpace::shared || access_.space == AccessSpace::shared_cluster) {
      shared_lanes_ = lanes;
      find_addresses(fragment, access_, shared_.data());
    } else {
      find_addresses(fragment, access_, global_.data());
      if (access_.space == AccessSpace::generic) {
        shared_lanes_ = lanes & lanes_within(global_.data(), kSharedWindow);
        for (uint32_t lane = 0; lane < kWarpSize; ++lane) shared_[lane] = static_cast<uint32_t>(global_[lane]);
      }
      const bool is_read_early = access_.verb != AccessVerb::writes && !fragment.grid().stores_under_way.empty();
      const bool is_announced = order_ != AccessOrder::weak || fragment.grid().kernel->announces_global;
      if (is_announced || is_read_early) {
        // Only a generic address can be one of local memory.
        const LaneMask local_lanes =
            access_.space == AccessSpace::generic ? lanes_within(global_.data(), kLocalWindow) : 0;
        const LaneMask global_lanes = lanes & ~shared_lanes_ & ~local_lanes;
        if (is_read_early) announce_early_reads(fragment, pc_, global_lanes, global_.data(), access_.bytes);
        if (is_announced) global_lanes_ = global_lanes;
        if (order_ == AccessOrder::weak && access_.verb == AccessVerb::writes) save_global_bytes(fragment);
      }
    }
    if (order_ != AccessOrder::weak || access_.verb != AccessVerb::writes || shared_lanes_ == 0) return;
    saved_ = true;
    save_bytes(fragment, shared_.data(), access_.bytes, shared_lanes_, before_.data());
    if (access_.suppliers != 0) return;
    overlapping_ = overlap(shared_.data(), shared_lanes_, access_.bytes);
    if (overlapping_) collect_values(fragment, access_, shared_lanes_, values_.data());
  }

  void announce(Fragment& fragment) const {
    MemoryAccess event{&fragment,
                       pc_,
                       shared_lanes_,
                       kind_of(access_.verb),
                       order_,
                       access_.bytes,
                       shared_.data(),
                       nullptr,
                       overlapping_ ? values_.data() : nullptr,
                       saved_ ? before_.data() : nullptr,
                       scope_};
    if (shared_lanes_ != 0) announce_to(fragment.grid(), event);
    if (global_lanes_ == 0) return;
    event.lanes = global_lanes_;
    event.shared = nullptr;
    event.global = global_.data();
    event.values = nullptr;
    event.before = saved_global_ ? before_.data() : nullptr;
    announce_to(fragment.grid(), event);
  }

 private:
  /// Copies what is in global memory where each lane is about to write, if that is one allocation.
  void save_global_bytes(const Fragment& fragment) {
    if (global_lanes_ == 0) return;
    uint64_t lowest = ~uint64_t{0}, highest = 0;
    for_each_lane(global_lanes_, [&](uint32_t lane) {
      lowest = std::min(lowest, global_[lane]);
      highest = std::max(highest, global_[lane]);
    });
    if (fragment.grid().memory->find(lowest, highest - lowest + access_.bytes) == nullptr) return;
    saved_global_ = true;
    switch (access_.bytes) {  // a copy of a constant size becomes a move
      case 4: return save_global_bytes_of<4>();
      case 8: return save_global_bytes_of<8>();
      case 16: return save_global_bytes_of<16>();
      default: break;
    }
    for_each_lane(global_lanes_, [&](uint32_t lane) {
      std::memcpy(before_.data() + size_t{lane} * access_.bytes, DeviceMemory::host(global_[lane]), access_.bytes);
    });
  }
  template <size_t kBytes>
  void save_global_bytes_of() {
    for_each_lane(global_lanes_, [&](uint32_t lane) {
      std::memcpy(before_.data() + lane * kBytes, DeviceMemory::host(global_[lane]), kBytes);
    });
  }

  const AccessDetail& access_;
  uint32_t pc_;
  AccessOrder order_;
  MemoryScope scope_;
  LaneMask shared_lanes_ = 0, global_lanes_ = 0;
  bool overlapping_ = false, saved_ = false, saved_global_ = false;
  alignas(32) std::array<uint32_t, kWarpSize> shared_;
  alignas(32) std::array<uint64_t, kWarpSize> global_;
  alignas(16) std::array<std::byte, kWarpSize * kAccessBytes> values_;
  alignas(16) std::array<std::byte, kWarpSize * kAccessBytes> before_;
};

Outcome observed_access(Fragment& fragment, const Op& op, LaneMask mask) {
  const ObservedOp& plain = fragment.grid().kernel->observed[fragment.pc];
  if (!observes_memory(fragment)) return execute(fragment, op, mask, plain);
  const ObservedAccess access(fragment, mask, plain);
  const Outcome outcome = execute(fragment, op, mask, plain);
  if (outcome != Outcome::blocked) access.announce(fragment);
  return outcome;
}

/// Handles the most frequent access: a load that is known to be from shared memory.
Outcome observed_shared_load(Fragment& fragment, const Op& op, LaneMask mask) {
  const Grid& grid = fragment.grid();
  const ObservedOp& plain = grid.kernel->observed[fragment.pc];
  if (grid.memory_observers.empty()) return execute(fragment, op, mask, plain);
  const auto& access = *static_cast<const AccessDetail*>(plain.access);
  alignas(32) std::array<uint32_t, kWarpSize> addresses;
  find_addresses(fragment, access, addresses.data());
  const uint32_t pc = fragment.pc;
  const Outcome outcome = execute(fragment, op, mask, plain);
  if (outcome == Outcome::blocked) return outcome;
  announce_to(grid, {&fragment, pc, access.suppliers != 0 ? access.suppliers : mask, AccessKind::read,
                     static_cast<AccessOrder>(plain.order), access.bytes, addresses.data(), nullptr, nullptr});
  return outcome;
}

/// Handles a weak load that is known to be from global memory. Nobody wants to know of it, unless a bulk store is still
/// to write there.
Outcome observed_global_load(Fragment& fragment, const Op& op, LaneMask mask) {
  const Grid& grid = fragment.grid();
  const ObservedOp& plain = grid.kernel->observed[fragment.pc];
  if (!grid.stores_under_way.empty()) {
    alignas(32) std::array<uint64_t, kWarpSize> addresses;
    const auto& access = *static_cast<const AccessDetail*>(plain.access);
    find_addresses(fragment, access, addresses.data());
    announce_early_reads(fragment, fragment.pc, mask, addresses.data(), access.bytes);
  }
  return execute(fragment, op, mask, plain);
}

/// Handles an instruction that orders accesses.
Outcome observed_order(Fragment& fragment, const Op& op, LaneMask mask) {
  const Grid& grid = fragment.grid();
  const ObservedOp& plain = grid.kernel->observed[fragment.pc];
  const LaneMask live = fragment.warp->live;
  const Outcome outcome = execute(fragment, op, mask, plain);
  if (outcome == Outcome::blocked) return outcome;
  if (plain.synchronises) {
    // All living members have taken part, wherever they were. Lanes of other groups may have been split off.
    LaneMask met = 0;
    for (LaneMask rest = mask & fragment.mask; rest != 0; rest &= ~met) {
      const LaneMask group = lanes_of_first_group(fragment, rest, op.a);
      met = group | (lanes_at<LaneMask>(fragment.registers, op.a)[first_lane(group)] & live);
      for (Observer* observer : grid.memory_observers) observer->warp_synchronised(fragment, met);
    }
  }
  if (const auto kind = static_cast<FenceKind>(plain.fence); kind != FenceKind::other) {
    for (Observer* observer : grid.memory_observers) observer->fence_executed(fragment, mask, kind);
  }
  return outcome;
}

bool may_be_shared(AccessSpace space) {
  return space == AccessSpace::shared || space == AccessSpace::shared_cluster || space == AccessSpace::generic;
}

bool is_shared_load(const AccessDetail& access) {
  return (access.space == AccessSpace::shared || access.space == AccessSpace::shared_cluster) &&
         access.verb == AccessVerb::reads;
}

bool is_global_load(const AccessDetail& access, AccessOrder order) {
  return access.space == AccessSpace::global && access.verb == AccessVerb::reads && order == AccessOrder::weak;
}

}  // namespace

void observe(Kernel& kernel, bool global) {
  kernel.observed.resize(kernel.code.size());
  kernel.announces_global = global;
  // Only a kernel with bulk copies can read what one of its own is still to write.
  const bool copies =
      kernel.has_instruction([](const InstructionTraits& traits) { return traits.copies != Copies::none; });
  for (size_t pc = 0; pc < kernel.code.size(); ++pc) {
    const OpPlace& place = kernel.places[pc];
    if (place.function == nullptr || place.instruction >= place.function->body.size()) continue;
    const InstructionTraits& traits = kernel.traits_at(static_cast<uint32_t>(pc));
    kernel.has_async_proxy = kernel.has_async_proxy || traits.proxy == Proxy::async;
    Op& op = kernel.code[pc];
    ObservedOp plain{op.full, op.masked};
    const auto* access = dynamic_cast<const AccessDetail*>(op.detail);
    if (access != nullptr && traits.announced) {
      const bool strong_global = access->space == AccessSpace::global && traits.order != AccessOrder::weak;
      const bool global_load = copies && is_global_load(*access, traits.order);
      const bool weak_global = global && access->space == AccessSpace::global;
      if (may_be_shared(access->space) || strong_global || global_load || weak_global) plain.access = access;
      plain.order = static_cast<uint8_t>(traits.order);
    }
    plain.scope = static_cast<uint8_t>(traits.scope);
    // Where an instruction became several Ops, the last is the one with effects.
    const bool last = pc + 1 == kernel.code.size() || kernel.places[pc + 1].function != place.function ||
                      kernel.places[pc + 1].instruction != place.instruction;
    plain.synchronises = last && traits.orders_lanes;
    plain.fence = static_cast<uint8_t>(last ? traits.fence : FenceKind::other);
    if (plain.access == nullptr && !plain.synchronises && traits.fence == FenceKind::other) continue;
    kernel.observed[pc] = plain;
    op.full = op.masked = plain.access == nullptr                 ? observed_order
                          : is_shared_load(*access)               ? observed_shared_load
                          : global                                ? observed_access
                          : is_global_load(*access, traits.order) ? observed_global_load
                                                                  : observed_access;
  }
  find_value_origins(kernel);
  observe_warpgroup_registers(kernel);
}

}  // namespace stagecraft::emulator::machine
