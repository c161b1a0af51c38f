// Device memory and the map of generic addresses.
//
//     0x1000'0000'0000  shared window: + (rank of the block in its cluster << 24) + offset
//     0x1001'0000'0000  local window:  + offset in the thread's own local memory
//     0x2000'0000'0000  device memory: an address is also the host's pointer to the same byte
//
// Device memory is one reservation of address space at a fixed place, so that reports name the same addresses in
// every run; a page costs host memory when it is first touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace stagecraft::emulator::machine {

inline constexpr uint64_t kSharedWindow = 0x1000'0000'0000;
inline constexpr uint64_t kLocalWindow = 0x1001'0000'0000;
inline constexpr uint64_t kWindowBytes = 0x1'0000'0000;
inline constexpr uint32_t kSharedRankShift = 24;        ///< own address = rank << 24 | offset (measured on an H200)
inline constexpr uint32_t kSharedReservedBytes = 1024;  ///< the first user byte of a block's window is at 0x400

/// Bits of a 32-bit shared address below the cluster rank.
inline constexpr uint32_t kSharedOffsetMask = (1u << kSharedRankShift) - 1;

enum class AllocationKind : uint8_t { device, managed, pinned_host, module, parameters };

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

/// Owner of all device memory. Not thread-safe: the runtime serialises.
class DeviceMemory {
 public:
  explicit DeviceMemory(uint64_t capacity_bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// Address of `size` fresh bytes, aligned to at least 256; nullopt when the device's memory is exhausted. New memory
  /// holds a poison pattern, never zeros.
  std::optional<uint64_t> allocate(uint64_t size, AllocationKind kind, std::string label = {});
  /// False when `address` is not the start of a live allocation.
  bool release(uint64_t address);

  /// The live allocation that holds `address`, or null.
  const Allocation* find(uint64_t address) const;
  /// The live allocation that holds all of [address, address + bytes), or null.
  const Allocation* find(uint64_t address, uint64_t bytes) const;
  /// A sentence on what is at or near `address`: "4 bytes past the end of cudaMalloc #1 (4096 bytes at 0x...)",
  /// "inside cudaMalloc #2, freed", "no allocation is near".
  std::string describe(uint64_t address) const;

  uint64_t capacity() const { return capacity_; }
  uint64_t used() const { return used_; }
  /// Changes whenever an allocation is made or released; validates cached lookups.
  uint64_t generation() const { return generation_; }

  /// The host's view of a device address that `find` has approved.
  static std::byte* host(uint64_t address) { return reinterpret_cast<std::byte*>(address); }

 private:
  uint64_t capacity_ = 0;
  uint64_t used_ = 0;
  uint64_t next_ = 0;
  uint64_t generation_ = 1;
  uint64_t count_ = 0;
  std::map<uint64_t, Allocation> live_;            // by address
  std::map<uint64_t, Allocation> freed_;           // remembered for reports, until the range is used again
  std::multimap<uint64_t, uint64_t> free_ranges_;  // size to address
};

}  // namespace stagecraft::emulator::machine
