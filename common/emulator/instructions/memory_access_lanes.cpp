// The fast way of loads and stores: all lanes at once. The file is compiled once per level of x86-64 (see
// isa_level.hpp), so it may call no function that other files share.
#include "emulator/host/isa_level.hpp"
#include "emulator/instructions/memory_access.hpp"

namespace stagecraft::emulator::machine::STAGECRAFT_ISA_NAMESPACE {
namespace {

using U8 = uint8_t;
using U16 = uint16_t;
using U32 = uint32_t;
using U64 = uint64_t;
using S8 = int8_t;
using S16 = int16_t;
using S32 = int32_t;
struct U128 {
  uint64_t low, high;
};

/// Lets memory and registers be accessed as the type that an instruction names.
template <typename T>
struct [[gnu::may_alias]] Cell {
  T value;
};
template <typename T>
[[gnu::always_inline]] inline Cell<T>* cells(std::byte* bytes) {
  return reinterpret_cast<Cell<T>*>(bytes);
}
template <typename T>
[[gnu::always_inline]] inline const Cell<T>* cells(const std::byte* bytes) {
  return reinterpret_cast<const Cell<T>*>(bytes);
}
template <typename T>
[[gnu::always_inline]] inline Cell<T>* cells(uint64_t pointer) {
  return reinterpret_cast<Cell<T>*>(pointer);
}

constexpr uint32_t kHalf = kWarpSize / 2;

/// Nobody else can see what a thread stores to its own local memory: a poll that counts its rounds there stays a poll.
[[gnu::always_inline]] inline void note_store(Fragment& fragment, const AccessDetail& access, uint64_t pointer) {
  if (access.space == AccessSpace::local || access.space == AccessSpace::call_parameter) return;
  const Warp& warp = *fragment.warp;
  const uint64_t own = pointer - reinterpret_cast<uint64_t>(warp.local);
  if (access.space == AccessSpace::generic && own < uint64_t{kWarpSize} * warp.local_stride) return;
  fragment.idle_poll_pc = Fragment::kEffect;  // counted at the end of the turn; this file may not call note_effect
}

/// One element in memory, its register, and how many of them a lane accesses.
template <typename MemoryType, typename RegisterType, uint32_t Elements>
struct Shape {
  using Memory = MemoryType;
  using Register = RegisterType;
  static constexpr uint32_t kElements = Elements;
  static constexpr uint32_t kBytes = sizeof(MemoryType) * Elements;
};

/// Converts as C++ does: loads extend with zeros or the sign, stores truncate.
template <typename To, typename From>
[[gnu::always_inline]] inline To convert(const From& value) {
  if constexpr (sizeof(From) == 16) {
    return value;
  } else {
    return static_cast<To>(value);
  }
}

template <typename S>
[[gnu::always_inline]] inline void load_row(std::byte* registers, const AccessDetail& access, uint32_t first_lane,
                                            uint64_t pointer, bool uniform) {
  using Memory = typename S::Memory;
  using Register = typename S::Register;
  const auto* memory = cells<Memory>(pointer);
  for (uint32_t element = 0; element < S::kElements; ++element) {
    auto* __restrict lanes = cells<Register>(registers + access.registers[element]) + first_lane;
    if (uniform) {
      const Register value = convert<Register>(memory[element].value);
      for (uint32_t lane = 0; lane < kHalf; ++lane) lanes[lane].value = value;
    } else {
      const auto* __restrict from = memory + element;
      for (uint32_t lane = 0; lane < kHalf; ++lane)
        lanes[lane].value = convert<Register>(from[lane * S::kElements].value);
    }
  }
}

template <typename S>
[[gnu::always_inline]] inline void store_row(const std::byte* registers, const AccessDetail& access,
                                             uint32_t first_lane, uint64_t pointer, bool uniform) {
  using Memory = typename S::Memory;
  using Register = typename S::Register;
  auto* memory = cells<Memory>(pointer);
  for (uint32_t element = 0; element < S::kElements; ++element) {
    const auto* __restrict lanes = cells<Register>(registers + access.registers[element]) + first_lane;
    if (uniform) {
      memory[element].value = convert<Memory>(lanes[kHalf - 1].value);  // the last lane wins, as in any order of lanes
    } else {
      auto* __restrict to = memory + element;
      for (uint32_t lane = 0; lane < kHalf; ++lane) to[lane * S::kElements].value = convert<Memory>(lanes[lane].value);
    }
  }
}

template <typename S>
[[gnu::always_inline]] inline void load_scattered(std::byte* registers, const AccessDetail& access,
                                                  const uint64_t* pointers) {
  for (uint32_t element = 0; element < S::kElements; ++element) {
    auto* __restrict lanes = cells<typename S::Register>(registers + access.registers[element]);
#pragma GCC unroll 8
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      lanes[lane].value = convert<typename S::Register>(cells<typename S::Memory>(pointers[lane])[element].value);
    }
  }
}

template <typename S>
[[gnu::always_inline]] inline void store_scattered(const std::byte* registers, const AccessDetail& access,
                                                   const uint64_t* pointers) {
#pragma GCC unroll 4
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    auto* to = cells<typename S::Memory>(pointers[lane]);
    for (uint32_t element = 0; element < S::kElements; ++element) {
      const auto* lanes = cells<typename S::Register>(registers + access.registers[element]);
      to[element].value = convert<typename S::Memory>(lanes[lane].value);
    }
  }
}

