#include "emulator/runtime/model/arrays.hpp"

#include <fmt/format.h>

#include <cstring>

#include "emulator/runtime/model/memory_operations.hpp"
#include "emulator/runtime/model/state.hpp"

namespace stagecraft::emulator::runtime {
namespace {

constexpr uint64_t kLongestSide = 131072;  // of a texture on an H200 (device_attributes.cpp)

}  // namespace

void read_format(const cudaChannelFormatDesc& format, machine::TextureDescription& description) {
  const int bits[] = {format.x, format.y, format.z, format.w};
  uint8_t channels = 0;
  while (channels < 4 && bits[channels] != 0) ++channels;
  bool is_uniform = channels != 0 && channels != 3;
  for (uint8_t channel = 0; channel < 4; ++channel) {
    is_uniform &= bits[channel] == (channel < channels ? bits[0] : 0);
  }
  const bool is_float = format.f == cudaChannelFormatKindFloat;
  if (!is_uniform || (bits[0] != 8 && bits[0] != 16 && bits[0] != 32) || (is_float && bits[0] == 8) ||
      (!is_float && format.f != cudaChannelFormatKindSigned && format.f != cudaChannelFormatKindUnsigned)) {
    throw ApiError(
        cudaErrorInvalidChannelDescriptor,
        fmt::format("channels of {}, {}, {}, {} bits of kind {}; here are 1, 2 or 4 of 8, 16 or 32 bits, signed, "
                    "unsigned or floating-point (of 16 or 32)",
                    bits[0], bits[1], bits[2], bits[3], static_cast<int>(format.f)));
  }
  description.channels = channels;
  description.channel_bytes = static_cast<uint8_t>(bits[0] / 8);
  description.format = is_float                                  ? machine::TexelFormat::floating
                       : format.f == cudaChannelFormatKindSigned ? machine::TexelFormat::signed_integer
                                                                 : machine::TexelFormat::unsigned_integer;
}

Array& Arrays::create(State& state, const cudaChannelFormatDesc& format, cudaExtent extent, unsigned flags) {
  constexpr unsigned kLegal = cudaArrayLayered | cudaArraySurfaceLoadStore;
  if ((flags & ~kLegal) != 0) {
    throw ApiError(
        cudaErrorNotSupported,
        fmt::format("flags 0x{:x}: the emulated GPU has arrays of 1 to 3 dimensions, layered ones and those for "
                    "surfaces, but no cubemaps, gathering or sparse ones",
                    flags));
  }
  machine::TextureDescription description;
  read_format(format, description);
  if (extent.width == 0 || extent.width > kLongestSide || extent.height > kLongestSide || extent.depth > kLongestSide) {
    throw ApiError(cudaErrorInvalidValue, fmt::format("an array of {} by {} by {} texels; a side has 1 to {}",
                                                      extent.width, extent.height, extent.depth, kLongestSide));
  }
  auto made = std::make_unique<Array>();
  made->format = format;
  made->extent = extent;
  made->flags = flags;
  made->texel_bytes = uint64_t{description.channels} * description.channel_bytes;
  made->pitch = extent.width * made->texel_bytes;
  made->slice = made->pitch * made->rows();
  made->data = reinterpret_cast<uint64_t>(
      allocate(state, made->slice * made->slices(), machine::AllocationKind::device, "cudaMallocArray"));
  Array* key = made.get();
  return *arrays_.emplace(key, std::move(made)).first->second;
}

Array& Arrays::require(cudaArray_const_t handle) {
  const auto found = arrays_.find(handle);
  if (found == arrays_.end()) {
    throw ApiError(cudaErrorInvalidResourceHandle,
                   fmt::format("{} is no array: it was never created, or is already freed", fmt::ptr(handle)));
  }
  return *found->second;
}

void Arrays::destroy(machine::DeviceMemory& memory, cudaArray_t handle) {
  memory.release(require(handle).data);
  arrays_.erase(handle);
}

uint64_t Arrays::create_object(machine::DeviceMemory& memory, const machine::TextureDescription& description,
                               const TextureObject& made_of) {
  const auto handle =
      memory.allocate(sizeof description, machine::AllocationKind::parameters, "a texture or surface object");
  if (!handle) throw ApiError(cudaErrorMemoryAllocation, describe_lack(memory, sizeof description));
  std::memcpy(machine::DeviceMemory::host(*handle), &description, sizeof description);
  objects_[*handle] = made_of;
  return *handle;
}

const TextureObject& Arrays::require_object(uint64_t handle) {
  const auto found = objects_.find(handle);
  if (found == objects_.end()) {
    throw ApiError(cudaErrorInvalidValue, fmt::format("{:#x} is no texture or surface object", handle));
  }
  return found->second;
}

void Arrays::destroy_object(machine::DeviceMemory& memory, uint64_t handle) {
  require_object(handle);
  memory.release(handle);
  objects_.erase(handle);
}

void Arrays::reset() {
  arrays_.clear();
  objects_.clear();
}

ArrayPlace place_in(const Array& array, cudaPos bytes, Box box) {
  const auto fits = [](uint64_t from, uint64_t size, uint64_t all) { return from <= all && size <= all - from; };
  if (!fits(bytes.x, box.width, array.pitch) || !fits(bytes.y, box.rows, array.rows()) ||
      !fits(bytes.z, box.depth, array.slices())) {
    throw ApiError(
        cudaErrorInvalidValue,
        fmt::format("{} bytes by {} by {} from byte {}, row {}, slice {} leave the array of {} bytes by {} by {}",
                    box.width, box.rows, box.depth, bytes.x, bytes.y, bytes.z, array.pitch, array.rows(),
                    array.slices()));
  }
  return {reinterpret_cast<void*>(array.data + bytes.z * array.slice + bytes.y * array.pitch + bytes.x),
          {array.pitch, array.slice}};
}

}  // namespace stagecraft::emulator::runtime
