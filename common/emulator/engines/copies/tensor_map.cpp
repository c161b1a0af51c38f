#include "emulator/engines/copies/tensor_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace stagecraft::emulator::machine {

namespace {

constexpr const char* kElementNames[kTensorElements] = {
    "CU_TENSOR_MAP_DATA_TYPE_UINT8",         "CU_TENSOR_MAP_DATA_TYPE_UINT16",
    "CU_TENSOR_MAP_DATA_TYPE_UINT32",        "CU_TENSOR_MAP_DATA_TYPE_INT32",
    "CU_TENSOR_MAP_DATA_TYPE_UINT64",        "CU_TENSOR_MAP_DATA_TYPE_INT64",
    "CU_TENSOR_MAP_DATA_TYPE_FLOAT16",       "CU_TENSOR_MAP_DATA_TYPE_FLOAT32",
    "CU_TENSOR_MAP_DATA_TYPE_FLOAT64",       "CU_TENSOR_MAP_DATA_TYPE_BFLOAT16",
    "CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ",   "CU_TENSOR_MAP_DATA_TYPE_TFLOAT32",
    "CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ",  "CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B",
    "CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B", "CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B"};
constexpr uint8_t kElementBits[kTensorElements] = {8, 16, 32, 32, 64, 64, 16, 32, 64, 16, 32, 32, 32, 4, 4, 6};
constexpr const char* kSwizzleNames[kTensorSwizzles] = {
    "CU_TENSOR_MAP_SWIZZLE_NONE",          "CU_TENSOR_MAP_SWIZZLE_32B",
    "CU_TENSOR_MAP_SWIZZLE_64B",           "CU_TENSOR_MAP_SWIZZLE_128B",
    "CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B", "CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B",
    "CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B"};
constexpr uint8_t kSpans[kTensorSwizzles] = {0, 32, 64, 128, 128, 128, 128};

constexpr const char* kEncoders[kTensorModes] = {"cuTensorMapEncodeTiled", "cuTensorMapEncodeIm2col",
                                                 "cuTensorMapEncodeIm2colWide", "cuTensorMapEncodeIm2colWide"};

constexpr uint64_t kStrideLimit = uint64_t{1} << 40;
constexpr uint64_t kExtentLimit = uint64_t{1} << 32;

/// Returns the rule that a map of pixels breaks beside those of boxes, or an empty string.
std::string broken_rule_of_pixels(const TensorMap& map) {
  if (map.rank < 3) return fmt::format("tensorRank is {}; im2col needs 3, 4 or 5", map.rank);
  if (map.pixels < 1 || map.pixels > 1024) {
    return fmt::format("pixelsPerColumn is {}; legal are 1 to 1024", map.pixels);
  }
  for (int i = 0; i < map.corners(); ++i) {
    // The corners of all dimensions share 16 bits, 8 or 5 for each.
    const int most = map.mode != TensorMode::pixels || map.rank == 3 ? 32767 : map.rank == 4 ? 127 : 15;
    for (const auto& [name, corner] : {std::pair("Lower", map.lower[i]), std::pair("Upper", map.upper[i])}) {
      if (corner >= -most - 1 && corner <= most) continue;
      return fmt::format("pixelBox{}Corner of {} is {}; with rank {} legal are {} to {}", name, "WHD"[i], corner,
                         map.rank, -most - 1, most);
    }
    const int64_t size = static_cast<int64_t>(map.extent(i + 1)) + map.upper[i] - map.lower[i];
    if (size < 1) {
      return fmt::format("the box of the pixels has a size of {} in {}: {} elements, lower corner {}, upper corner {}",
                         size, "WHD"[i], map.extent(i + 1), map.lower[i], map.upper[i]);
    }
  }
  const bool wide = map.mode != TensorMode::pixels;
  if (wide && map.swizzle != TensorSwizzle::span_64 && map.swizzle != TensorSwizzle::span_128 &&
      map.swizzle != TensorSwizzle::span_128_atom_32) {
    return fmt::format("swizzle is {}; this mode has 64B, 128B and 128B_ATOM_32B", name_of(map.swizzle));
  }
  return {};
}

/// Returns the rule between fields of a map that is broken, or an empty string. The map's codes must be in range. Names
/// are those of the arguments of the function that encodes it.
std::string broken_rule(const TensorMap& map) {
  const bool padded = is_padded(map.element);
  const bool slices_32 = map.interleave == TensorInterleave::slices_32;
  const uint64_t alignment = slices_32 || padded ? 32 : 16;
  const char* why = slices_32 ? " with CU_TENSOR_MAP_INTERLEAVE_32B" : padded ? " for this data type" : "";

  if (map.rank < 1 || map.rank > kTensorMaximumRank) {
    return fmt::format("tensorRank is {}; legal are 1 to {}", map.rank, kTensorMaximumRank);
  }
  if (map.interleave != TensorInterleave::none && map.rank < 3) {
    return fmt::format("tensorRank is {}, but an interleaved layout needs at least 3", map.rank);
  }
  if (map.address % alignment != 0) {
    return fmt::format("globalAddress 0x{:x} is not a multiple of {}{}", map.address, alignment, why);
  }
  if (padded && map.extent(0) % 128 != 0) {
    return fmt::format("globalDim[0] is {}; for {} it must be a multiple of 128", map.extent(0), name_of(map.element));
  }
  if (map.element == TensorElement::u4_packed && map.extent(0) % 2 != 0) {
    return fmt::format("globalDim[0] is {}; for {} it must be even", map.extent(0), name_of(map.element));
  }
  for (int i = 0; i + 1 < map.rank; ++i) {
    if (map.strides[i] % alignment != 0) {
      return fmt::format("globalStrides[{}] is {} bytes, not a multiple of {}{}: pad the rows of the tensor", i,
                         map.strides[i], alignment, why);
    }
    if (map.strides[i] >= kStrideLimit) {
      return fmt::format("globalStrides[{}] is {} bytes; it must be less than 2^40", i, map.strides[i]);
    }
  }
  const bool is_box = map.mode == TensorMode::box;
  const char* const inner_name = is_box ? "boxDim[0]" : "channelsPerPixel";
  for (int i = 0; i < map.rank; ++i) {
    if ((is_box || i == 0) && (map.box[i] < 1 || map.box[i] > 256)) {
      return fmt::format("{} is {}; legal are 1 to 256", i == 0 ? inner_name : fmt::format("boxDim[{}]", i),
                         map.box[i]);
    }
    if (map.element_strides[i] < 1 || map.element_strides[i] > 8) {
      return fmt::format("elementStrides[{}] is {}; legal are 1 to 8", i, map.element_strides[i]);
    }
  }
  if (padded && map.box[0] != 128) {
    return fmt::format("{} is {}; for {} it must be 128", inner_name, map.box[0], name_of(map.element));
  }
  const uint32_t inner = map.box[0] * bits_of(map.element) / 8;
  const uint32_t inner_shared = padded ? 128 : inner;  // bytes of the row in shared memory
  if (map.interleave == TensorInterleave::none) {
    if (map.box[0] * bits_of(map.element) % 128 != 0) {
      return fmt::format(
          "{} = {} elements of {} bits are {} bytes; without interleave the inner box must be a multiple of 16 bytes",
          inner_name, map.box[0], bits_of(map.element), inner);
    }
    if (const uint32_t span = span_of(map.swizzle); span != 0 && inner_shared > span) {
      return fmt::format("{} = {} elements are {} bytes, but {} allows an inner box of at most {} bytes", inner_name,
                         map.box[0], inner_shared, name_of(map.swizzle), span);
    }
  }
  if (slices_32 && map.swizzle != TensorSwizzle::span_32) {
    return fmt::format("interleave is CU_TENSOR_MAP_INTERLEAVE_32B, which needs CU_TENSOR_MAP_SWIZZLE_32B, not {}",
                       name_of(map.swizzle));
  }
  if (padded) {
    const bool legal = map.swizzle == TensorSwizzle::none || map.swizzle == TensorSwizzle::span_128 ||
                       map.swizzle == TensorSwizzle::span_128_atom_32 ||
                       (map.swizzle == TensorSwizzle::span_128_atom_64 && map.element == TensorElement::u6_unpacked);
    if (!legal) return fmt::format("swizzle is {}, which {} cannot have", name_of(map.swizzle), name_of(map.element));
    if (map.interleave != TensorInterleave::none) {
      return fmt::format("interleave must be CU_TENSOR_MAP_INTERLEAVE_NONE for {}", name_of(map.element));
    }
  }
  if (map.fill == TensorFill::nan && !is_floating(map.element)) {
    return fmt::format(
        "oobFill is CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA, which needs a floating-point data type, not {}",
        name_of(map.element));
  }
  return is_box ? std::string() : broken_rule_of_pixels(map);
}

/// Names the fields that a map needs and that were never set; empty when there are none.
std::string unset_fields(const TensorMap& map) {
  std::string names;
  const auto look_at = [&](TensorMapField field, int dimension, std::string name) {
    if ((map.unset & field_bit(field, dimension)) != 0) names += (names.empty() ? "" : ", ") + std::move(name);
  };
  look_at(TensorMapField::global_address, 0, "global_address");
  look_at(TensorMapField::rank, 0, "rank");
  for (int i = 0; i < map.rank; ++i) {
    look_at(TensorMapField::box_dim, i, fmt::format("box_dim {}", i));
    look_at(TensorMapField::global_dim, i, fmt::format("global_dim {}", i));
    if (i + 1 < map.rank) look_at(TensorMapField::global_stride, i, fmt::format("global_stride {}", i));
  }
  return names;
}

bool needs_blackwell(TensorElement element) { return element >= TensorElement::u4_packed; }
bool needs_blackwell(TensorSwizzle swizzle) { return swizzle >= TensorSwizzle::span_128_atom_32; }

}  // namespace