// A range check without a branch per lane. For first <= last, `address` is within iff neither address - first nor
// last - address has its top bit set: their sum is last - first, which is small, so both cannot have wrapped.
[[gnu::always_inline]] inline uint64_t outside(uint64_t address, uint64_t first, uint64_t last) {
  return (address - first) | (last - address);
}
[[gnu::always_inline]] inline uint32_t outside(uint32_t address, uint32_t first, uint32_t last) {
  return (address - first) | (last - address);
}

template <typename Address>
inline constexpr Address kTopBit = Address{1} << (sizeof(Address) * 8 - 1);

/// The bounds of one space, and how its addresses become pointers.
template <typename Address>
struct Window {
  bool usable;
  Address first, last;    // addresses at which an access may start
  uint64_t pointer_bias;  // pointer = address + bias
};

[[gnu::always_inline]] inline Window<uint64_t> global_window(const AccessDetail& access) {
  const AllocationCache::Copy cache = access.cache.copy();
  return {cache.usable, cache.first, cache.last, cache.distance};
}

[[gnu::always_inline]] inline Window<uint32_t> shared_window(const Fragment& fragment, uint32_t bytes) {
  const Block& block = *fragment.warp->block;
  const uint32_t base = block.rank << kSharedRankShift;
  const uint64_t size = block.shared.size();
  const uint64_t start = reinterpret_cast<uint64_t>(block.shared.data());
  return {size >= kSharedReservedBytes + bytes, base + kSharedReservedBytes, base + static_cast<uint32_t>(size) - bytes,
          start - base};
}

template <AccessSpace Space>
struct SpaceTraits;
template <>
struct SpaceTraits<AccessSpace::global> {
  using Address = uint64_t;
  [[gnu::always_inline]] static inline Window<uint64_t> window(const Fragment&, const AccessDetail& access, uint32_t) {
    return global_window(access);
  }
};
template <>
struct SpaceTraits<AccessSpace::shared> {
  using Address = uint32_t;
  [[gnu::always_inline]] static inline Window<uint32_t> window(const Fragment& fragment, const AccessDetail&,
                                                               uint32_t bytes) {
    return shared_window(fragment, bytes);
  }
};

template <typename S, bool Store>
[[gnu::noinline]] void access_carefully(Fragment& fragment, const AccessDetail& access) {
  uint64_t pointers[kWarpSize];
  locate_carefully(fragment, access, kAllLanes, pointers);
  if constexpr (Store) {
    note_store(fragment, access, pointers[0]);
    store_scattered<S>(fragment.registers, access, pointers);
  } else {
    load_scattered<S>(fragment.registers, access, pointers);
  }
}

