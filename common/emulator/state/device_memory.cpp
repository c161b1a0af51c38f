#include "emulator/state/device_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "emulator/state/module_image.hpp"

namespace stagecraft::emulator::machine {
namespace {

constexpr uint64_t kDeviceBase = 0x2000'0000'0000;
constexpr uint64_t kHostBase = 0x4000'0000'0000;
constexpr uint64_t kSlotBytes = 0x100'0000'0000;  // where a second DeviceMemory of the process tries to go
constexpr int kSlots = 16;
constexpr uint64_t kAlignment = 512;
constexpr uint64_t kSmallestReservation = 256ull << 20;
constexpr size_t kFreedRemembered = 256;
constexpr uint64_t kNear = 1ull << 20;  // distance at which an allocation is worth naming
constexpr uint64_t kNullPage = 4096;
constexpr uint64_t kPoisonedTail = 64ull << 10;

uint64_t round_up(uint64_t value, uint64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

uint64_t page_bytes() {
  static const auto bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

/// Bytes that `fill_fresh` writes.
uint64_t bytes_to_poison(uint64_t size, Fill fill) {
  return fill == Fill::zero ? 0 : std::min(size, kPoisonLimit + kPoisonedTail);
}

void poison(uint64_t address, uint64_t bytes) {
  // Each copy doubles what is filled: a few calls of memcpy are faster than a loop over words.
  std::byte* const start = DeviceMemory::host(address);
  const uint64_t seed = std::min<uint64_t>(bytes, sizeof kPoisonPattern);
  std::memcpy(start, &kPoisonPattern, seed);
  constexpr uint64_t kChunk = 4096;
  for (uint64_t done = seed; done < bytes;) {
    const uint64_t step = std::min({done, bytes - done, kChunk});
    std::memcpy(start + done, start, step);
    done += step;
  }
}

void fill_fresh(uint64_t address, uint64_t size, Fill fill) {
  if (fill == Fill::zero || size == 0) return;  // pages of the reservation are zero until they are touched
  if (size <= kPoisonLimit + kPoisonedTail) {
    poison(address, size);
    return;
  }
  poison(address, kPoisonLimit);
  const uint64_t tail = (size - kPoisonedTail) & ~uint64_t{3};
  poison(address + tail, size - tail);
}

/// Returns the pages of a range to the host; they read as zeros afterwards.
void discard_pages(uint64_t start, uint64_t bytes) {
  const uint64_t first = start / page_bytes() * page_bytes();
  const uint64_t last = round_up(start + bytes, page_bytes());
  std::byte* const pages = DeviceMemory::host(first);
  if (madvise(pages, last - first, MADV_DONTNEED) != 0) std::memset(DeviceMemory::host(start), 0, bytes);
}

/// Lets code of the host access whole pages of the region of managed and pinned memory, or not. Where the host refuses,
/// they stay as they are: that only catches fewer mistakes.
void set_accessible(uint64_t start, uint64_t bytes, bool accessible) {
  mprotect(reinterpret_cast<void*>(start), bytes, accessible ? PROT_READ | PROT_WRITE : PROT_NONE);
}

/// Maps private memory that is not accounted for before it is touched. Returns whether it is at `place`; 0 is any
/// place.
void* map_at(uint64_t place, uint64_t bytes, int protection) {
#ifndef MAP_FIXED_NOREPLACE
  constexpr int MAP_FIXED_NOREPLACE = 0;
#endif
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (place != 0 ? MAP_FIXED_NOREPLACE : 0);
  void* const hint = reinterpret_cast<void*>(place);
  void* const got = mmap(hint, bytes, protection, flags, -1, 0);
  if (got == MAP_FAILED) return nullptr;
  if (place != 0 && got != hint) {  // a host kernel without MAP_FIXED_NOREPLACE may choose another place
    munmap(got, bytes);
    errno = EEXIST;
    return nullptr;
  }
#ifdef MADV_DONTDUMP
  madvise(got, bytes, MADV_DONTDUMP);
#endif
  return got;
}

/// Maps addresses of device memory, which nothing can access, and the place of their bytes; both or none.
bool map_apart(uint64_t place, uint64_t bytes, int protection_of_bytes) {
  void* const addresses = map_at(place, bytes, PROT_NONE);
  if (addresses == nullptr) return false;
  if (map_at(place + kBytesDistance, bytes, protection_of_bytes) != nullptr) return true;
  const int why = errno;
  munmap(addresses, bytes);
  errno = why;
  return false;
}

std::string default_label(AllocationKind kind, uint64_t number) {
  switch (kind) {
    case AllocationKind::device: return fmt::format("cudaMalloc #{}", number);
    case AllocationKind::managed: return fmt::format("cudaMallocManaged #{}", number);
    case AllocationKind::pinned_host: return fmt::format("cudaMallocHost #{}", number);
    case AllocationKind::module: return fmt::format("module variable #{}", number);
    case AllocationKind::parameters: return "the kernel's parameters";
    case AllocationKind::registered_host: return fmt::format("cudaHostRegister #{}", number);
    case AllocationKind::mapped: return fmt::format("cuMemMap #{}", number);
    case AllocationKind::heap: return fmt::format("malloc in a kernel #{}", number);
    case AllocationKind::managed_variable: return fmt::format("managed variable #{}", number);
  }
  return {};
}

std::string bytes_phrase(uint64_t count) { return fmt::format("{} byte{}", count, count == 1 ? "" : "s"); }

std::string name_of(const Allocation& allocation) {
  return fmt::format("{} ({} at {:#x})", allocation.label, bytes_phrase(allocation.size), allocation.address);
}

}  // namespace

uint64_t DeviceMemory::generation_ = 1;

DeviceMemory::DeviceMemory(uint64_t capacity_bytes) : capacity_(capacity_bytes), device_region_(reserve(false)) {
  ++generation_;
}

DeviceMemory::~DeviceMemory() {
  ++generation_;
  for (const AddressRegion* region : {&device_region_, &host_region_}) {
    if (region->bytes() != 0) drop_addresses(region->start(), region->bytes());
  }
}

bool DeviceMemory::keep_addresses(uint64_t first, uint64_t bytes) { return map_apart(first, bytes, PROT_NONE); }

void DeviceMemory::drop_addresses(uint64_t first, uint64_t bytes) {
  munmap(reinterpret_cast<void*>(first), bytes);
  if (host_distance(first) != 0) munmap(host(first), bytes);
}

AddressRegion DeviceMemory::reserve(bool of_host) const {
#if defined(__wasm32__)
  // A pointer has 32 bits here, so a device pointer that the program gets can only be the place of its byte.
  constexpr uint64_t kBytes = kSmallestReservation / 4;
  void* const place = map_at(0, kBytes, PROT_READ | PROT_WRITE);
  return {reinterpret_cast<uint64_t>(place), place == nullptr ? 0 : kBytes};
#endif
  // There must be room for guards and for freed ranges that are not reused yet. Address space costs nothing; the
  // smaller sizes matter only where the host limits it.
  const uint64_t wished = std::min(round_up(4 * capacity_ + (16ull << 30), 2ull << 20), kSlotBytes);
  for (uint64_t bytes = wished; bytes >= kSmallestReservation; bytes = round_up(bytes / 2, 2ull << 20)) {
    for (int slot = 0; slot <= kSlots; ++slot) {
      // The last attempt accepts any place: addresses then differ between runs, and code of the host can access them.
      const bool anywhere = slot == kSlots;
      const uint64_t place = anywhere ? 0 : (of_host ? kHostBase : kDeviceBase) + uint64_t(slot) * kSlotBytes;
      constexpr int kAccessible = PROT_READ | PROT_WRITE;
      if (host_distance(place) != 0) {
        if (map_apart(place, bytes, kAccessible)) return {place, bytes};
      } else if (void* const got = map_at(place, bytes, kAccessible)) {
        return {reinterpret_cast<uint64_t>(got), bytes};
      }
      if (errno == ENOMEM) break;  // too large, at this place or any other
    }
    if (bytes == kSmallestReservation) break;
  }
  // Every allocation will fail, which the runtime reports as out of memory.
  return {of_host ? kHostBase : kDeviceBase, 0};
}

AddressRegion& DeviceMemory::region_of(AllocationKind kind) {
  if (!is_of_host(kind)) return device_region_;
  if (host_region_.bytes() == 0) host_region_ = reserve(true);
  return host_region_;
}

uint64_t DeviceMemory::charged(uint64_t size) { return round_up(std::max<uint64_t>(size, 1), kAlignment); }

uint64_t DeviceMemory::of_heap(uint64_t size) {
  constexpr uint64_t kHeapAlignment = 16;  // CUDA C++ Programming Guide, "Dynamic Global Memory Allocation"
  return round_up(std::max<uint64_t>(size, 1), kHeapAlignment);
}

std::optional<uint64_t> AddressRegion::take(uint64_t bytes) {
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    if (range->second < bytes) continue;
    const uint64_t start = range->first;
    const uint64_t rest = range->second - bytes;
    free_.erase(range);
    if (rest != 0) free_.emplace(start + bytes, rest);
    return start;
  }
  if (bytes > end_ - next_) return std::nullopt;
  const uint64_t start = next_;
  next_ += bytes;
  return start;
}

void AddressRegion::release(uint64_t start, uint64_t bytes) {
  auto after = free_.lower_bound(start);
  if (after != free_.end() && start + bytes == after->first) {
    bytes += after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == start) {
      before->second += bytes;
      return;
    }
  }
  free_.emplace(start, bytes);
}

void DeviceMemory::forget_oldest_freed() {
  const Freed& oldest = freed_.front();
  AddressRegion& region = region_of(oldest.allocation.kind);
  if (&region == &host_region_) set_accessible(oldest.range_start, oldest.range_bytes, true);
  region.release(oldest.range_start, oldest.range_bytes);
  freed_.pop_front();
}

bool DeviceMemory::can_touch(uint64_t size, AllocationKind kind, Fill fill) {
  // Pinned memory is in memory from the start, and the program's own accesses to it cannot be watched.
  const uint64_t bytes = kind == AllocationKind::pinned_host ? size : bytes_to_poison(size, fill);
  return !host_memory_.must_look(bytes) || bytes <= host_memory_.room();
}

std::optional<uint64_t> DeviceMemory::allocate(uint64_t size, AllocationKind kind, std::string label, Fill fill,
                                               uint64_t alignment) {
  const bool heap = kind == AllocationKind::heap;
  heap_was_used_ = heap_was_used_ || heap;
  const auto fail = [&](NoMemory why) {
    why_none_ = why;
    return std::nullopt;
  };
  if (size > capacity_ || charged(size) > capacity_ - used_) return fail(NoMemory::device);
  if (heap && of_heap(size) > heap_limit_ - std::min(heap_limit_, heap_used_)) return fail(NoMemory::device);
  if (!can_touch(size, kind, fill)) return fail(NoMemory::host);
  // The guard follows the allocation. Ranges are multiples of the alignment that all but a few allocations need; those
  // that the host may access have pages of their own.
  AddressRegion& region = region_of(kind);
  const uint64_t unit = &region == &host_region_ ? page_bytes() : kAlignment;
  alignment = std::max(alignment, unit);
  const uint64_t range_bytes = round_up(charged(size), unit) + kGuardBytes + (alignment > unit ? alignment : 0);
  std::optional<uint64_t> range = region.take(range_bytes);
  while (!range && !freed_.empty()) {
    forget_oldest_freed();
    range = region.take(range_bytes);
  }
  if (!range) return fail(NoMemory::addresses);

  const uint64_t address = round_up(*range, alignment);
  if (label.empty()) label = default_label(kind, ++counts_[static_cast<size_t>(kind)]);
  fill_fresh(address, size, fill);
  Allocation allocation{.address = address,
                        .size = size,
                        .kind = kind,
                        .writable_by_kernels = kind != AllocationKind::parameters,
                        .label = std::move(label)};
  live_.emplace(address, std::move(allocation));
  ranges_.emplace(address, std::pair{*range, range_bytes});
  used_ += charged(size);
  if (heap) heap_used_ += of_heap(size);
  ++generation_;
  return address;
}

bool DeviceMemory::release(uint64_t address) {
  const auto found = live_.find(address);
  const auto range = ranges_.find(address);
  if (found == live_.end() || range == ranges_.end()) return false;
  const auto [range_start, range_bytes] = range->second;
  AddressRegion& region = region_of(found->second.kind);
  used_ -= charged(found->second.size);
  if (found->second.kind == AllocationKind::heap) heap_used_ -= of_heap(found->second.size);
  if (found->second.size != 0) discard_pages(address, found->second.size);
  if (found->second.kind == AllocationKind::parameters) {  // one per launch: they would displace all others
    region.release(range_start, range_bytes);
  } else {
    if (&region == &host_region_) set_accessible(range_start, range_bytes, false);
    freed_.push_back({std::move(found->second), range_start, range_bytes});
  }
  live_.erase(found);
  ranges_.erase(range);
  if (freed_.size() > kFreedRemembered) forget_oldest_freed();
  ++generation_;
  return true;
}

bool DeviceMemory::adopt(uint64_t address, uint64_t size, AllocationKind kind, std::string label) {
  if (size == 0 || address + size < address) return false;
  const auto after = live_.lower_bound(address);
  if (find(address) != nullptr || (after != live_.end() && after->first - address < size)) return false;
  if (label.empty()) label = default_label(kind, ++counts_[static_cast<size_t>(kind)]);
  live_.emplace(address, Allocation{.address = address, .size = size, .kind = kind, .label = std::move(label)});
  ++generation_;
  return true;
}

bool DeviceMemory::forget(uint64_t address) {
  const auto found = live_.find(address);
  if (found == live_.end() || ranges_.contains(address)) return false;
  live_.erase(found);
  ++generation_;
  return true;
}

bool DeviceMemory::make_read_only(uint64_t address) {
  const auto found = live_.find(address);
  if (found == live_.end()) return false;
  found->second.writable_by_kernels = false;
  ++generation_;
  return true;
}

const Allocation* DeviceMemory::find(uint64_t address) const { return find(address, 1); }

const Allocation* DeviceMemory::find(uint64_t address, uint64_t bytes) const {
  auto after = live_.upper_bound(address);
  if (after == live_.begin()) return nullptr;
  const Allocation& candidate = std::prev(after)->second;
  return candidate.contains(address, bytes) ? &candidate : nullptr;
}

bool DeviceMemory::owns(uint64_t address) const {
  return address >> kDeviceShift == kDeviceBits || device_region_.contains(address) || host_region_.contains(address);
}

std::string DeviceMemory::describe(uint64_t address) const {
  if (address == 0) return "the null pointer";
  if (address < kNullPage) return fmt::format("{} past the null pointer", bytes_phrase(address));
  if (address - kSharedWindow < kWindowBytes) {
    const uint64_t offset = address - kSharedWindow;
    return fmt::format("an address of shared memory (offset {:#x} in the block of rank {})", offset & kSharedOffsetMask,
                       offset >> kSharedRankShift);
  }
  if (address - kLocalWindow < kWindowBytes) {
    return fmt::format("an address of a thread's local memory (offset {:#x})", address - kLocalWindow);
  }
  if (address - kFunctionWindow < kWindowBytes) return "the address of a function";

  if (const Allocation* inside = find(address)) {
    return fmt::format("{} into {}", bytes_phrase(address - inside->address), name_of(*inside));
  }
  for (auto freed = freed_.rbegin(); freed != freed_.rend(); ++freed) {
    if (freed->allocation.contains(address, 1)) {
      return fmt::format("inside {}, which has been freed", name_of(freed->allocation));
    }
  }
  const Allocation* below = nullptr;
  const Allocation* above = nullptr;
  const auto after = live_.upper_bound(address);
  if (after != live_.end()) above = &after->second;
  if (after != live_.begin()) below = &std::prev(after)->second;
  const uint64_t past = below ? address - (below->address + below->size) : ~uint64_t{0};
  const uint64_t before = above ? above->address - address : ~uint64_t{0};
  if (past <= before && past < kNear) {
    if (past == 0) return fmt::format("just past the end of {}", name_of(*below));
    return fmt::format("{} past the end of {}", bytes_phrase(past), name_of(*below));
  }
  if (before < kNear) return fmt::format("{} before the start of {}", bytes_phrase(before), name_of(*above));
  return "near no allocation";
}

}  // namespace stagecraft::emulator::machine
