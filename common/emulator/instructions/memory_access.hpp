// What an instruction that accesses memory keeps with its Op, and how it gets from addresses to bytes.
//
// There are two ways. The fast one, compiled for each level of the processor (memory_access_lanes.cpp), looks at all
// lanes at once: are the addresses aligned and in the allocation that this same instruction used last, and are they
// equal or consecutive? Everything else takes the careful way (address_resolution.cpp): lane by lane, to a pointer for
// each or a Fault.
//
// Where accesses are observed (checks for races), their handlers are wrapped after translation; see
// announcing_handlers.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "emulator/host/isa_level.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/state/op.hpp"
#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

/// What the addresses of an access point to.
enum class AccessSpace : uint8_t {
  global,            ///< device memory: .global and .const
  generic,           ///< an address of any window
  shared,            ///< .shared: the block's own
  shared_cluster,    ///< .shared::cluster: that of any block of the cluster
  local,             ///< the thread's own
  kernel_parameter,  ///< an offset in the launch's parameters
  call_parameter,    ///< in the register file
};

enum class AccessVerb : uint8_t { reads, writes, updates };

struct AccessDetail;

/// Pointers to the bytes that the lanes of `mask` access; the entries of other lanes stay as they are. Throws Fault.
using Locate = void (*)(Fragment& fragment, const AccessDetail& access, LaneMask mask, uint64_t* pointers);
/// Copies one element of each lane of `mask` between a register and `pointers[lane] + displacement`.
using Move = void (*)(std::byte* lanes, const uint64_t* pointers, uint64_t displacement, LaneMask mask);

/// The allocation that an instruction used last, as the first and the last address at which an access may start; valid
/// while `generation` is DeviceMemory::generation(). (1, 0) holds no address.
///
/// Clusters of a grid that run at the same time share it, so a reader may use what it read only if `version` was even
/// before and is the same afterwards (Boehm, "Can seqlocks get along with programming language memory models?", 2012).
/// It uses built-ins of the compiler, because the files of each x86-64 level may call no function that others define.
struct AllocationCache {
  uint64_t version = 0;
  uint64_t generation = 0, first = 1, last = 0;
  uint64_t distance = 0;  ///< of the allocation's bytes from their addresses

  struct Copy {
    bool usable;
    uint64_t first, last, distance;
  };
  [[gnu::always_inline]] inline Copy copy() const {
    const uint64_t before = __atomic_load_n(&version, __ATOMIC_ACQUIRE);
    const uint64_t made = __atomic_load_n(&generation, __ATOMIC_RELAXED);
    Copy result{made == DeviceMemory::generation(), __atomic_load_n(&first, __ATOMIC_RELAXED),
                __atomic_load_n(&last, __ATOMIC_RELAXED), __atomic_load_n(&distance, __ATOMIC_RELAXED)};
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    result.usable &= before % 2 == 0 && __atomic_load_n(&version, __ATOMIC_RELAXED) == before;
    return result;
  }
  /// Takes note of an allocation, unless another thread is doing so.
  void set(uint64_t first_address, uint64_t last_address) {
    uint64_t before = __atomic_load_n(&version, __ATOMIC_RELAXED);
    if (before % 2 != 0 ||
        !__atomic_compare_exchange_n(&version, &before, before + 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
      return;
    }
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&generation, DeviceMemory::generation(), __ATOMIC_RELAXED);
    __atomic_store_n(&first, first_address, __ATOMIC_RELAXED);
    __atomic_store_n(&last, last_address, __ATOMIC_RELAXED);
    __atomic_store_n(&distance, host_distance(first_address), __ATOMIC_RELAXED);
    __atomic_store_n(&version, before + 2, __ATOMIC_RELEASE);
  }
};

struct AccessDetail : OpDetail {
  std::string name;  ///< the instruction as written, for reports
  AccessSpace space = AccessSpace::generic;
  AccessVerb verb = AccessVerb::reads;
  bool wide = false;  ///< lanes of `base` have 8 bytes, else 4
  RegisterOffset base = kNoRegister;
  RegisterOffset call_area = kNoRegister;
  uint32_t call_stride = 0;
  int64_t offset = 0;      ///< added to the base
  uint32_t bytes = 0;      ///< per lane, all elements together
  uint32_t alignment = 0;  ///< that the address must have
  uint32_t element_bytes = 0;
  uint32_t count = 0;      ///< elements (.v2, .v4, .v8)
  LaneMask suppliers = 0;  ///< ldmatrix, stmatrix: the lanes whose addresses count; 0: those that execute it
  std::array<RegisterOffset, 8> registers{};
  std::array<Move, 8> moves{};
  Outcome outcome = Outcome::next;
  Locate locate = nullptr;