/// A load or store of all 32 lanes whose base register has the natural width of the space. It recognises each half of
/// the warp (a row of a 16 x 2 block of threads, for example) that accesses one place or consecutive ones.
template <AccessSpace Space, typename S, bool Store>
Outcome access_full(Fragment& fragment, const Op& op, LaneMask) {
  using Traits = SpaceTraits<Space>;
  using Address = typename Traits::Address;
  const auto& access = *static_cast<const AccessDetail*>(op.detail);
  std::byte* const registers = fragment.registers;
  const auto* base = cells<Address>(registers + op.a);
  const auto offset = static_cast<Address>(op.immediate);
  const Window<Address> window = Traits::window(fragment, access, S::kBytes);

  const Address base0 = base[0].value, base1 = base[kHalf].value;
  const Address step0 = base[1].value - base0, step1 = base[kHalf + 1].value - base1;
  if ((step0 == 0 || step0 == S::kBytes) && (step1 == 0 || step1 == S::kBytes)) {
    const Address moves0 = step0 == 0 ? 0 : ~Address{0}, moves1 = step1 == 0 ? 0 : ~Address{0};
    Address irregular = 0;
    for (uint32_t lane = 0; lane < kHalf; ++lane) {
      const Address regular = static_cast<Address>(lane) * S::kBytes;
      irregular |= (base[lane].value - base0) ^ (regular & moves0);
      irregular |= (base[lane + kHalf].value - base1) ^ (regular & moves1);
    }
    if (irregular == 0) {
      const Address start0 = base0 + offset, start1 = base1 + offset;
      const Address stray = outside(start0, window.first, window.last) |
                            outside(static_cast<Address>(start0 + (kHalf - 1) * step0), window.first, window.last) |
                            outside(start1, window.first, window.last) |
                            outside(static_cast<Address>(start1 + (kHalf - 1) * step1), window.first, window.last);
      const bool aligned = ((start0 | start1) & (S::kBytes - 1)) == 0;
      if (window.usable && (stray & kTopBit<Address>) == 0 && aligned) [[likely]] {
        const uint64_t pointer0 = start0 + window.pointer_bias, pointer1 = start1 + window.pointer_bias;
        if constexpr (Store) {
          fragment.idle_poll_pc = Fragment::kEffect;
          store_row<S>(registers, access, 0, pointer0, step0 == 0);
          store_row<S>(registers, access, kHalf, pointer1, step1 == 0);
        } else {
          load_row<S>(registers, access, 0, pointer0, step0 == 0);
          load_row<S>(registers, access, kHalf, pointer1, step1 == 0);
        }
        return Outcome::next;
      }
      access_carefully<S, Store>(fragment, access);
      return Outcome::next;
    }
  }

  alignas(64) uint64_t pointers[kWarpSize];
  Address stray = 0, low_bits = 0;
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    const Address address = base[lane].value + offset;
    pointers[lane] = address + window.pointer_bias;
    stray |= outside(address, window.first, window.last);
    low_bits |= address;
  }
  if (window.usable && (stray & kTopBit<Address>) == 0 && (low_bits & (S::kBytes - 1)) == 0) [[likely]] {
    if constexpr (Store) {
      fragment.idle_poll_pc = Fragment::kEffect;
      store_scattered<S>(registers, access, pointers);
    } else {
      load_scattered<S>(registers, access, pointers);
    }
    return Outcome::next;
  }
  access_carefully<S, Store>(fragment, access);
  return Outcome::next;
}

/// The parameters of the launch, as offsets at which an access may start.
[[gnu::always_inline]] inline Window<uint64_t> parameter_window(const Fragment& fragment, uint32_t bytes) {
  const auto& parameters = fragment.warp->block->cluster->grid->request->parameters;
  const uint64_t size = parameters.size();
  return {size >= bytes, 0, size - bytes, reinterpret_cast<uint64_t>(parameters.data())};
}

