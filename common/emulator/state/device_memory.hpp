// Device memory and the map of generic addresses.
//
//     0x1000'0000'0000  shared window: + (rank of the block in its cluster << 24) + offset
//     0x1001'0000'0000  local window:  + offset in the thread's own local memory
//     0x2000'0000'0000  device memory, which code of the host cannot access: its bytes are at + 0x1000'0000'0000
//     0x4000'0000'0000  managed and pinned memory: an address is also the host's pointer to the same byte
//
// A program that follows a device pointer on the host gets a fault, as with a chip, because nothing is accessible at
// the address itself: the emulated GPU alone knows where the bytes are (`DeviceMemory::host`). Both kinds are
// reservations of address space at fixed places, so that reports name the same addresses in every run; a page costs
// host memory when it is first touched.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "emulator/host/host_memory.hpp"

namespace stagecraft::emulator::machine {

inline constexpr uint64_t kSharedWindow = 0x1000'0000'0000;
inline constexpr uint64_t kLocalWindow = 0x1001'0000'0000;
inline constexpr uint64_t kWindowBytes = 0x1'0000'0000;
inline constexpr uint32_t kSharedRankShift = 24;  ///< own address = rank << 24 | offset (measured on an H200)
/// The offset that %reserved_smem_offset_1 returns to cooperative groups, which use at least 288 bytes there
/// (cooperative_groups/details/memory.h). It is in the first KiB of a block's window, which the system reserves; where
/// exactly is not documented.
inline constexpr uint32_t kSharedScratch = 512;

/// Addresses that begin with these bits are device memory; no allocation is partly there.
inline constexpr uint32_t kDeviceShift = 44;
inline constexpr uint64_t kDeviceBits = 2;
/// The bytes of device memory are this far above their addresses.
inline constexpr uint64_t kBytesDistance = 0x1000'0000'0000;

/// What is added to an address of any memory that kernels access to get the host's pointer to the byte.
[[gnu::always_inline]] inline constexpr uint64_t host_distance(uint64_t address) {
  return address >> kDeviceShift == kDeviceBits ? kBytesDistance : 0;
}

/// Bits of a 32-bit shared address below the cluster rank.
inline constexpr uint32_t kSharedOffsetMask = (1u << kSharedRankShift) - 1;

enum class AllocationKind : uint8_t {
  device,
  managed,
  pinned_host,
  module,
  parameters,
  registered_host,  ///< the program's own memory, which kernels may reach
  mapped,           ///< mapped by the program at an address that it has reserved
  heap,             ///< malloc in a kernel
  managed_variable,
};

/// Whether code of the host may access memory of this kind.
constexpr bool is_of_host(AllocationKind kind) {
  return kind == AllocationKind::managed || kind == AllocationKind::managed_variable ||
         kind == AllocationKind::pinned_host || kind == AllocationKind::registered_host;
}

struct Allocation {
  uint64_t address = 0;
  uint64_t size = 0;
  AllocationKind kind = AllocationKind::device;
  bool writable_by_kernels = true;
  std::string label;  ///< what it is, for reports: "cudaMalloc #3", "variable `table`"

  bool contains(uint64_t first, uint64_t bytes) const {
    return first >= address && bytes <= size && first - address <= size - bytes;
  }
};

/// What a fresh allocation contains.
enum class Fill : uint8_t {
  poison,  ///< kPoisonPattern, up to kPoisonLimit
  zero,
};

/// Is repeated through fresh memory: a NaN as f64, f32, bf16, f16 and e4m3, and not a pattern that programs use as a
/// mark.
inline constexpr uint32_t kPoisonPattern = 0xfff5fff5;
/// The number of bytes that are poisoned at the start of an allocation; the last 64 KiB are poisoned too, and between
/// them a larger allocation contains zeros. There is a limit because poison touches pages, and an allocation should
/// cost only the host memory that the program touches.
inline constexpr uint64_t kPoisonLimit = 32ull << 20;
/// Addresses between two allocations that belong to neither, so that a stray access does not hit a neighbour.
inline constexpr uint64_t kGuardBytes = 64ull << 10;

/// Why an allocation failed.
enum class NoMemory : uint8_t {
  device,     ///< the chip has no more, or a kernel's heap is full
  host,       ///< the host has too little left for what the allocation touches
  addresses,  ///< the host grants no more address space
};

/// Addresses that allocations get their ranges from.
class AddressRegion {
 public:
  AddressRegion() = default;
  AddressRegion(uint64_t start, uint64_t bytes) : start_(start), end_(start + bytes), next_(start) {}

  uint64_t start() const { return start_; }
  uint64_t bytes() const { return end_ - start_; }
  bool contains(uint64_t address) const { return address - start_ < end_ - start_; }
  /// Returns the start of `bytes` addresses that nothing uses.
  std::optional<uint64_t> take(uint64_t bytes);
  void release(uint64_t start, uint64_t bytes);

