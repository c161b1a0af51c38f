// Operands of a batch of products, as the load role copies them: `stage.load_a(problem.a[batch], row, column)`.
#pragma once

#include <cstdint>

#include "stagecraft/cluster_copy.hpp"
#include "stagecraft/tensor_map.hpp"
#include "stagecraft/tile.hpp"

namespace stagecraft {

/// One matrix of a batch, for copies of tiles of type `T`.
template <typename T, int Slices>
struct OperandMatrix {
  using tile_type = T;                   ///< what the map was made for
  static constexpr int slices = Slices;  ///< in which a tile is copied
  const CUtensorMap& map;                ///< of the batch
  int batch;                             ///< which of its matrices
};

/// The tensor map of a batch of matrices for copies of tiles of type `T`, each in as many slices as blocks share it.
/// `make_operand_batch` makes it on the host.
template <typename T, int Slices>
struct OperandBatch {
  using tile_type = T;                   ///< what it was made for
  static constexpr int slices = Slices;  ///< in which a tile is copied
  CUtensorMap map;                       ///< what TMA takes

  /// Matrix number `batch`.
  __device__ __forceinline__ OperandMatrix<T, Slices> operator[](int batch) const { return {map, batch}; }
};

/// The tensor map of a batch of operands, as `make_batched_tile_map`.
template <typename T, int Slices>
OperandBatch<T, Slices> make_operand_batch(const matrix_element<typename T::element_type>* address, uint64_t rows,
                                           uint64_t columns, uint64_t stride, uint64_t batches, uint64_t batch_stride) {
  using Element = typename T::element_type;
  const bool k_major = T::major == Major::k;
  return {make_tensor_map(reinterpret_cast<const Element*>(address),
                          {{.extent = k_major ? columns : rows, .box = T::box_elements},
                           {.extent = k_major ? rows : columns, .stride = stride, .box = T::lines / Slices},
                           {.extent = batches, .stride = batch_stride, .box = 1}},
                          T::swizzle)};
}

/// `copy_shared_tile` from a matrix of a batch: the pipelines' `load_a` and `load_b` call it.
template <L2Hint Hint = L2Hint::none, typename T, int CtaGroup, int Slices>
__device__ __forceinline__ void copy_shared_tile(T& to, const OperandMatrix<T, Slices>& matrix, int row, int column,
                                                 MbarPtr barrier, TileSharing<CtaGroup, Slices> sharing) {
  const int first_line = static_cast<int>(sharing.slice) * (T::lines / Slices);
  const MbarPtr signalled = detail::signalled_barrier<CtaGroup>(barrier);
#pragma unroll
  for (int box = 0; box < T::num_boxes; ++box) {
    const int32_t at[3] = {(T::major == Major::k ? column : row) + box * T::box_elements,
                           (T::major == Major::k ? row : column) + first_line, matrix.batch};
    void* const place = to.storage + box * T::bytes_per_box + first_line * swizzle_span(T::swizzle);
    if constexpr (Slices == 1) {
      detail::copy_box<CtaGroup, Hint>(place, matrix.map, at, signalled);
    } else {
      detail::copy_box_to_blocks<CtaGroup, Hint>(place, matrix.map, at, signalled, sharing.blocks);
    }
  }
}

}  // namespace stagecraft
