// Allocating, copying and filling memory. Every range is checked against the allocation that holds it.
#pragma once

#include <cstdint>
#include <string>

#include "emulator/runtime/model/boxes.hpp"
#include "emulator/runtime/model/launch_history.hpp"
#include "emulator/runtime/model/streams.hpp"
#include "emulator/state/device_memory.hpp"

namespace stagecraft::emulator::runtime {

class State;

/// A sentence about an allocation of `bytes` that has just failed: what the device has, what the host has, what to try.
std::string describe_lack(machine::DeviceMemory& memory, uint64_t bytes);

/// Allocates memory with a label such as "cudaMalloc #3" for reports; returns null for 0 bytes, as CUDA does. Throws
/// ApiError (cudaErrorMemoryAllocation).
void* allocate(State& state, uint64_t bytes, machine::AllocationKind kind, const char* function);
/// Throws ApiError (cudaErrorInvalidValue) when `pointer` is not the start of a live allocation of one of the kinds.
void release(State& state, void* pointer, bool host_memory);

/// Throws ApiError: a bad kind, a pointer of the wrong side, a range that leaves its allocation.
void check_copy(machine::DeviceMemory& memory, void* to, Layout to_layout, const void* from, Layout from_layout,
                Box box, cudaMemcpyKind kind);
/// Notes which 32-bit words of a box that was copied to the host are NaN; if none are, `nan` stays.
void note_nan(machine::DeviceMemory& memory, const void* from, Layout layout, Box box, CopiedNan& nan);
/// Copies a box. Throws as check_copy.
Cost copy_box(machine::DeviceMemory& memory, void* to, Layout to_layout, const void* from, Layout from_layout, Box box,
              cudaMemcpyKind kind);

/// Throws ApiError for a range that is not device memory.
void check_fill(machine::DeviceMemory& memory, void* to, Layout layout, Box box, uint32_t value_bytes);
/// Fills a box with a value of 1, 2 or 4 bytes; widths count in bytes. Throws as check_fill.
Cost fill_box(machine::DeviceMemory& memory, void* to, Layout layout, Box box, uint32_t value,
              uint32_t value_bytes = 1);

/// Throws ApiError unless [pointer, pointer + bytes) is within one allocation that kernels can reach.
void check_device_range(machine::DeviceMemory& memory, const void* pointer, uint64_t bytes, const char* what);

/// The address `offset` bytes into a variable of the program. Throws ApiError when the range leaves the variable.
void* symbol_range(State& state, const void* shadow, size_t offset, size_t bytes);

void describe_pointer(State& state, const void* pointer, cudaPointerAttributes& attributes);

}  // namespace stagecraft::emulator::runtime