 private:
  uint64_t start_ = 0, end_ = 0;
  uint64_t next_ = 0;                  // first address that was never used
  std::map<uint64_t, uint64_t> free_;  // start to bytes; no two touch
};

/// Owns all device memory. It is not thread-safe: the runtime serialises its calls.
///
/// The addresses of a freed allocation are not used again for a while, so that most uses after free are found. Where
/// the host grants less address space than the chip has memory (a limit on virtual memory), allocations fail earlier
/// than capacity() promises.
class DeviceMemory {
 public:
  explicit DeviceMemory(uint64_t capacity_bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// Returns the address of `size` fresh bytes, aligned to `alignment` (a power of two) and at least 512 as on the
  /// chip; nullopt when there is no memory (`why_none`). An allocation without a label gets one: "cudaMalloc #3".
  /// Kernels may write it, unless its kind is `parameters`.
  std::optional<uint64_t> allocate(uint64_t size, AllocationKind kind, std::string label = {}, Fill fill = Fill::poison,
                                   uint64_t alignment = 1);
  /// Why the last call of `allocate` that failed did.
  NoMemory why_none() const { return why_none_; }
  /// Returns false when `address` is not the start of a live allocation. As long as the addresses are not used again,
  /// code of the host cannot access them.
  bool release(uint64_t address);
  /// Limits the bytes of kind `heap`: an allocation of that kind beyond them fails.
  void limit_heap(uint64_t bytes) { heap_limit_ = bytes; }
  /// Whether anything of that kind was ever asked for.
  bool heap_was_used() const { return heap_was_used_; }
  /// Lets kernels access `size` bytes of the host at this address, which their owner still frees. Returns false when
  /// some of them are device memory already.
  bool adopt(uint64_t address, uint64_t size, AllocationKind kind, std::string label = {});
  /// Ends `adopt`. Returns false when `address` is not the start of adopted memory.
  bool forget(uint64_t address);
  /// Makes the allocation that starts at `address` read-only for kernels. Returns false when there is none.
  bool make_read_only(uint64_t address);

  /// Returns the live allocation that contains `address`, or null.
  const Allocation* find(uint64_t address) const;
  /// Returns the live allocation that contains all of [address, address + bytes), or null.
  const Allocation* find(uint64_t address, uint64_t bytes) const;
  /// Whether the address belongs to device, managed or pinned memory, whatever is there at the moment.
  bool owns(uint64_t address) const;
  /// Describes what is at or near `address`, as part of a sentence: "4 bytes past the end of cudaMalloc #1 (4096 bytes
  /// at 0x200000000000)", "inside cudaMalloc #2 (...), which has been freed", "near no allocation".
  std::string describe(uint64_t address) const;

  uint64_t capacity() const { return capacity_; }
  uint64_t used() const { return used_; }
  /// Returns a number that changes whenever an allocation is made or released, and that differs between any two
  /// DeviceMemory objects. Caches of lookups compare it.
  static uint64_t generation() { return generation_; }

  /// Whether code of the host cannot access device memory. It can where the process uses all addresses that are meant
  /// for device memory.
  bool is_hidden_from_host() const { return host_distance(device_region_.start()) != 0; }
  /// Keeps addresses of device memory, and the place of their bytes, which nothing can access yet. Returns false where
  /// the host does not grant them.
  static bool keep_addresses(uint64_t first, uint64_t bytes);
  /// Ends `keep_addresses`.
  static void drop_addresses(uint64_t first, uint64_t bytes);

  /// What is left of the host's memory.
  HostMemory& host_memory() { return host_memory_; }

  /// Returns the host's pointer to an address that `find` has found.
  static std::byte* host(uint64_t address) { return reinterpret_cast<std::byte*>(address + host_distance(address)); }

 private:
  struct Freed {
    Allocation allocation;
    uint64_t range_start = 0, range_bytes = 0;
  };

  AddressRegion reserve(bool of_host) const;
  AddressRegion& region_of(AllocationKind kind);
  bool can_touch(uint64_t size, AllocationKind kind, Fill fill);
  void forget_oldest_freed();
  static uint64_t charged(uint64_t size);
  static uint64_t of_heap(uint64_t size);  ///< what it uses of the heap's limit; what it uses on the chip is not known

  static uint64_t generation_;  // not inline: handlers of all processor levels read the one in device_memory.cpp

  uint64_t capacity_ = 0;
  uint64_t used_ = 0;
  AddressRegion device_region_, host_region_;  // the latter is reserved when it is first used
  HostMemory host_memory_;
  NoMemory why_none_ = NoMemory::device;
  uint64_t heap_limit_ = 8 << 20, heap_used_ = 0;
  bool heap_was_used_ = false;
  std::array<uint64_t, 9> counts_{};                          // labels made so far, by kind
  std::map<uint64_t, Allocation> live_;                       // by address
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> ranges_;  // address of a live allocation to its range
  std::deque<Freed> freed_;                                   // oldest first; their ranges are not reused yet
};

}  // namespace stagecraft::emulator::machine
