#include "emulator/runtime/model/memory_operations.hpp"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <utility>

#include "emulator/runtime/model/host_access.hpp"
#include "emulator/runtime/model/state.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// Rough speeds for the virtual clock: a PCIe link, and device memory.
constexpr double kHostBytesPerNanosecond = 50;
constexpr double kDeviceBytesPerNanosecond = 3000;
constexpr double kCopyNanoseconds = 1000;

uint64_t address_of(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

/// Bytes from the first of a box to past its last; nullopt when that overflows.
std::optional<uint64_t> span_of(Box box, Layout layout) {
  if (box.width == 0 || box.rows == 0 || box.depth == 0) return 0;
  uint64_t rows = 0, slices = 0, sum = 0;
  if (__builtin_mul_overflow(box.rows - 1, layout.pitch, &rows) ||
      __builtin_mul_overflow(box.depth - 1, layout.slice, &slices) || __builtin_add_overflow(rows, slices, &sum) ||
      __builtin_add_overflow(sum, box.width, &sum)) {
    return std::nullopt;
  }
  return sum;
}

bool is_host_accessible(const machine::Allocation* allocation) {
  return allocation == nullptr || machine::is_of_host(allocation->kind);
}

bool is_host_side(const machine::Allocation* allocation) {
  return allocation == nullptr || allocation->kind == machine::AllocationKind::pinned_host ||
         allocation->kind == machine::AllocationKind::registered_host;
}

enum class Side { host, device, either };

/// Throws unless `bytes` from `pointer` on are memory of this side. `what` is "destination" or "source".
void check_range(machine::DeviceMemory& memory, const void* pointer, uint64_t bytes, Side side, const char* what) {
  if (pointer == nullptr) {
    throw ApiError(cudaErrorInvalidValue, fmt::format("the {} of {} bytes is a null pointer", what, bytes));
  }
  const machine::Allocation* allocation = memory.find(address_of(pointer));
  if (allocation == nullptr) {
    if (side == Side::device) {
      throw ApiError(cudaErrorInvalidValue,
                     fmt::format("the {} {} is not device memory: {}; it must be in memory from cudaMalloc, and "
                                 "cudaMemcpyKind must fit the pointers",
                                 what, fmt::ptr(pointer), memory.describe(address_of(pointer))));
    }
    // Only what is within an allocation is memory, so that a stray copy cannot reach another one.
    for (const uint64_t each : {address_of(pointer), address_of(pointer) + (bytes - 1)}) {
      if (!memory.owns(each)) continue;
      throw ApiError(
          cudaErrorInvalidValue,
          fmt::format("the {}, {} bytes at {}, is or reaches memory of the device where no allocation is: {}", what,
                      bytes, fmt::ptr(pointer), memory.describe(each)));
    }
    if (!is_readable(pointer, bytes)) {
      throw ApiError(cudaErrorInvalidValue, fmt::format("the {}, {} bytes at {}, is no memory of the host program",
                                                        what, bytes, fmt::ptr(pointer)));
    }
    return;
  }
  if (side == Side::host && !is_host_accessible(allocation)) {
    throw ApiError(
        cudaErrorInvalidValue,
        fmt::format("the {} {} is device memory ({}), but the cudaMemcpyKind says host: swap the pointers or "
                    "change the kind",
                    what, fmt::ptr(pointer), allocation->label));
  }
  if (!allocation->contains(address_of(pointer), bytes)) {
    const uint64_t offset = address_of(pointer) - allocation->address;
    throw ApiError(
        cudaErrorInvalidValue,
        fmt::format("the {} leaves its allocation: {} bytes from byte {} of {}, which has {} bytes; at most {} "
                    "are legal",
                    what, bytes, offset, allocation->label, allocation->size, allocation->size - offset));
  }
}

/// As on an H200 (driver 580): a fill of one row may have any pitch, a copy of one row also none, and no row any.
void check_pitch(const char* what, uint64_t pitch, Box box, bool is_copy) {
  if (pitch >= box.width || box.rows == 0 || (box.rows == 1 && (pitch == 0 || !is_copy))) return;
  throw ApiError(is_copy && box.rows > 1 ? cudaErrorInvalidPitchValue : cudaErrorInvalidValue,
                 fmt::format("the {} pitch of {} bytes is less than the width of {} bytes", what, pitch, box.width));
}

/// The bytes of a range that is memory of the host or of the device.
std::byte* bytes_at(void* pointer) { return machine::DeviceMemory::host(address_of(pointer)); }
const std::byte* bytes_at(const void* pointer) { return machine::DeviceMemory::host(address_of(pointer)); }

/// Throws ApiError (cudaErrorMemoryAllocation) when the host has too little left for what the box touches.
void check_host_memory(machine::HostMemory& host, void* to, Layout layout, Box box, uint64_t span) {
  if (!host.must_look(box.width * box.rows * box.depth)) return;
  const std::byte* const begin = bytes_at(to);
  constexpr uint64_t kFarApart = 64 << 10;
  const bool is_dense = (box.rows == 1 || layout.pitch < box.width + kFarApart) &&
                        (box.depth == 1 || layout.slice < box.rows * layout.pitch + kFarApart);
  uint64_t absent = is_dense ? machine::absent_bytes(begin, span) : 0;
  for (uint64_t slice = 0; slice < box.depth && !is_dense; ++slice) {
    for (uint64_t row = 0; row < box.rows; ++row) {
      absent += machine::absent_bytes(begin + slice * layout.slice + row * layout.pitch, box.width);
    }
  }
  if (absent == 0 || absent <= host.room()) return;
  throw ApiError(cudaErrorMemoryAllocation,
                 fmt::format("the host has no memory for the {} bytes at {}: it can give {} more, and memory of the "
                             "emulated device costs memory of the host once it is written; use less of it, or a host "
                             "with more",
                             span, fmt::ptr(to), host.room()));
}

uint64_t checked_span(Box box, Layout layout, const char* what) {
  const auto span = span_of(box, layout);
  if (!span) {
    throw ApiError(cudaErrorInvalidValue,
                   fmt::format("the {} of {} x {} x {} bytes with a pitch of {} exceeds the address space", what,
                               box.width, box.rows, box.depth, layout.pitch));
  }
  return *span;
}

}  // namespace