/// A load of a kernel parameter at a constant offset, with which every kernel begins.
template <typename S>
Outcome load_parameter(Fragment& fragment, const Op& op, LaneMask) {
  const auto& access = *static_cast<const AccessDetail*>(op.detail);
  const uint64_t offset = op.immediate;
  const Window<uint64_t> window = parameter_window(fragment, S::kBytes);
  const bool inside = window.usable && (outside(offset, window.first, window.last) & kTopBit<uint64_t>) == 0;
  if (inside && (offset & (S::kBytes - 1)) == 0) [[likely]] {
    load_row<S>(fragment.registers, access, 0, offset + window.pointer_bias, true);
    load_row<S>(fragment.registers, access, kHalf, offset + window.pointer_bias, true);
  } else {
    access_carefully<S, false>(fragment, access);
  }
  return Outcome::next;
}

/// Any load or store, for any lanes.
template <bool Store>
Outcome access_masked(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& access = *static_cast<const AccessDetail*>(op.detail);
  alignas(64) uint64_t pointers[kWarpSize];
  access.locate(fragment, access, mask, pointers);
  for (uint32_t element = 0; element < access.count; ++element) {
    access.moves[element](fragment.registers + access.registers[element], pointers, element * access.element_bytes,
                          mask);
  }
  if constexpr (Store) note_store(fragment, access, pointers[__builtin_ctz(mask)]);
  return access.outcome;
}

/// A load for some lanes. In a loop over a table, for example, they all read one place.
template <AccessSpace Space, typename S>
Outcome load_masked(Fragment& fragment, const Op& op, LaneMask mask) {
  using Traits = SpaceTraits<Space>;
  using Address = typename Traits::Address;
  using Register = typename S::Register;
  const auto& access = *static_cast<const AccessDetail*>(op.detail);
  const auto* base = cells<Address>(fragment.registers + op.a);
  const Address base0 = base[__builtin_ctz(mask)].value;
  Address differences = 0;
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    differences |= (base[lane].value ^ base0) & (Address{0} - static_cast<Address>(mask >> lane & 1));
  }
  const Address start = base0 + static_cast<Address>(op.immediate);
  const Window<Address> window = Traits::window(fragment, access, S::kBytes);
  const bool inside = window.usable && (outside(start, window.first, window.last) & kTopBit<Address>) == 0;
  if (differences != 0 || !inside || (start & (S::kBytes - 1)) != 0) return access_masked<false>(fragment, op, mask);

  const auto* memory = cells<typename S::Memory>(start + window.pointer_bias);
  for (uint32_t element = 0; element < S::kElements; ++element) {
    const Register value = convert<Register>(memory[element].value);
    auto* __restrict lanes = cells<Register>(fragment.registers + access.registers[element]);
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      lanes[lane].value = (mask >> lane & 1) != 0 ? value : lanes[lane].value;
    }
  }
  return Outcome::next;
}

template <typename Memory, typename Register, bool Store>
void move(std::byte* register_lanes, const uint64_t* pointers, uint64_t displacement, LaneMask mask) {
  auto* lanes = cells<Register>(register_lanes);
  const auto one = [&](uint32_t lane) __attribute__((always_inline)) {
    auto* memory = cells<Memory>(pointers[lane] + displacement);
    if constexpr (Store) {
      memory->value = convert<Memory>(lanes[lane].value);
    } else {
      lanes[lane].value = convert<Register>(memory->value);
    }
  };
  if (mask == kAllLanes) {
#pragma GCC unroll 4
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) one(lane);
  } else {
    for (; mask != 0; mask &= mask - 1) one(static_cast<uint32_t>(__builtin_ctz(mask)));
  }
}

enum class Base : uint8_t { none, narrow, wide };

