// Host side: describes a tensor in global memory, and the box of it that one copy moves, to TMA.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "stagecraft/element.hpp"
#include "stagecraft/errors.hpp"
#include "stagecraft/swizzle.hpp"
#include "stagecraft/tile.hpp"

namespace stagecraft {

/// The reason why a tensor map cannot be made: the rule that its description breaks, or what the driver lacks:
/// "tensor map: dimension 1: a stride of 68 bytes; it must be ..."
class TensorMapError : public FormattedError {
 public:
  /// Takes what printf takes.
  [[gnu::format(printf, 2, 3)]] explicit TensorMapError(const char* format, ...) {
    va_list values;
    va_start(values, format);
    append("tensor map: ");
    append(format, values);
    va_end(values);
  }
};

/// One dimension of a tensor map, innermost first.
struct TensorMapDimension {
  uint64_t extent = 1;     ///< elements, 1 to 2^32
  uint64_t stride = 0;     ///< bytes from one index to the next, a multiple of 16; ignored for the innermost
  uint32_t box = 1;        ///< indices that a box spans, 1 to 256
  uint32_t traversal = 1;  ///< distance between the indices that are taken, 1 to 8; ignored for the innermost
};

/// The values that reads beyond the tensor return.
enum class OutOfBounds : uint8_t { zero, nan };

/// How much around what it needs a copy asks the L2 cache to fetch. A hint.
enum class L2Promotion : uint8_t {
  none = CU_TENSOR_MAP_L2_PROMOTION_NONE,
  bytes_64 = CU_TENSOR_MAP_L2_PROMOTION_L2_64B,
  bytes_128 = CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
  bytes_256 = CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
};

namespace detail {

/// The driver's name for an element type. Eight-bit floats are bytes to it; tf32 it rounds on the way, to nearest.
template <TileElement T>
constexpr CUtensorMapDataType tensor_map_type() {
  if constexpr (is_one_of<T, uint16_t>) return CU_TENSOR_MAP_DATA_TYPE_UINT16;
  if constexpr (is_one_of<T, uint32_t>) return CU_TENSOR_MAP_DATA_TYPE_UINT32;
  if constexpr (is_one_of<T, int32_t>) return CU_TENSOR_MAP_DATA_TYPE_INT32;
  if constexpr (is_one_of<T, uint64_t>) return CU_TENSOR_MAP_DATA_TYPE_UINT64;
  if constexpr (is_one_of<T, int64_t>) return CU_TENSOR_MAP_DATA_TYPE_INT64;
  if constexpr (is_one_of<T, __half>) return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  if constexpr (is_one_of<T, __nv_bfloat16>) return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  if constexpr (is_one_of<T, float>) return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  if constexpr (is_one_of<T, tf32>) return CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
  if constexpr (is_one_of<T, double>) return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
  if constexpr (is_one_of<T, __nv_fp4_e2m1>) return CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B;
  return CU_TENSOR_MAP_DATA_TYPE_UINT8;  // uint8_t, int8_t, fp8 and scale factors
}

/// The driver's encoder, found through the runtime so that a program need not link the driver.
inline auto tensor_map_encoder() {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found);
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess || entry == nullptr) {
    throw TensorMapError("the driver has no cuTensorMapEncodeTiled, which those of CUDA 12.0 and newer have (%s)",
                         cudaGetErrorString(error));
  }
  return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry);
}

}  // namespace detail