const char* name_of(TensorElement element) { return kElementNames[static_cast<int>(element)]; }
const char* encoder_of(TensorMode mode) { return kEncoders[static_cast<int>(mode)]; }
const char* name_of(TensorSwizzle swizzle) { return kSwizzleNames[static_cast<int>(swizzle)]; }
uint32_t bits_of(TensorElement element) { return kElementBits[static_cast<int>(element)]; }
uint32_t span_of(TensorSwizzle swizzle) { return kSpans[static_cast<int>(swizzle)]; }

bool is_floating(TensorElement element) {
  switch (element) {
    case TensorElement::f16:
    case TensorElement::f32:
    case TensorElement::f64:
    case TensorElement::bf16:
    case TensorElement::f32_ftz:
    case TensorElement::tf32:
    case TensorElement::tf32_ftz: return true;
    default: return false;
  }
}

namespace {

EncodeResult refuse(std::string message) { return {kEncodeInvalidValue, std::move(message)}; }

/// Fills in and writes a map whose mode, and what is of that mode, the caller has set.
EncodeResult encode(const TiledArguments& arguments, TensorMap map, uint32_t compute_major) {
  const bool is_box = map.mode == TensorMode::box;
  const auto code_out_of_range = [&](const char* name, int value, int count) {
    return refuse(fmt::format("{} is {}; legal are 0 to {}", name, value, count - 1));
  };
  if (arguments.tensor_map == nullptr) return refuse("tensorMap is null");
  if (reinterpret_cast<uintptr_t>(arguments.tensor_map) % 64 != 0) {
    return refuse(fmt::format("tensorMap {} is not 64-byte aligned: declare it as a CUtensorMap, or with alignas(64)",
                              arguments.tensor_map));
  }
  if (arguments.data_type < 0 || arguments.data_type >= kTensorElements) {
    return code_out_of_range("tensorDataType", arguments.data_type, kTensorElements);
  }
  if (arguments.rank < 1 || arguments.rank > kTensorMaximumRank) {
    return refuse(fmt::format("tensorRank is {}; legal are 1 to {}", arguments.rank, kTensorMaximumRank));
  }
  if (arguments.interleave < 0 || arguments.interleave > 2) {
    return code_out_of_range("interleave", arguments.interleave, 3);
  }
  if (arguments.swizzle < 0 || arguments.swizzle >= kTensorSwizzles) {
    return code_out_of_range("swizzle", arguments.swizzle, kTensorSwizzles);
  }
  if (arguments.l2_promotion < 0 || arguments.l2_promotion > 3) {
    return code_out_of_range("l2Promotion", arguments.l2_promotion, 4);
  }
  if (arguments.oob_fill < 0 || arguments.oob_fill > 1) return code_out_of_range("oobFill", arguments.oob_fill, 2);
  if (arguments.global_dim == nullptr) return refuse("globalDim is null");
  if (arguments.global_strides == nullptr) {  // also for rank 1, as seen with driver 580
    return refuse(
        fmt::format("globalStrides is null; rank {} reads {} stride(s) of it, and the driver requires an array in "
                    "any case",
                    arguments.rank, arguments.rank - 1));
  }
  if (is_box && arguments.box_dim == nullptr) return refuse("boxDim is null");
  if (arguments.element_strides == nullptr) return refuse("elementStrides is null");

  map.mark = kTensorMapMark;
  map.address = arguments.global_address;
  map.rank = static_cast<uint8_t>(arguments.rank);
  map.element = static_cast<TensorElement>(arguments.data_type);
  map.interleave = static_cast<TensorInterleave>(arguments.interleave);
  map.swizzle = static_cast<TensorSwizzle>(arguments.swizzle);
  map.fill = static_cast<TensorFill>(arguments.oob_fill);
  map.promotion = static_cast<uint8_t>(arguments.l2_promotion);
  for (uint32_t i = 0; i < arguments.rank; ++i) {
    const uint64_t extent = arguments.global_dim[i];
    if (extent < 1 || extent > kExtentLimit) {
      return refuse(fmt::format("globalDim[{}] is {}; legal are 1 to 2^32 elements", i, extent));
    }
    map.last_index[i] = static_cast<uint32_t>(extent - 1);
    if (is_box) {
      if (arguments.box_dim[i] < 1 || arguments.box_dim[i] > 256) {
        return refuse(fmt::format("boxDim[{}] is {}; legal are 1 to 256", i, arguments.box_dim[i]));
      }
      map.box[i] = static_cast<uint16_t>(arguments.box_dim[i]);
    }
    uint32_t stride = arguments.element_strides[i];
    // The chip ignores the first one unless the layout is interleaved; of pixels the driver checks it, too.
    if (is_box && i == 0 && map.interleave == TensorInterleave::none && (stride < 1 || stride > 8)) stride = 1;
    if (stride < 1 || stride > 8) {
      return refuse(fmt::format("elementStrides[{}] is {}; legal are 1 to 8", i, stride));
    }
    map.element_strides[i] = static_cast<uint8_t>(stride);
    if (i + 1 < arguments.rank) map.strides[i] = arguments.global_strides[i];
  }
  if (compute_major < 10 && needs_blackwell(map.element)) {
    return refuse(fmt::format("tensorDataType {} exists from compute capability 10.0 on", name_of(map.element)));
  }
  if (compute_major < 10 && needs_blackwell(map.swizzle)) {
    return refuse(fmt::format("swizzle {} exists from compute capability 10.0 on", name_of(map.swizzle)));
  }
  if (std::string rule = broken_rule(map); !rule.empty()) return refuse(std::move(rule));
  if (map.interleave != TensorInterleave::none) {
    return {kEncodeNotSupported,
            "not implemented: interleaved layouts (interleave must be "
            "CU_TENSOR_MAP_INTERLEAVE_NONE on the emulated GPU)"};
  }
  std::memcpy(arguments.tensor_map, &map, sizeof map);
  return {};
}

}  // namespace

