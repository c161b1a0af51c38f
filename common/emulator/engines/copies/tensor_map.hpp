// The tensor map: the description of a tensor in global memory, and of the box that a bulk tensor copy moves.
//
// Real maps are opaque 128-byte objects (CUtensorMap). These have our own format, with a mark by which other bytes are
// recognised. The host encodes maps (cuTensorMapEncodeTiled, ...Im2col), and kernels may change those of boxes
// (tensormap.replace).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace stagecraft::emulator::machine {

/// Codes of CUtensorMapDataType.
enum class TensorElement : uint8_t {
  u8,
  u16,
  u32,
  s32,
  u64,
  s64,
  f16,
  f32,
  f64,
  bf16,
  f32_ftz,
  tf32,
  tf32_ftz,
  u4_packed,    ///< 16U4_ALIGN8B: 16 nibbles in 8 bytes, in global and in shared memory
  u4_unpacked,  ///< 16U4_ALIGN16B: 16 nibbles in 8 bytes of global memory; in shared memory 8 bytes follow unused
  u6_unpacked,  ///< 16U6_ALIGN16B: 16 elements in 12 bytes of global memory; in shared memory 4 bytes follow unused
};
inline constexpr int kTensorElements = 16;

/// Codes of CUtensorMapSwizzle.
enum class TensorSwizzle : uint8_t {
  none,
  span_32,
  span_64,
  span_128,
  span_128_atom_32,
  span_128_atom_32_flip_8,
  span_128_atom_64,
};
inline constexpr int kTensorSwizzles = 7;

enum class TensorInterleave : uint8_t { none, slices_16, slices_32 };
enum class TensorFill : uint8_t { zero, nan };

/// What a copy with the map moves: a box, or a column of pixels (PTX ISA, "im2col mode", "im2col::w modes").
enum class TensorMode : uint8_t {
  box,
  pixels,    ///< .im2col, .im2col_no_offs
  wide,      ///< .im2col::w
  wide_128,  ///< .im2col::w::128
};
inline constexpr int kTensorModes = 4;

const char* name_of(TensorElement element);  ///< "CU_TENSOR_MAP_DATA_TYPE_UINT8"
const char* name_of(TensorSwizzle swizzle);
/// Returns the function that encodes such maps: "cuTensorMapEncodeTiled".
const char* encoder_of(TensorMode mode);
/// Returns the size of an element in global memory, in bits.
uint32_t bits_of(TensorElement element);
bool is_floating(TensorElement element);
/// Whether 16 elements of less than a byte occupy 16 bytes of shared memory.
inline bool is_padded(TensorElement element) {
  return element == TensorElement::u4_unpacked || element == TensorElement::u6_unpacked;
}
/// Returns the bytes of one row of shared memory in a swizzle's pattern; 0 without a swizzle.
uint32_t span_of(TensorSwizzle swizzle);

inline constexpr int kTensorMaximumRank = 5;
inline constexpr uint64_t kTensorMapMark = 0x3150'414d'5453'4753;  // "SGSTMAP1"

/// The 128 bytes. CUTLASS clears bit 21 of the second 64-bit word of what a driver up to 13.1 encodes for a tensor
/// below 128 KiB (cute/atom/copy_traits_sm90_tma.hpp), so that bit must stay unused. The type is not declared aligned,
/// because copies need not be. A map that the driver fills in or that a kernel uses must be aligned to 64 bytes.
struct TensorMap {
  uint64_t address = 0;  ///< of the element with coordinates 0, in global memory
  uint8_t rank = 0;
  TensorElement element = TensorElement::u8;
  uint8_t cleared = 0;  ///< see above
  TensorInterleave interleave = TensorInterleave::none;
  TensorSwizzle swizzle = TensorSwizzle::none;
  TensorFill fill = TensorFill::zero;
  uint8_t promotion = 0;  ///< of reads to larger L2 sectors; a hint without effect
  uint8_t reserved = 0;
  std::array<uint64_t, 4> strides{};         ///< bytes from one element of dimension i + 1 to the next
  std::array<uint32_t, 5> last_index{};      ///< elements of dimension i, minus 1
  std::array<uint16_t, 5> box{};             ///< elements of the box; of pixels only [0], the channels
  uint16_t unset = 0;                        ///< of a map that began blank: a set of `field_bit`s, not yet replaced
  std::array<uint8_t, 5> element_strides{};  ///< n: every n-th element of the box is copied
  TensorMode mode = TensorMode::box;
  std::array<int16_t, 3> lower{}, upper{};  ///< corners of the box that pixels are within, of W, H and D
  uint16_t pixels = 0;                      ///< of a column
  std::array<uint8_t, 20> more_reserved{};
  uint64_t mark = 0;