/// A tensor map: pass it to the kernel as `const __grid_constant__ CUtensorMap`.
///
/// @param address     device address of the first element, 16-byte aligned.
/// @param dimensions  `rank` of them, 1 to 5, innermost first.
/// @throws TensorMapError  naming the rule that the description breaks, or without a driver.
/// Source: CUDA driver API, "cuTensorMapEncodeTiled".
template <TileElement T>
CUtensorMap make_tensor_map(const T* address, const TensorMapDimension* dimensions, size_t rank,
                            Swizzle swizzle = Swizzle::none, OutOfBounds out_of_bounds = OutOfBounds::zero,
                            L2Promotion promotion = L2Promotion::bytes_128) {
  if (rank < 1 || rank > 5) throw TensorMapError("%zu dimensions; TMA handles 1 to 5", rank);
  if (reinterpret_cast<uintptr_t>(address) % 16 != 0) {
    throw TensorMapError("the tensor does not start on a 16-byte boundary");
  }

  cuuint64_t extents[5], strides[4];
  cuuint32_t box[5], traversal[5];
  for (size_t i = 0; i < rank; ++i) {
    const TensorMapDimension& dimension = dimensions[i];
    extents[i] = dimension.extent;
    box[i] = dimension.box;
    traversal[i] = dimension.traversal;
    if (i > 0) strides[i - 1] = dimension.stride;

    if (dimension.extent < 1 || dimension.extent > uint64_t{1} << 32) {
      throw TensorMapError("dimension %zu: %llu elements; legal are 1 to 2^32", i,
                           static_cast<unsigned long long>(dimension.extent));
    }
    if (dimension.box < 1 || dimension.box > 256) {
      throw TensorMapError("dimension %zu: a box of %u; legal are 1 to 256", i, dimension.box);
    }
    if (dimension.traversal < 1 || dimension.traversal > 8) {
      throw TensorMapError("dimension %zu: every %uth index; legal are 1 to 8", i, dimension.traversal);
    }
    if (i > 0 && (dimension.stride % 16 != 0 || dimension.stride >= uint64_t{1} << 40)) {
      throw TensorMapError(
          "dimension %zu: a stride of %llu bytes; it must be a multiple of 16 below 2^40. Pad the rows.", i,
          static_cast<unsigned long long>(dimension.stride));
    }
  }
  const size_t inner_bytes = size_t{box[0]} * element_bits<T> / 8;
  if (inner_bytes % 16 != 0) {
    throw TensorMapError("a box row of %zu bytes; it must be a multiple of 16 bytes", inner_bytes);
  }
  if (swizzle != Swizzle::none && inner_bytes > swizzle_span(swizzle)) {
    throw TensorMapError(
        "a box row of %zu bytes does not fit in the %zu bytes that the swizzle permutes. Use a narrower box.",
        inner_bytes, size_t{swizzle_span(swizzle)});
  }

  CUtensorMap map;
  const CUresult result = detail::tensor_map_encoder()(
      &map, detail::tensor_map_type<T>(), static_cast<cuuint32_t>(rank), const_cast<T*>(address), extents, strides, box,
      traversal, CU_TENSOR_MAP_INTERLEAVE_NONE, static_cast<CUtensorMapSwizzle>(swizzle),
      static_cast<CUtensorMapL2promotion>(promotion),
      out_of_bounds == OutOfBounds::nan ? CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
                                        : CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw TensorMapError(
        "the driver refuses %zu dimensions, in boxes of %u elements of %u bits along the first, with CUresult %d", rank,
        box[0], unsigned{element_bits<T>}, static_cast<int>(result));
  }
  return map;
}

/// The same with the dimensions written out: `make_tensor_map(address, {columns, rows})`.
template <TileElement T>
CUtensorMap make_tensor_map(const T* address, std::initializer_list<TensorMapDimension> dimensions,
                            Swizzle swizzle = Swizzle::none, OutOfBounds out_of_bounds = OutOfBounds::zero,
                            L2Promotion promotion = L2Promotion::bytes_128) {
  return make_tensor_map(address, dimensions.begin(), dimensions.size(), swizzle, out_of_bounds, promotion);
}

// ---- From tiles -----------------------------------------------------------------------------------------------------

/// The type of the matrix elements from which a tile of `Element` is copied: float for tf32, else its own.
template <TileElement Element>
using matrix_element = std::conditional_t<std::is_same_v<Element, tf32>, float, Element>;