  mutable AllocationCache cache;
};

/// The properties of an access that decide which handler executes it.
struct AccessShape {
  uint32_t element_bytes = 4;   ///< in memory: 1, 2, 4, 8, 16
  uint32_t register_bytes = 4;  ///< per lane: 2, 4, 8, 16
  bool sign_extend = false;
  uint32_t count = 1;

  bool operator==(const AccessShape&) const = default;
};

/// The address of a lane as the instruction gives it, before it is checked.
uint64_t address_of_lane(const Fragment& fragment, const AccessDetail& access, uint32_t lane);

/// The careful way; also a Locate.
void locate_carefully(Fragment& fragment, const AccessDetail& access, LaneMask mask, uint64_t* pointers);

/// "lane 3", "lanes 0-15, 17"
std::string spell_lanes(LaneMask lanes);

/// Fills `space`, `base`, `offset` ... from an address operand; `modifier_space` is the instruction's own, with
/// `Space::none` for generic.
void set_address(Translation& t, AccessDetail& access, const ptx::Operand& operand, ptx::Space modifier_space,
                 bool cluster_wide = false);
/// Chooses `access.locate`. The access must be complete otherwise.
void choose_locate(AccessDetail& access);
/// Appends the Op of a plain load or store and gives it `access`.
void emit_access(Translation& t, std::unique_ptr<AccessDetail> access, const AccessShape& shape);

/// Appends one of several plain accesses that an instruction consists of: `element_bytes` between a register of
/// `register_bytes` per lane and the 64-bit addresses in a vector. Name, verb, space and size are those of `access`.
void emit_lane_access(Translation& t, const AccessDetail& access, RegisterOffset addresses, RegisterOffset element,
                      uint32_t register_bytes);

/// Takes the cache hints, eviction priorities and prefetch sizes, which have no effect here. Returns whether a cache
/// policy operand follows.
bool take_cache_modifiers(ptx::Modifiers& modifiers);
/// Takes .sem and .scope. Returns whether the access is strong (volatile, relaxed, acquire, release, mmio).
bool take_memory_order(ptx::Modifiers& modifiers);
/// The scope that an instruction names: .cta, .cluster, .gpu or .sys; of membar .cta, .gl or .sys.
/// @param plain  the scope of one that names none.
MemoryScope scope_of(const ptx::Instruction& instruction, MemoryScope plain);
/// The traits of ld, st, atom and red, from their .sem and their state space.
/// @param plain  how an access without .sem orders others.
InstructionTraits access_traits(const ptx::Instruction& instruction, AccessOrder plain, MemoryUse use);
/// Takes .async from st.async.release or red.async.release, and refuses what these cannot have. They go to global
/// memory at any time before their block ends: here at once, as a plain st.release or red.release.
void take_asynchronous_release(Translation& t);
/// Takes the state space; `cluster_wide` is set by .shared::cluster.
ptx::Space take_space(ptx::Modifiers& modifiers, bool& cluster_wide);
/// Bytes per lane of an operand: those of its register, or else of the type.
uint32_t register_bytes_of(const Translation& t, const ptx::Operand& operand, ptx::Type type);

/// The variants of memory_access_lanes.cpp.
struct AccessHandlers {
  // For accesses whose base register has the natural width of the space; null: `any` serves.
  Handler (*full)(AccessSpace space, bool store, const AccessShape& shape);
  Handler (*masked)(AccessSpace space, bool store, const AccessShape& shape);
  Handler (*any)(bool store);
  Locate (*locate)(AccessSpace space, bool has_base, bool wide);
  Move (*move)(bool store, const AccessShape& shape);
};
STAGECRAFT_DECLARE_ISA(AccessHandlers access_handlers())

}  // namespace stagecraft::emulator::machine