  uint64_t extent(int dimension) const { return uint64_t{last_index[dimension]} + 1; }
  /// The dimensions that pixels of a column have corners for. The last dimension, N, has none, and channels neither.
  int corners() const { return mode == TensorMode::pixels ? rank - 2 : mode == TensorMode::box ? 0 : 1; }
};
static_assert(sizeof(TensorMap) == 128 && offsetof(TensorMap, cleared) == 10);

/// The fields without which a map says nothing; those of several dimensions begin with that of dimension 0.
enum class TensorMapField : uint8_t { global_address = 0, rank = 1, box_dim = 2, global_dim = 7, global_stride = 12 };
/// The field's bit in TensorMap::unset.
constexpr uint16_t field_bit(TensorMapField field, int dimension = 0) {
  return static_cast<uint16_t>(1u << (static_cast<int>(field) + dimension));
}

/// Returns what 128 bytes of zeros are for tensormap.replace: a map whose fields of TensorMapField are yet to be set.
/// The others are as an H100 takes such a map (driver 580, 2026-11-22): bytes, no interleave, no swizzle, zeros outside
/// of the tensor, element strides of 1. It took the missing ones as well, some as an extent of 1, some as a fault.
TensorMap blank_tensor_map();

/// Codes as the CUDA driver returns them.
inline constexpr int kEncodeSuccess = 0;
inline constexpr int kEncodeInvalidValue = 1;    ///< CUDA_ERROR_INVALID_VALUE
inline constexpr int kEncodeNotSupported = 801;  ///< CUDA_ERROR_NOT_SUPPORTED

struct EncodeResult {
  int code = kEncodeSuccess;
  std::string message;  ///< which argument breaks which rule; empty on success
};

/// Arguments of cuTensorMapEncodeTiled, enums as their integers; and of the others what they share with it.
struct TiledArguments {
  void* tensor_map = nullptr;
  int data_type = 0;
  uint32_t rank = 0;
  uint64_t global_address = 0;
  const uint64_t* global_dim = nullptr;
  const uint64_t* global_strides = nullptr;
  const uint32_t* box_dim = nullptr;
  const uint32_t* element_strides = nullptr;
  int interleave = 0;
  int swizzle = 0;
  int l2_promotion = 0;
  int oob_fill = 0;
};

/// Does what cuTensorMapEncodeTiled does. Checks what the driver checks; writes the map only on success.
/// @param compute_major  of the emulated chip: some element types and swizzles exist from 10 on.
EncodeResult encode_tiled(const TiledArguments& arguments, uint32_t compute_major = 10);

/// Arguments of cuTensorMapEncodeIm2col and cuTensorMapEncodeIm2colWide; `shared.box_dim` is not used.
struct Im2colArguments {
  TiledArguments shared;
  const int* lower_corner = nullptr;  ///< of W, H and D, in this order; of the wide ones, of W
  const int* upper_corner = nullptr;
  uint32_t channels_per_pixel = 0;
  uint32_t pixels_per_column = 0;
  TensorMode mode = TensorMode::pixels;
};

/// Does the same for cuTensorMapEncodeIm2col and cuTensorMapEncodeIm2colWide.
EncodeResult encode_im2col(const Im2colArguments& arguments, uint32_t compute_major = 10);

/// Returns what is wrong with a map that a kernel uses; empty when it is legal. `map` may be any 128 bytes.
std::string find_flaw(const TensorMap& map);

}  // namespace stagecraft::emulator::machine
