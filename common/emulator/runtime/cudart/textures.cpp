// The runtime API: texture and surface objects.
#include <fmt/format.h>

#include <algorithm>

#include "emulator/runtime/model/api_call.hpp"
#include "emulator/runtime/model/arrays.hpp"
#include "emulator/runtime/model/memory_operations.hpp"

namespace stagecraft::emulator::runtime {
namespace {

using machine::AddressMode;
using machine::TextureDescription;
using machine::TextureKind;

void describe_array(const Array& array, TextureDescription& description) {
  read_format(array.format, description);
  description.layered = (array.flags & cudaArrayLayered) != 0;
  description.dimensions = array.extent.height == 0 ? 1 : array.extent.depth == 0 || description.layered ? 2 : 3;
  description.width = static_cast<uint32_t>(array.extent.width);
  description.height = static_cast<uint32_t>(array.rows());
  description.depth = static_cast<uint32_t>(array.slices());
  description.data = array.data;
  description.pitch = array.pitch;
  description.slice = array.slice;
  description.bytes = array.slice * array.slices();
}

TextureDescription describe(State& state, const cudaResourceDesc& resource) {
  TextureDescription description;
  switch (resource.resType) {
    case cudaResourceTypeArray:
      describe_array(state.memory.arrays.require(resource.res.array.array), description);
      break;
    case cudaResourceTypeLinear: {
      const auto& linear = resource.res.linear;
      read_format(linear.desc, description);
      description.width =
          static_cast<uint32_t>(linear.sizeInBytes / (uint64_t{description.channels} * description.channel_bytes));
      description.data = reinterpret_cast<uint64_t>(linear.devPtr);
      description.bytes = linear.sizeInBytes;
      break;
    }
    case cudaResourceTypePitch2D: {
      const auto& pitched = resource.res.pitch2D;
      read_format(pitched.desc, description);
      description.dimensions = 2;
      description.width = static_cast<uint32_t>(pitched.width);
      description.height = static_cast<uint32_t>(pitched.height);
      description.data = reinterpret_cast<uint64_t>(pitched.devPtr);
      description.pitch = pitched.pitchInBytes;
      description.bytes = pitched.height == 0 ? 0
                                              : pitched.pitchInBytes * (pitched.height - 1) +
                                                    pitched.width * description.channels * description.channel_bytes;
      break;
    }
    default:
      throw ApiError(resource.resType == cudaResourceTypeMipmappedArray ? cudaErrorNotSupported : cudaErrorInvalidValue,
                     fmt::format("resources of type {}: the emulated GPU has textures of arrays (0), linear (2) and "
                                 "pitched memory (3), and no mipmaps",
                                 static_cast<int>(resource.resType)));
  }
  if (description.width == 0 || description.height == 0) {
    throw ApiError(cudaErrorInvalidValue, "the resource has no texels");
  }
  check_device_range(state.machine().memory(), reinterpret_cast<const void*>(description.data), description.bytes,
                     "resource");
  return description;
}

AddressMode address_mode(cudaTextureAddressMode mode, bool is_normalized) {
  switch (mode) {
    // CUDA programming guide: wrapping and mirroring are for normalised coordinates; others are clamped.
    case cudaAddressModeWrap: return is_normalized ? AddressMode::wrap : AddressMode::clamp;
    case cudaAddressModeMirror: return is_normalized ? AddressMode::mirror : AddressMode::clamp;
    case cudaAddressModeClamp: return AddressMode::clamp;
    case cudaAddressModeBorder: return AddressMode::border;
  }
  throw ApiError(cudaErrorInvalidValue, fmt::format("there is no address mode {}", static_cast<int>(mode)));
}

void apply(const cudaTextureDesc& how, TextureDescription& description) {
  const bool is_integer = description.format != machine::TexelFormat::floating;
  description.normalized = how.normalizedCoords != 0;
  description.linear = how.filterMode == cudaFilterModeLinear;
  description.as_float = is_integer && how.readMode == cudaReadModeNormalizedFloat;
  for (int dimension = 0; dimension < 3; ++dimension) {
    description.address_mode[dimension] = address_mode(how.addressMode[dimension], description.normalized);
  }
  std::copy_n(how.borderColor, 4, description.border);
  if (how.sRGB != 0) throw ApiError(cudaErrorNotSupported, "sRGB conversion is not supported by the emulated GPU");
  if (description.as_float && description.channel_bytes == 4) {
    throw ApiError(cudaErrorInvalidNormSetting,
                   "integers of 32 bits cannot be read as fractions, those of 8 and 16 can");
  }
  if (description.linear && is_integer && !description.as_float) {
    throw ApiError(
        cudaErrorInvalidFilterSetting,
        "linear filtering of integers; legal for floating-point texels and with cudaReadModeNormalizedFloat");
  }
}

template <typename Object>
cudaError_t destroy_object(const char* name, Object object) {
  return run_call(name, Needs::device, [&](State& state) {
    if (object != 0) state.memory.arrays.destroy_object(state.machine().memory(), object);
  });
}

}  // namespace
}  // namespace stagecraft::emulator::runtime

