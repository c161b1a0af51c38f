// Host side: describes a tensor in global memory, and the box of it that one copy moves, to the copy engine.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "stagecraft/element.hpp"
#include "stagecraft/swizzle.hpp"
#include "stagecraft/tile.hpp"

namespace stagecraft {

/// One dimension of a tensor map, innermost first.
struct TensorMapDimension {
  uint64_t extent = 1;     ///< elements, 1 to 2^32
  uint64_t stride = 0;     ///< bytes from one index to the next, a multiple of 16; of no meaning for the innermost
  uint32_t box = 1;        ///< indices that a box spans, 1 to 256
  uint32_t traversal = 1;  ///< take every so many of them, 1 to 8; of no meaning for the innermost
};

/// What reads beyond the tensor give.
enum class OutOfBounds : uint8_t { zero, nan };

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
inline PFN_cuTensorMapEncodeTiled_v12000 tensor_map_encoder() {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found);
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess || entry == nullptr) {
    throw std::runtime_error(std::string("the driver has no cuTensorMapEncodeTiled: tensor maps need a driver of CUDA "
                                         "12.0 or newer (") +
                             cudaGetErrorString(error) + ")");
  }
  return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(entry);
}

inline void require(bool holds, const std::string& otherwise) {
  if (!holds) throw std::invalid_argument("tensor map: " + otherwise);
}

}  // namespace detail

/// A tensor map: pass it to the kernel as `const __grid_constant__ CUtensorMap`.
///
/// @param address     device address of the first element, 16-byte aligned.
/// @param dimensions  1 to 5, innermost first.
/// @throws std::invalid_argument  naming the rule that the description breaks; std::runtime_error without a driver.
/// Source: CUDA driver API, "cuTensorMapEncodeTiled".
template <TileElement T>
CUtensorMap make_tensor_map(const T* address, const std::vector<TensorMapDimension>& dimensions,
                            Swizzle swizzle = Swizzle::none, OutOfBounds out_of_bounds = OutOfBounds::zero) {
  using detail::require;
  using std::to_string;
  require(dimensions.size() >= 1 && dimensions.size() <= 5,
          to_string(dimensions.size()) + " dimensions; the copy engine handles 1 to 5");
  require(reinterpret_cast<uintptr_t>(address) % 16 == 0, "the tensor does not start on a 16-byte boundary");

  std::vector<cuuint64_t> extents, strides;
  strides.reserve(4);  // the driver wants an array even for one dimension, which has no stride
  std::vector<cuuint32_t> box, traversal;
  for (size_t i = 0; i < dimensions.size(); ++i) {
    const TensorMapDimension& dimension = dimensions[i];
    const std::string where = "dimension " + to_string(i) + ": ";
    require(dimension.extent >= 1 && dimension.extent <= uint64_t{1} << 32,
            where + to_string(dimension.extent) + " elements; legal are 1 to 2^32");
    require(dimension.box >= 1 && dimension.box <= 256,
            where + "a box of " + to_string(dimension.box) + "; legal are 1 to 256");
    require(dimension.traversal >= 1 && dimension.traversal <= 8,
            where + "every " + to_string(dimension.traversal) + "th index; legal are 1 to 8");
    if (i > 0) {
      require(dimension.stride % 16 == 0 && dimension.stride < uint64_t{1} << 40,
              where + "a stride of " + to_string(dimension.stride) +
                  " bytes; it must be a multiple of 16 below 2^40. Pad the rows.");
      strides.push_back(dimension.stride);
    }
    extents.push_back(dimension.extent);
    box.push_back(dimension.box);
    traversal.push_back(dimension.traversal);
  }
  const size_t inner_bytes = size_t{box[0]} * element_bits<T> / 8;
  require(inner_bytes % 16 == 0,
          "a box row of " + to_string(inner_bytes) + " bytes; it must be a multiple of 16 bytes");
  require(swizzle == Swizzle::none || inner_bytes <= swizzle_span(swizzle),
          "a box row of " + to_string(inner_bytes) + " bytes does not fit in the " + to_string(swizzle_span(swizzle)) +
              " bytes that the swizzle permutes. Use a narrower box.");

  CUtensorMap map;
  const CUresult result = detail::tensor_map_encoder()(
      &map, detail::tensor_map_type<T>(), static_cast<cuuint32_t>(dimensions.size()), const_cast<T*>(address),
      extents.data(), strides.data(), box.data(), traversal.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
      static_cast<CUtensorMapSwizzle>(swizzle), CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
      out_of_bounds == OutOfBounds::nan ? CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
                                        : CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    std::string box_text;
    for (size_t i = 0; i < box.size(); ++i) box_text.append(i == 0 ? "" : " x ").append(to_string(box[i]));
    require(false, "the driver refuses boxes of " + box_text + " elements of " + to_string(element_bits<T>) +
                       " bits with CUresult " + to_string(static_cast<int>(result)));
  }
  return map;
}

// ---- From tiles ----------------------------------------------------------------------------------------------------

/// The type of the matrix elements from which a tile of `Element` is copied: float for tf32, else its own.
template <TileElement Element>
using matrix_element = std::conditional_t<std::is_same_v<Element, tf32>, float, Element>;

/// The tensor map by which `copy_tile` fills tiles of type `T` from a matrix: element type, box, swizzle and the order
/// of the dimensions are the tile's, so that what the tensor core then reads is what was meant. The map remembers the
/// tile, so that a kernel cannot copy another by it.
///
/// A matrix of a tile that is contiguous along K (Major::k) is row-major: rows x columns. One of a tile that is
/// contiguous along M or N (Major::mn) is column-major: its columns lie one after the other.
/// @param address        device address of element (0, 0), 16-byte aligned.
/// @param rows, columns  of the whole matrix, along M or N and along K. What a tile has beyond them reads as zero.
/// @param stride         bytes from one row (of Major::mn: column) to the next; 0 if there is no gap.
/// @throws as `make_tensor_map`.
template <typename T>
TileMap<T> make_tile_map(const matrix_element<typename T::element_type>* address, uint64_t rows, uint64_t columns,
                         uint64_t stride = 0, OutOfBounds out_of_bounds = OutOfBounds::zero) requires requires {
  T::num_boxes;
}
{
  using Element = typename T::element_type;
  const uint64_t contiguous = T::major == Major::k ? columns : rows;
  const uint64_t lines = T::major == Major::k ? rows : columns;
  return {
      make_tensor_map(reinterpret_cast<const Element*>(address),
                      {{.extent = contiguous, .box = T::box_elements},
                       {.extent = lines, .stride = stride != 0 ? stride : contiguous * T::bits / 8, .box = T::lines}},
                      T::swizzle, out_of_bounds)};
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
  detail::require(rows % 128 == 0 && blocks % 4 == 0,
                  "scale factors of " + std::to_string(rows) + " rows and " + std::to_string(blocks) +
                      " blocks; they come in atoms of 128 rows and 4 blocks. Pad them.");
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