/// The addresses of the lanes of `mask`; the other lanes get that of the lowest one.
template <typename Address, Base Kind>
[[gnu::always_inline]] inline void gather_addresses(const Fragment& fragment, const AccessDetail& access, LaneMask mask,
                                                    Address* addresses) {
  const auto offset = static_cast<Address>(access.offset);
  if constexpr (Kind == Base::none) {
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) addresses[lane] = offset;
  } else {
    using Lanes = std::conditional_t<Kind == Base::wide, U64, U32>;
    const auto* base = cells<Lanes>(static_cast<const std::byte*>(fragment.registers) + access.base);
    const auto substitute = static_cast<Address>(static_cast<Address>(base[__builtin_ctz(mask)].value) + offset);
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      const auto own = static_cast<Address>(static_cast<Address>(base[lane].value) + offset);
      addresses[lane] = (mask >> lane & 1) != 0 ? own : substitute;
    }
  }
}

template <Base Kind>
void locate_global(Fragment& fragment, const AccessDetail& access, LaneMask mask, uint64_t* pointers) {
  gather_addresses<uint64_t, Kind>(fragment, access, mask, pointers);
  const Window<uint64_t> window = global_window(access);
  uint64_t stray = 0, low_bits = 0;
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    stray |= outside(pointers[lane], window.first, window.last);
    low_bits |= pointers[lane];
    pointers[lane] += window.pointer_bias;
  }
  if (window.usable && (stray & kTopBit<uint64_t>) == 0 && (low_bits & (access.alignment - 1)) == 0) [[likely]]
    return;
  locate_carefully(fragment, access, mask, pointers);
}

template <Base Kind>
void locate_shared(Fragment& fragment, const AccessDetail& access, LaneMask mask, uint64_t* pointers) {
  // Only the lower half of a 64-bit register counts, also when it holds a generic address (measured on an H200).
  alignas(64) uint32_t addresses[kWarpSize];
  gather_addresses<uint32_t, Kind>(fragment, access, mask, addresses);
  const Window<uint32_t> window = shared_window(fragment, access.bytes);
  uint32_t stray = 0, low_bits = 0;
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    pointers[lane] = addresses[lane] + window.pointer_bias;
    stray |= outside(addresses[lane], window.first, window.last);
    low_bits |= addresses[lane];
  }
  if (window.usable && (stray & kTopBit<uint32_t>) == 0 && (low_bits & (access.alignment - 1)) == 0) [[likely]]
    return;
  locate_carefully(fragment, access, mask, pointers);
}

template <Base Kind>
void locate_local(Fragment& fragment, const AccessDetail& access, LaneMask mask, uint64_t* pointers) {
  alignas(64) uint64_t addresses[kWarpSize];
  gather_addresses<uint64_t, Kind>(fragment, access, mask, addresses);
  const uint64_t stride = fragment.warp->local_stride;
  const uint64_t start = reinterpret_cast<uint64_t>(fragment.warp->local);
  const uint64_t last = stride - access.bytes;
  uint64_t stray = 0, low_bits = 0;
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    pointers[lane] = start + lane * stride + addresses[lane];
    stray |= outside(addresses[lane], uint64_t{0}, last);
    low_bits |= addresses[lane];
  }
  if (stride >= access.bytes && (stray & kTopBit<uint64_t>) == 0 && (low_bits & (access.alignment - 1)) == 0)
      [[likely]] {
    return;
  }
  locate_carefully(fragment, access, mask, pointers);
}

template <Base Kind>
void locate_parameter(Fragment& fragment, const AccessDetail& access, LaneMask mask, uint64_t* pointers) {
  gather_addresses<uint64_t, Kind>(fragment, access, mask, pointers);
  const Window<uint64_t> window = parameter_window(fragment, access.bytes);
  uint64_t stray = 0, low_bits = 0;
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    stray |= outside(pointers[lane], window.first, window.last);
    low_bits |= pointers[lane];
    pointers[lane] += window.pointer_bias;
  }
  const bool in_order = access.verb == AccessVerb::reads && (low_bits & (access.alignment - 1)) == 0;
  if (window.usable && (stray & kTopBit<uint64_t>) == 0 && in_order) [[likely]]
    return;
  locate_carefully(fragment, access, mask, pointers);
}