EncodeResult encode_tiled(const TiledArguments& arguments, uint32_t compute_major) {
  return encode(arguments, TensorMap{}, compute_major);
}

EncodeResult encode_im2col(const Im2colArguments& arguments, uint32_t compute_major) {
  TensorMap map;
  map.mode = arguments.mode;
  map.rank = static_cast<uint8_t>(std::clamp<uint32_t>(arguments.shared.rank, 3, 5));  // `encode` refuses others
  if (map.mode != TensorMode::pixels && compute_major < 10) return refuse("exists from compute capability 10.0 on");
  if (arguments.shared.rank < 3) {
    return refuse(fmt::format("tensorRank is {}; im2col needs 3, 4 or 5", arguments.shared.rank));
  }
  if (arguments.lower_corner == nullptr) return refuse("pixelBoxLowerCorner is null");
  if (arguments.upper_corner == nullptr) return refuse("pixelBoxUpperCorner is null");
  const auto cut = [](int corner) { return static_cast<int16_t>(std::clamp(corner, -32768, 32767)); };
  for (int i = 0; i < map.corners(); ++i) {
    const int lower = arguments.lower_corner[i], upper = arguments.upper_corner[i];
    if (lower != cut(lower) || upper != cut(upper)) {
      return refuse(fmt::format("pixelBox{}Corner[{}] is {}; legal are -32768 to 32767",
                                lower != cut(lower) ? "Lower" : "Upper", i, lower != cut(lower) ? lower : upper));
    }
    map.lower[i] = cut(lower);
    map.upper[i] = cut(upper);
  }
  map.box[0] = static_cast<uint16_t>(std::min<uint32_t>(arguments.channels_per_pixel, 0xffff));
  map.pixels = map.mode == TensorMode::wide_128
                   ? uint16_t{128}
                   : static_cast<uint16_t>(std::min<uint32_t>(arguments.pixels_per_column, 0xffff));
  return encode(arguments.shared, map, compute_major);
}