std::string describe_lack(machine::DeviceMemory& memory, uint64_t bytes) {
  switch (memory.why_none()) {
    case machine::NoMemory::device: break;
    case machine::NoMemory::host:
      return fmt::format(
          "{} bytes do not fit: {} of the device's {} bytes are in use, but the host can give only {} more bytes of "
          "its memory; ask for less, or use a host with more",
          bytes, memory.used(), memory.capacity(), memory.host_memory().room());
    case machine::NoMemory::addresses:
      return fmt::format(
          "{} bytes do not fit: {} of the device's {} bytes are in use, but the host grants no more address space; "
          "raise its limit (ulimit -v), or ask for less",
          bytes, memory.used(), memory.capacity());
  }
  return fmt::format("{} bytes do not fit: {} of the device's {} bytes are in use; free some, or ask for less", bytes,
                     memory.used(), memory.capacity());
}

void* allocate(State& state, uint64_t bytes, machine::AllocationKind kind, const char* function) {
  if (bytes == 0) return nullptr;
  machine::DeviceMemory& memory = state.machine().memory();
  std::string label = fmt::format("{} #{}", function, state.memory.allocations + 1);
  // A process gets pages of the host that hold zeros, and many programs rely on that.
  const bool on_host = kind == machine::AllocationKind::managed || kind == machine::AllocationKind::pinned_host;
  const auto address =
      memory.allocate(bytes, kind, std::move(label), on_host ? machine::Fill::zero : machine::Fill::poison);
  if (!address) throw ApiError(cudaErrorMemoryAllocation, describe_lack(memory, bytes));
  ++state.memory.allocations;
  return reinterpret_cast<void*>(*address);
}