/// The parameters of calls are in the register file, where translation has placed and checked them.
void locate_call_parameter(Fragment& fragment, const AccessDetail& access, LaneMask, uint64_t* pointers) {
  const uint64_t start =
      reinterpret_cast<uint64_t>(fragment.registers) + access.call_area + static_cast<uint64_t>(access.offset);
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) pointers[lane] = start + uint64_t{lane} * access.call_stride;
}

// ---- Tables ---------------------------------------------------------------------------------------------------------

template <typename S>
constexpr bool fits(const AccessShape& shape) {
  using Memory = typename S::Memory;
  // Signs do not matter where the register is as wide as the memory, or where 8 bits are extended with zeros to 16.
  constexpr bool is_signed = Memory(-1) < Memory(0);
  return shape.element_bytes == sizeof(Memory) && shape.register_bytes == sizeof(typename S::Register) &&
         shape.sign_extend == is_signed && shape.count == S::kElements;
}
template <>
constexpr bool fits<Shape<U128, U128, 1>>(const AccessShape& shape) {
  return shape.element_bytes == 16 && shape.count == 1;
}

template <AccessSpace Space, bool Store, typename... Shapes>
Handler full_of(const AccessShape& shape) {
  Handler result = nullptr;
  (void)((fits<Shapes>(shape) && ((result = access_full<Space, Shapes, Store>), true)) || ...);
  return result;
}

template <bool Store, typename... Shapes>
Move move_of(const AccessShape& shape) {
  Move result = nullptr;
  (void)((fits<Shapes>(shape) && ((result = move<typename Shapes::Memory, typename Shapes::Register, Store>), true)) ||
         ...);
  return result;
}

template <AccessSpace Space>
Handler load_full(const AccessShape& shape) {
  return full_of<Space, false, Shape<U8, U16, 1>, Shape<U8, U32, 1>, Shape<S8, U16, 1>, Shape<S8, U32, 1>,
                 Shape<U16, U16, 1>, Shape<U16, U32, 1>, Shape<S16, U32, 1>, Shape<U32, U32, 1>, Shape<U32, U64, 1>,
                 Shape<S32, U64, 1>, Shape<U64, U64, 1>, Shape<U128, U128, 1>, Shape<U16, U16, 2>, Shape<U16, U16, 4>,
                 Shape<U32, U32, 2>, Shape<U32, U32, 4>, Shape<U32, U32, 8>, Shape<U64, U64, 2>, Shape<U64, U64, 4>>(
      shape);
}

template <AccessSpace Space>
Handler store_full(const AccessShape& shape) {
  return full_of<Space, true, Shape<U8, U16, 1>, Shape<U8, U32, 1>, Shape<U16, U16, 1>, Shape<U16, U32, 1>,
                 Shape<U32, U32, 1>, Shape<U64, U64, 1>, Shape<U128, U128, 1>, Shape<U16, U16, 2>, Shape<U16, U16, 4>,
                 Shape<U32, U32, 2>, Shape<U32, U32, 4>, Shape<U32, U32, 8>, Shape<U64, U64, 2>, Shape<U64, U64, 4>>(
      shape);
}

template <typename... Shapes>
Handler load_parameter_of(const AccessShape& shape) {
  Handler result = nullptr;
  (void)((fits<Shapes>(shape) && ((result = load_parameter<Shapes>), true)) || ...);
  return result;
}

Handler load_parameter_full(const AccessShape& shape) {
  return load_parameter_of<Shape<U8, U16, 1>, Shape<U8, U32, 1>, Shape<S8, U16, 1>, Shape<U16, U16, 1>,
                           Shape<U32, U32, 1>, Shape<U64, U64, 1>, Shape<U32, U32, 2>, Shape<U32, U32, 4>,
                           Shape<U64, U64, 2>>(shape);
}