TensorMap blank_tensor_map() {
  TensorMap map;
  map.element_strides.fill(1);
  map.unset = 0xffff;
  map.mark = kTensorMapMark;
  return map;
}

std::string find_flaw(const TensorMap& map) {
  if (map.mark != kTensorMapMark) {
    return "these 128 bytes are no tensor map: were they filled in by cuTensorMapEncodeTiled, and does the kernel get "
           "the map as a `const __grid_constant__ CUtensorMap` parameter (or a pointer to a copy in device memory)?";
  }
  if (static_cast<int>(map.element) >= kTensorElements || static_cast<int>(map.swizzle) >= kTensorSwizzles ||
      static_cast<int>(map.interleave) > 2 || static_cast<int>(map.fill) > 1 ||
      static_cast<int>(map.mode) >= kTensorModes) {
    return "a field of the tensor map holds a code that does not exist";
  }
  if (const std::string names = unset_fields(map); !names.empty()) {
    return fmt::format(
        "the tensor map began as 128 bytes of zeros, and tensormap.replace has not set {}: a map of rank {} needs "
        "global_address, rank, and in each dimension box_dim, global_dim and, except in the last, global_stride",
        names, map.rank == 0 ? "n" : fmt::format("{}", map.rank));
  }
  if (map.interleave != TensorInterleave::none) return "not implemented: interleaved layouts";
  return broken_rule(map);
}

}  // namespace stagecraft::emulator::machine