using namespace stagecraft::emulator::runtime;

extern "C" {

cudaError_t cudaCreateTextureObject(cudaTextureObject_t* object, const cudaResourceDesc* resource,
                                    const cudaTextureDesc* texture, const cudaResourceViewDesc* view) {
  return run_call("cudaCreateTextureObject", Needs::device, [&](State& state) {
    required(object, "pTexObject");
    if (view != nullptr) throw ApiError(cudaErrorNotSupported, "resource views are not supported by the emulated GPU");
    TextureDescription description = describe(state, *required(resource, "pResDesc"));
    apply(*required(texture, "pTexDesc"), description);
    *object = state.memory.arrays.create_object(state.machine().memory(), description, {*resource, *texture});
  });
}

cudaError_t cudaDestroyTextureObject(cudaTextureObject_t object) {
  return destroy_object("cudaDestroyTextureObject", object);
}

cudaError_t cudaGetTextureObjectResourceDesc(cudaResourceDesc* resource, cudaTextureObject_t object) {
  return run_call("cudaGetTextureObjectResourceDesc", Needs::device, [&](State& state) {
    *required(resource, "pResDesc") = state.memory.arrays.require_object(object).resource;
  });
}

cudaError_t cudaGetTextureObjectTextureDesc(cudaTextureDesc* texture, cudaTextureObject_t object) {
  return run_call("cudaGetTextureObjectTextureDesc", Needs::device, [&](State& state) {
    *required(texture, "pTexDesc") = state.memory.arrays.require_object(object).texture;
  });
}

cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t* object, const cudaResourceDesc* resource) {
  return run_call("cudaCreateSurfaceObject", Needs::device, [&](State& state) {
    required(object, "pSurfObject");
    if (required(resource, "pResDesc")->resType != cudaResourceTypeArray) {
      throw ApiError(cudaErrorInvalidValue, "a surface is made of an array");
    }
    if ((state.memory.arrays.require(resource->res.array.array).flags & cudaArraySurfaceLoadStore) == 0) {
      throw ApiError(cudaErrorInvalidValue, "the array was not made for surfaces: give cudaArraySurfaceLoadStore");
    }
    TextureDescription description = describe(state, *resource);
    description.kind = TextureKind::surface;
    *object = state.memory.arrays.create_object(state.machine().memory(), description, {*resource, {}});
  });
}

cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t object) {
  return destroy_object("cudaDestroySurfaceObject", object);
}

cudaError_t cudaGetSurfaceObjectResourceDesc(cudaResourceDesc* resource, cudaSurfaceObject_t object) {
  return run_call("cudaGetSurfaceObjectResourceDesc", Needs::device, [&](State& state) {
    *required(resource, "pResDesc") = state.memory.arrays.require_object(object).resource;
  });
}

}  // extern "C"