Handler full_handler(AccessSpace space, bool store, const AccessShape& shape) {
  switch (space) {
    case AccessSpace::kernel_parameter: return store ? nullptr : load_parameter_full(shape);
    case AccessSpace::global:
    case AccessSpace::generic:
      return store ? store_full<AccessSpace::global>(shape) : load_full<AccessSpace::global>(shape);
    case AccessSpace::shared:
    case AccessSpace::shared_cluster:
      return store ? store_full<AccessSpace::shared>(shape) : load_full<AccessSpace::shared>(shape);
    default: return nullptr;
  }
}

template <AccessSpace Space, typename... Shapes>
Handler load_masked_of(const AccessShape& shape) {
  Handler result = nullptr;
  (void)((fits<Shapes>(shape) && ((result = load_masked<Space, Shapes>), true)) || ...);
  return result;
}

Handler masked_handler(AccessSpace space, bool store, const AccessShape& shape) {
  if (store) return nullptr;
  switch (space) {
    case AccessSpace::global:
    case AccessSpace::generic:
      return load_masked_of<AccessSpace::global, Shape<U32, U32, 1>, Shape<U64, U64, 1>, Shape<U32, U32, 2>,
                            Shape<U32, U32, 4>>(shape);
    case AccessSpace::shared:
    case AccessSpace::shared_cluster:
      return load_masked_of<AccessSpace::shared, Shape<U32, U32, 1>, Shape<U64, U64, 1>, Shape<U32, U32, 2>,
                            Shape<U32, U32, 4>>(shape);
    default: return nullptr;
  }
}

Handler any_handler(bool store) { return store ? access_masked<true> : access_masked<false>; }

template <Base Kind>
Locate locate_of(AccessSpace space) {
  switch (space) {
    case AccessSpace::global:
    case AccessSpace::generic: return locate_global<Kind>;
    case AccessSpace::shared:
    case AccessSpace::shared_cluster: return locate_shared<Kind>;
    case AccessSpace::local: return locate_local<Kind>;
    case AccessSpace::kernel_parameter: return locate_parameter<Kind>;
    case AccessSpace::call_parameter: return locate_call_parameter;
  }
  return locate_carefully;
}

Locate locate_function(AccessSpace space, bool has_base, bool wide) {
  if (!has_base) return locate_of<Base::none>(space);
  return wide ? locate_of<Base::wide>(space) : locate_of<Base::narrow>(space);
}

Move move_function(bool store, const AccessShape& shape) {
  AccessShape single = shape;
  single.count = 1;
  if (store) {
    single.sign_extend = false;  // stores truncate
    return move_of<true, Shape<U8, U16, 1>, Shape<U8, U32, 1>, Shape<U8, U64, 1>, Shape<U16, U16, 1>,
                   Shape<U16, U32, 1>, Shape<U16, U64, 1>, Shape<U32, U32, 1>, Shape<U32, U64, 1>, Shape<U64, U64, 1>,
                   Shape<U128, U128, 1>>(single);
  }
  return move_of<false, Shape<U8, U16, 1>, Shape<U8, U32, 1>, Shape<U8, U64, 1>, Shape<S8, U16, 1>, Shape<S8, U32, 1>,
                 Shape<S8, U64, 1>, Shape<U16, U16, 1>, Shape<U16, U32, 1>, Shape<U16, U64, 1>, Shape<S16, U32, 1>,
                 Shape<S16, U64, 1>, Shape<U32, U32, 1>, Shape<U32, U64, 1>, Shape<S32, U64, 1>, Shape<U64, U64, 1>,
                 Shape<U128, U128, 1>>(single);
}

}  // namespace

AccessHandlers access_handlers() { return {full_handler, masked_handler, any_handler, locate_function, move_function}; }

}  // namespace stagecraft::emulator::machine::STAGECRAFT_ISA_NAMESPACE
