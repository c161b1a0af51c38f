// The driver API: virtual memory management. Physical memory is a file in the host's memory, and cuMemMap maps that
// file to an address that the program has reserved; so two mappings of one piece hold the same bytes. Reserved
// addresses are device memory, which code of the host cannot access: the file is mapped where their bytes are
// (state/device_memory.hpp).
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "emulator/runtime/model/api_call.hpp"
#include "emulator/runtime/model/report_file.hpp"
#include "emulator/state/device_memory.hpp"

namespace stagecraft::emulator::runtime {
namespace {

using machine::AllocationKind;

/// Sizes and addresses are multiples of this, as on an H200.
constexpr uint64_t kGranularity = 2ull << 20;

/// The part of the addresses of device memory that programs can reserve.
constexpr uint64_t kFirstReservable = 0x2800'0000'0000, kLastReservable = 0x2fff'ffff'ffff;

/// The physical memory that cuMemCreate makes; it lives as long as a handle or a mapping refers to it.
struct Physical {
  int file = -1;
  uint64_t bytes = 0;
  CUmemAllocationProp properties{};
  Physical() = default;
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;
  ~Physical() {
    if (file >= 0) close(file);
  }
};

struct Handle {
  std::shared_ptr<Physical> physical;
  unsigned references = 1;
};

struct Mapping {
  uint64_t bytes = 0;
  CUmemGenericAllocationHandle handle = 0;
  std::shared_ptr<Physical> physical;
};

/// Owner of what is reserved, created and mapped; the lock of State protects it.
struct VirtualMemory {
  std::map<uint64_t, uint64_t> reservations;  ///< address to bytes
  std::map<CUmemGenericAllocationHandle, Handle> handles;
  std::map<uint64_t, Mapping> mappings;  ///< by address
  CUmemGenericAllocationHandle next_handle = 1;
};

VirtualMemory& virtual_memory() {
  static auto* const memory = new VirtualMemory;
  return *memory;
}

void check_multiple(uint64_t value, const char* what) {
  if (value % kGranularity != 0) {
    throw ApiError(cudaErrorInvalidValue, fmt::format("the {} {} is no multiple of {} bytes "
                                                      "(cuMemGetAllocationGranularity)",
                                                      what, value, kGranularity));
  }
}

void check_properties(const CUmemAllocationProp& properties) {
  if (properties.type != CU_MEM_ALLOCATION_TYPE_PINNED || properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    throw ApiError(cudaErrorNotSupported,
                   "memory of the emulated GPU is pinned (CU_MEM_ALLOCATION_TYPE_PINNED) and on "
                   "the device (CU_MEM_LOCATION_TYPE_DEVICE)");
  }
  check_device(properties.location.id);
}

Handle& require_handle(CUmemGenericAllocationHandle handle) {
  const auto found = virtual_memory().handles.find(handle);
  if (found == virtual_memory().handles.end()) {
    throw ApiError(cudaErrorInvalidValue, fmt::format("{} is no handle that cuMemCreate gave", handle));
  }
  return found->second;
}

bool is_reserved(uint64_t address, uint64_t bytes) {
  const auto& reservations = virtual_memory().reservations;
  const auto after = reservations.upper_bound(address);
  if (after == reservations.begin()) return false;
  const auto& [begin, size] = *std::prev(after);
  return address - begin <= size && bytes <= size - (address - begin);
}

/// An address at which nothing is reserved, if possible the one that is wished.
uint64_t find_free(uint64_t bytes, uint64_t alignment, uint64_t wished) {
  const auto& reservations = virtual_memory().reservations;
  const auto is_free = [&](uint64_t first) {
    if (first < kFirstReservable || first > kLastReservable || bytes > kLastReservable - first) return false;
    const auto after = reservations.lower_bound(first + bytes);
    return after == reservations.begin() || std::prev(after)->first + std::prev(after)->second <= first;
  };
  if (wished % alignment == 0 && is_free(wished)) return wished;
  uint64_t first = (kFirstReservable + alignment - 1) / alignment * alignment;
  for (const auto& [begin, size] : reservations) {
    if (is_free(first)) break;
    first = (begin + size + alignment - 1) / alignment * alignment;
  }
  if (!is_free(first)) {
    throw ApiError(cudaErrorMemoryAllocation, fmt::format("{} addresses in one piece are not left", bytes));
  }
  return first;
}

/// Consecutive whole mappings from `address` on. Throws ApiError unless they are `bytes` together.
std::vector<uint64_t> mappings_of(uint64_t address, uint64_t bytes) {
  std::vector<uint64_t> found;
  const uint64_t end = address + bytes;
  while (address < end) {
    const auto mapping = virtual_memory().mappings.find(address);
    if (mapping == virtual_memory().mappings.end() || mapping->second.bytes > end - address) {
      throw ApiError(cudaErrorInvalidValue, fmt::format("no mapping begins at {:#x} and ends by {:#x}", address, end));
    }
    found.push_back(address);
    address += mapping->second.bytes;
  }
  return found;
}

void* bytes_of(uint64_t address) { return machine::DeviceMemory::host(address); }

/// Makes the range one piece of memory that kernels can reach, or unreachable. Memory beyond its ends does not change.
void set_access(State& state, uint64_t address, uint64_t bytes, CUmemAccess_flags flags) {
  auto& memory = state.machine().memory();
  const auto adopt = [&](uint64_t from, uint64_t to, bool is_writable) {
    if (from >= to) return;
    memory.adopt(from, to - from, AllocationKind::mapped);
    if (!is_writable) memory.make_read_only(from);
  };
  for (uint64_t at = address; at < address + bytes; at += kGranularity) {
    const machine::Allocation* known = memory.find(at);
    if (known == nullptr) continue;
    const machine::Allocation cut = *known;
    memory.forget(cut.address);
    adopt(cut.address, address, cut.writable_by_kernels);
    adopt(address + bytes, cut.address + cut.size, cut.writable_by_kernels);
  }
  if (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE) {
    adopt(address, address + bytes, flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  }
}

}  // namespace
}  // namespace stagecraft::emulator::runtime

using namespace stagecraft::emulator::runtime;

extern "C" {

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags) {
  return run_driver_call("cuMemGetAllocationGranularity", Needs::nothing, [&](State&) {
    check_properties(*required(properties, "prop"));
    *required(granularity, "granularity") = kGranularity;
  });
}

CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t alignment, CUdeviceptr wished,
                             unsigned long long flags) {
  return run_driver_call("cuMemAddressReserve", Needs::device, [&](State&) {
    check_multiple(bytes, "size");
    if (bytes == 0 || flags != 0 || (alignment & (alignment - 1)) != 0) {
      throw ApiError(cudaErrorInvalidValue, "the size is at least 1, flags are 0, and an alignment is a power of two");
    }
    const uint64_t aligned = std::max<uint64_t>(alignment, kGranularity);
    const uint64_t first = find_free(bytes, aligned, wished);
    if (!machine::DeviceMemory::keep_addresses(first, bytes)) {
      throw ApiError(cudaErrorMemoryAllocation, fmt::format("the host has no {} bytes of address space left", bytes));
    }
    virtual_memory().reservations[first] = bytes;
    *required(address, "ptr") = first;
  });
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  return run_driver_call("cuMemAddressFree", Needs::device, [&](State&) {
    auto& memory = virtual_memory();
    const auto found = memory.reservations.find(address);
    if (found == memory.reservations.end() || found->second != bytes) {
      throw ApiError(cudaErrorInvalidValue,
                     fmt::format("{:#x} with {} bytes is not what cuMemAddressReserve gave", address, bytes));
    }
    const auto mapped = memory.mappings.lower_bound(address);
    if (mapped != memory.mappings.end() && mapped->first - address < bytes) {
      throw ApiError(cudaErrorInvalidValue, "something is still mapped there: call cuMemUnmap first");
    }
    machine::DeviceMemory::drop_addresses(address, bytes);
    memory.reservations.erase(found);
  });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* properties,
                     unsigned long long flags) {
  return run_driver_call("cuMemCreate", Needs::device, [&](State& state) {
    check_properties(*required(properties, "prop"));
    check_multiple(bytes, "size");
    if (bytes == 0 || flags != 0) {
      throw ApiError(cudaErrorInvalidValue, fmt::format("{} bytes with flags {}; flags are 0", bytes, flags));
    }
    const auto& memory = state.machine().memory();
    const FileSizeSignalHeldBack held_back;
    auto physical = std::make_shared<Physical>();
    physical->file = memfd_create("stagecraft device memory", MFD_CLOEXEC);
    if (bytes > memory.capacity() - memory.used() || physical->file < 0 ||
        ftruncate(physical->file, static_cast<off_t>(bytes)) != 0) {
      throw ApiError(
          cudaErrorMemoryAllocation,
          fmt::format("{} bytes do not fit: {} of the device's {} bytes are in use; free some, or ask for less", bytes,
                      memory.used(), memory.capacity()));
    }
    physical->bytes = bytes;
    physical->properties = *properties;
    *required(handle, "handle") = virtual_memory().next_handle++;
    virtual_memory().handles[*handle] = {std::move(physical), 1};
  });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return run_driver_call("cuMemRelease", Needs::device, [&](State&) {
    if (--require_handle(handle).references == 0) virtual_memory().handles.erase(handle);
  });
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  return run_driver_call("cuMemRetainAllocationHandle", Needs::device, [&](State&) {
    auto& memory = virtual_memory();
    const auto found = memory.mappings.find(reinterpret_cast<uint64_t>(address));
    if (found == memory.mappings.end()) {
      throw ApiError(cudaErrorInvalidValue, fmt::format("nothing is mapped at {}", fmt::ptr(address)));
    }
    Handle& known = memory.handles[found->second.handle];
    if (known.physical == nullptr) known = {found->second.physical, 0};
    ++known.references;
    *required(handle, "handle") = found->second.handle;
  });
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties, CUmemGenericAllocationHandle handle) {
  return run_driver_call("cuMemGetAllocationPropertiesFromHandle", Needs::device,
                         [&](State&) { *required(properties, "prop") = require_handle(handle).physical->properties; });
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  return run_driver_call("cuMemMap", Needs::device, [&](State&) {
    auto& memory = virtual_memory();
    const std::shared_ptr<Physical> physical = require_handle(handle).physical;
    check_multiple(bytes, "size");
    check_multiple(address, "address");
    if (flags != 0 || offset != 0 || bytes == 0 || bytes > physical->bytes) {
      throw ApiError(cudaErrorInvalidValue,
                     fmt::format("{} bytes from byte {} of {} with flags {}; offset and flags are 0", bytes, offset,
                                 physical->bytes, flags));
    }
    if (!is_reserved(address, bytes)) {
      throw ApiError(cudaErrorInvalidValue, fmt::format("the {} bytes at {:#x} are not reserved: call "
                                                        "cuMemAddressReserve first",
                                                        bytes, address));
    }
    const auto after = memory.mappings.upper_bound(address + bytes - 1);
    if (after != memory.mappings.begin() && std::prev(after)->first + std::prev(after)->second.bytes > address) {
      throw ApiError(cudaErrorInvalidValue,
                     fmt::format("something is mapped already from {:#x} on", std::prev(after)->first));
    }
    if (mmap(bytes_of(address), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, physical->file, 0) ==
        MAP_FAILED) {
      throw ApiError(cudaErrorMemoryAllocation, fmt::format("the host cannot map {} bytes", bytes));
    }
    memory.mappings[address] = {bytes, handle, physical};
  });
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  return run_driver_call("cuMemUnmap", Needs::device, [&](State& state) {
    for (const uint64_t each : mappings_of(address, bytes)) {
      auto& memory = virtual_memory();
      set_access(state, each, memory.mappings.at(each).bytes, CU_MEM_ACCESS_FLAGS_PROT_NONE);
      mmap(bytes_of(each), memory.mappings.at(each).bytes, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
      memory.mappings.erase(each);
    }
  });
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* descriptions, size_t count) {
  return run_driver_call("cuMemSetAccess", Needs::device, [&](State& state) {
    for (size_t index = 0; index < count; ++index) {
      const CUmemAccessDesc& wanted = required(descriptions, "desc")[index];
      check_device(wanted.location.id);
      mappings_of(address, bytes);
      set_access(state, address, bytes, wanted.flags);
    }
  });
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr address) {
  return run_driver_call("cuMemGetAccess", Needs::device, [&](State& state) {
    check_device(required(location, "location")->id);
    const auto* allocation = state.machine().memory().find(address);
    *required(flags, "flags") = allocation == nullptr             ? CU_MEM_ACCESS_FLAGS_PROT_NONE
                                : allocation->writable_by_kernels ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                                  : CU_MEM_ACCESS_FLAGS_PROT_READ;
  });
}

}  // extern "C"