void release(State& state, void* pointer, bool host_memory) {
  if (pointer == nullptr) return;
  machine::DeviceMemory& memory = state.machine().memory();
  const machine::Allocation* allocation = memory.find(address_of(pointer));
  if (allocation == nullptr) {
    throw ApiError(cudaErrorInvalidValue, fmt::format("{} is no live allocation: {}; free what cudaMalloc gave, once",
                                                      fmt::ptr(pointer), memory.describe(address_of(pointer))));
  }
  if (allocation->address != address_of(pointer)) {
    throw ApiError(cudaErrorInvalidValue,
                   fmt::format("{} is byte {} of {}; free the pointer to its start, {}", fmt::ptr(pointer),
                               address_of(pointer) - allocation->address, allocation->label,
                               fmt::ptr(reinterpret_cast<void*>(allocation->address))));
  }
  const bool is_pinned = allocation->kind == machine::AllocationKind::pinned_host;
  const bool is_of_module = allocation->kind == machine::AllocationKind::module ||
                            allocation->kind == machine::AllocationKind::managed_variable ||
                            allocation->kind == machine::AllocationKind::parameters ||
                            allocation->kind == machine::AllocationKind::registered_host ||
                            allocation->kind == machine::AllocationKind::mapped;
  if (is_pinned != host_memory || is_of_module) {
    throw ApiError(cudaErrorInvalidValue,
                   fmt::format("{} ({}) is not for this function: cudaFree frees cudaMalloc, cudaMallocManaged and "
                               "cudaMallocAsync; cudaFreeHost frees cudaMallocHost and cudaHostAlloc",
                               fmt::ptr(pointer), allocation->label));
  }
  if (const auto graph = state.graphs.memory.find(address_of(pointer)); graph != state.graphs.memory.end()) {
    if (!std::exchange(graph->second->is_live, false)) {
      throw ApiError(cudaErrorInvalidValue,
                     fmt::format("{} is memory of a graph, which no launch has allocated since it was last freed",
                                 fmt::ptr(pointer)));
    }
    return;
  }
  memory.release(address_of(pointer));
  state.memory.freed(address_of(pointer));
}

void check_copy(machine::DeviceMemory& memory, void* to, Layout to_layout, const void* from, Layout from_layout,
                Box box, cudaMemcpyKind kind) {
  check_pitch("destination", to_layout.pitch, box, /*is_copy=*/true);
  check_pitch("source", from_layout.pitch, box, /*is_copy=*/true);
  Side to_side = Side::either, from_side = Side::either;
  switch (kind) {
    case cudaMemcpyHostToDevice:
      to_side = Side::device;
      from_side = Side::host;
      break;
    case cudaMemcpyDeviceToHost:
      to_side = Side::host;
      from_side = Side::device;
      break;
    case cudaMemcpyDeviceToDevice:
      to_side = Side::device;
      from_side = Side::device;
      break;
    // cudaMemcpyHostToHost accepts device memory as well (measured on an H200).
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault: break;
    default:
      throw ApiError(
          cudaErrorInvalidMemcpyDirection,
          fmt::format("cudaMemcpyKind is {}; legal are 0 (host to host) to 3 (device to device) and 4 (default)",
                      static_cast<int>(kind)));
  }
  const uint64_t to_bytes = checked_span(box, to_layout, "destination");
  const uint64_t from_bytes = checked_span(box, from_layout, "source");
  if (to_bytes == 0) return;
  check_range(memory, to, to_bytes, to_side, "destination");
  check_range(memory, from, from_bytes, from_side, "source");
}

Cost copy_box(machine::DeviceMemory& memory, void* to, Layout to_layout, const void* from, Layout from_layout, Box box,
              cudaMemcpyKind kind) {
  check_copy(memory, to, to_layout, from, from_layout, box, kind);
  if (box.width == 0 || box.rows == 0 || box.depth == 0) return {};
  check_host_memory(memory.host_memory(), to, to_layout, box, *span_of(box, to_layout));
  std::byte* const to_byte = bytes_at(to);
  const std::byte* const from_byte = bytes_at(from);
  for (uint64_t slice = 0; slice < box.depth; ++slice) {
    for (uint64_t row = 0; row < box.rows; ++row) {
      std::memmove(to_byte + slice * to_layout.slice + row * to_layout.pitch,
                   from_byte + slice * from_layout.slice + row * from_layout.pitch, box.width);
    }
  }
  const bool to_device = !is_host_side(memory.find(address_of(to)));
  const bool from_device = !is_host_side(memory.find(address_of(from)));
  const double bytes = static_cast<double>(box.width * box.rows * box.depth);
  if (to_device == from_device) return {Engine::compute, kCopyNanoseconds + bytes / kDeviceBytesPerNanosecond};
  return {to_device ? Engine::to_device : Engine::to_host, kCopyNanoseconds + bytes / kHostBytesPerNanosecond};
}