/// The tensor map by which `copy_tile` fills tiles of type `T` from a matrix: element type, box, swizzle and the order
/// of the dimensions are the tile's, so that the tensor core reads what was meant. The map's type names the tile, so
/// that a kernel cannot copy another tile by it.
///
/// The matrix is row-major (rows x columns) for a tile that is contiguous along K (Major::k), and column-major, with
/// one column after the other, for a tile that is contiguous along M or N (Major::mn).
/// @param address        device address of element (0, 0), 16-byte aligned.
/// @param rows, columns  of the whole matrix, along M or N and along K. Elements of a tile beyond them read as zero.
/// @param stride         bytes from one row (of Major::mn: column) to the next; 0 if there is no gap.
/// @tparam Slices        in which copies bring a tile; as for TileMap.
/// @throws as `make_tensor_map`.
template <typename T, int Slices = 1>
TileMap<T, Slices> make_tile_map(const matrix_element<typename T::element_type>* address, uint64_t rows,
                                 uint64_t columns, uint64_t stride = 0, OutOfBounds out_of_bounds = OutOfBounds::zero,
                                 L2Promotion promotion = L2Promotion::bytes_128) requires requires {
  T::num_boxes;
}
{
  static_assert(
      T::lines % (8 * Slices) == 0,
      "make_tile_map: the lines of a tile (its rows for Major::k, its columns for Major::mn) must divide into "
      "slices of a multiple of 8 lines. Share it among fewer blocks, or make it larger");
  using Element = typename T::element_type;
  const uint64_t contiguous = T::major == Major::k ? columns : rows;
  const uint64_t lines = T::major == Major::k ? rows : columns;
  return {make_tensor_map(
      reinterpret_cast<const Element*>(address),
      {{.extent = contiguous, .box = T::box_elements},
       {.extent = lines, .stride = stride != 0 ? stride : contiguous * T::bits / 8, .box = T::lines / Slices}},
      T::swizzle, out_of_bounds, promotion)};
}

/// The same for plain tiles, from a row-major matrix.
template <typename T>
TileMap<T> make_tile_map(const matrix_element<typename T::element_type>* address, uint64_t rows, uint64_t columns,
                         uint64_t stride = 0, OutOfBounds out_of_bounds = OutOfBounds::zero) requires
    std::is_same_v<T, PlainTile<typename T::element_type, T::rows, T::columns>> {
  using Element = typename T::element_type;
  return {make_tensor_map(
      reinterpret_cast<const Element*>(address),
      {{.extent = columns, .box = T::columns},
       {.extent = rows, .stride = stride != 0 ? stride : columns * element_bits<Element> / 8, .box = T::rows}},
      Swizzle::none, out_of_bounds)};
}

/// The same for scale factors, from a tensor of atoms of 512 bytes as ScaleFactorTile holds them: those along K one
/// after the other, then the next 128 rows.
/// @param rows, blocks  of the whole tensor: rows of the operand, and scale factors of each, padded to 128 and 4.
template <typename T>
TileMap<T> make_tile_map(const typename T::element_type* address, uint64_t rows, uint64_t blocks) requires
    std::is_same_v<T, ScaleFactorTile<typename T::element_type, T::rows, T::columns>> {
  if (rows % 128 != 0 || blocks % 4 != 0) {
    throw TensorMapError(
        "scale factors of %llu rows and %llu blocks; they come in atoms of 128 rows and 4 blocks. Pad them.",
        static_cast<unsigned long long>(rows), static_cast<unsigned long long>(blocks));
  }
  constexpr uint32_t kWords = T::bytes_per_atom / sizeof(uint16_t);  // a box cannot have 512 elements, but 256
  return {make_tensor_map(reinterpret_cast<const uint16_t*>(address),
                          {{.extent = kWords, .box = kWords},
                           {.extent = blocks / 4, .stride = T::bytes_per_atom, .box = T::columns / 4},
                           {.extent = rows / 128, .stride = blocks / 4 * T::bytes_per_atom, .box = T::rows / 128}})};
}

/// A tensor map of a row-major matrix whose copies each bring `box_rows` x `box_columns` elements.
///
/// Elements beyond the edge read as zero. Coordinates in the kernel are {column, row}.
template <typename T>
CUtensorMap make_matrix_map(const T* address, uint64_t rows, uint64_t columns, uint32_t box_rows, uint32_t box_columns,
                            Swizzle swizzle) {
  return make_tensor_map(
      address,
      {{.extent = columns, .box = box_columns}, {.extent = rows, .stride = columns * sizeof(T), .box = box_rows}},
      swizzle);
}

}  // namespace stagecraft
