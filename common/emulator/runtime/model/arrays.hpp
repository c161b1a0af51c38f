// CUDA arrays, which are texels in device memory (here row after row), and the objects that read and write them.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "emulator/runtime/model/boxes.hpp"
#include "emulator/runtime/model/cuda_headers.hpp"
#include "emulator/state/device_memory.hpp"
#include "emulator/state/texture_description.hpp"

namespace stagecraft::emulator::runtime {

class State;

struct Array {
  cudaChannelFormatDesc format{};
  cudaExtent extent{};  ///< in texels, as the program passed it: 0 for dimensions that the array does not have
  unsigned flags = 0;
  uint64_t data = 0;  ///< device address
  uint64_t texel_bytes = 0, pitch = 0, slice = 0;

  uint64_t rows() const { return extent.height == 0 ? 1 : extent.height; }
  uint64_t slices() const { return extent.depth == 0 ? 1 : extent.depth; }
};

/// What a texture or surface object was made of.
struct TextureObject {
  cudaResourceDesc resource{};
  cudaTextureDesc texture{};
};

/// Owner of all arrays, and of the texture and surface objects, whose handle is the address of their description.
class Arrays {
 public:
  /// Throws ApiError for a format or an extent that does not exist, and when memory does not suffice.
  Array& create(State& state, const cudaChannelFormatDesc& format, cudaExtent extent, unsigned flags);
  /// Throws ApiError (cudaErrorInvalidResourceHandle).
  Array& require(cudaArray_const_t handle);
  void destroy(machine::DeviceMemory& memory, cudaArray_t handle);

  uint64_t create_object(machine::DeviceMemory& memory, const machine::TextureDescription& description,
                         const TextureObject& made_of);
  /// Throws ApiError (cudaErrorInvalidValue).
  const TextureObject& require_object(uint64_t handle);
  void destroy_object(machine::DeviceMemory& memory, uint64_t handle);

  void reset();

 private:
  std::unordered_map<const void*, std::unique_ptr<Array>> arrays_;
  std::unordered_map<uint64_t, TextureObject> objects_;
};

/// Bytes of one channel and their number. Throws ApiError for a format that no texel can have.
void read_format(const cudaChannelFormatDesc& format, machine::TextureDescription& description);

/// One side of a copy: a place in an array, x in bytes.
struct ArrayPlace {
  void* pointer = nullptr;
  Layout layout;
};
/// Throws ApiError when the box leaves the array.
ArrayPlace place_in(const Array& array, cudaPos bytes, Box box);

}  // namespace stagecraft::emulator::runtime