void note_nan(machine::DeviceMemory& memory, const void* from, Layout layout, Box box, CopiedNan& nan) {
  constexpr uint32_t kNan = 0x7fffffff, kHalves = 0x7fff7fff;  // as kernels make them: of f32, and of two of 16 bits
  CopiedNan found;
  const std::byte* const begin = bytes_at(from);
  for (uint64_t row = 0; row < box.rows * box.depth; ++row) {
    const uint64_t at = row / box.rows * layout.slice + row % box.rows * layout.pitch;
    for (uint64_t byte = 0; byte + sizeof(uint32_t) <= box.width; byte += sizeof(uint32_t)) {
      uint32_t word;
      std::memcpy(&word, begin + at + byte, sizeof word);
      if (word != kNan && word != kHalves && word != machine::kPoisonPattern) continue;
      if (found.count++ != 0) continue;
      found.first = at + byte;
      found.fresh = word == machine::kPoisonPattern;
    }
  }
  const machine::Allocation* const allocation = memory.find(address_of(from));
  if (found.count == 0 || allocation == nullptr) return;
  found.from = allocation->label;
  found.first += address_of(from) - allocation->address;
  nan = found;
}

void check_device_range(machine::DeviceMemory& memory, const void* pointer, uint64_t bytes, const char* what) {
  check_range(memory, pointer, bytes, Side::device, what);
}

void check_fill(machine::DeviceMemory& memory, void* to, Layout layout, Box box, uint32_t value_bytes) {
  check_pitch("destination", layout.pitch, box, /*is_copy=*/false);
  const uint64_t bytes = checked_span(box, layout, "destination");
  if (bytes == 0) return;
  check_range(memory, to, bytes, Side::device, "destination");
  if (value_bytes > 1 && (address_of(to) % value_bytes != 0 || (box.rows > 1 && layout.pitch % value_bytes != 0))) {
    throw ApiError(cudaErrorInvalidValue, fmt::format("the destination {} or its pitch is no multiple of {} bytes",
                                                      fmt::ptr(to), value_bytes));
  }
}

Cost fill_box(machine::DeviceMemory& memory, void* to, Layout layout, Box box, uint32_t value, uint32_t value_bytes) {
  check_fill(memory, to, layout, box, value_bytes);
  if (box.width == 0 || box.rows == 0 || box.depth == 0) return {};
  check_host_memory(memory.host_memory(), to, layout, box, *span_of(box, layout));
  std::byte* const to_byte = bytes_at(to);
  for (uint64_t slice = 0; slice < box.depth; ++slice) {
    for (uint64_t row = 0; row < box.rows; ++row) {
      std::byte* begin = to_byte + slice * layout.slice + row * layout.pitch;
      if (value_bytes == 1) {
        std::memset(begin, static_cast<int>(value & 0xff), box.width);
      } else {
        for (uint64_t at = 0; at < box.width; at += value_bytes) std::memcpy(begin + at, &value, value_bytes);
      }
    }
  }
  const double bytes = static_cast<double>(box.width * box.rows * box.depth);
  return {Engine::compute, kCopyNanoseconds + bytes / kDeviceBytesPerNanosecond};
}

void* symbol_range(State& state, const void* shadow, size_t offset, size_t bytes) {
  const Variable* variable = state.modules.find_variable(shadow);
  if (variable == nullptr) {
    throw ApiError(
        cudaErrorInvalidSymbol,
        fmt::format("{} is no __device__, __constant__ or __managed__ variable: pass the variable itself, not "
                    "a pointer to it",
                    fmt::ptr(shadow)));
  }
  const Symbol symbol = variable->module->symbol(variable->name, state.machine());
  if (offset > symbol.size || bytes > symbol.size - offset) {
    throw ApiError(cudaErrorInvalidValue, fmt::format("{} bytes from byte {} of variable {}, which has {} bytes", bytes,
                                                      offset, variable->name, symbol.size));
  }
  return reinterpret_cast<void*>(symbol.address + offset);
}

void describe_pointer(State& state, const void* pointer, cudaPointerAttributes& attributes) {
  attributes = {};
  attributes.type = cudaMemoryTypeUnregistered;
  attributes.device = -2;
  const machine::Allocation* allocation =
      state.machine_is_started() ? state.machine().memory().find(address_of(pointer)) : nullptr;
  void* address = const_cast<void*>(pointer);
  if (allocation != nullptr) {
    attributes.device = 0;
    attributes.devicePointer = address;
    switch (allocation->kind) {
      case machine::AllocationKind::managed:
      case machine::AllocationKind::managed_variable: attributes.type = cudaMemoryTypeManaged; break;
      case machine::AllocationKind::pinned_host:
      case machine::AllocationKind::registered_host: attributes.type = cudaMemoryTypeHost; break;
      default: attributes.type = cudaMemoryTypeDevice; break;
    }
    if (attributes.type != cudaMemoryTypeDevice) attributes.hostPointer = address;
    return;
  }
}

}  // namespace stagecraft::emulator::runtime
