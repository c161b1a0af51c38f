// Tiles of a batch of matrices: tensor maps and copies with a third index, the number of the matrix, and stores, which
// go the other way. A copy ends at the edges of its own matrix, and never touches the next. One matrix is a batch of
// one.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cuda/ptx>

#include "stagecraft/mbarrier.hpp"
#include "stagecraft/tensor_map.hpp"
#include "stagecraft/tile.hpp"

namespace stagecraft {

/// The tensor map of a batch of matrices for copies of tiles of type `T`.
template <typename T>
struct BatchedTileMap {
  using tile_type = T;  ///< what it was made for
  CUtensorMap map;      ///< what TMA takes
};

/// The tensor map by which tiles of type `T` are copied from and to a batch of matrices, as `make_tile_map`. Copies
/// read zeros beyond the edges of a matrix, and write nothing there.
/// @param address        device address of element (0, 0) of the first matrix, 16-byte aligned.
/// @param rows, columns  of each matrix, along M or N and along K.
/// @param stride         bytes from one row (of Major::mn: column) to the next, a multiple of 16.
/// @param batches        matrices.
/// @param batch_stride   bytes from one matrix to the next, a multiple of 16.
/// @throws as `make_tensor_map`.
/// Source: CUDA driver API, "cuTensorMapEncodeTiled".
template <typename T>
BatchedTileMap<T> make_batched_tile_map(const matrix_element<typename T::element_type>* address, uint64_t rows,
                                        uint64_t columns, uint64_t stride, uint64_t batches, uint64_t batch_stride) {
  using Element = typename T::element_type;
  const bool k_major = T::major == Major::k;
  return {make_tensor_map(reinterpret_cast<const Element*>(address),
                          {{.extent = k_major ? columns : rows, .box = T::box_elements},
                           {.extent = k_major ? rows : columns, .stride = stride, .box = T::lines},
                           {.extent = batches, .stride = batch_stride, .box = 1}},
                          T::swizzle)};
}

namespace detail {

/// Calls `copy(offset of a box, {contiguous coordinate, other coordinate, batch})` for each box of a tile.
template <typename T, typename Copy>
__device__ __forceinline__ void for_each_batched_box(int row, int column, int batch, Copy copy) {
#pragma unroll
  for (int box = 0; box < T::num_boxes; ++box) {
    const int32_t contiguous = (T::major == Major::k ? column : row) + box * T::box_elements;
    const int32_t at[3] = {contiguous, T::major == Major::k ? row : column, batch};
    copy(box * T::bytes_per_box, at);
  }
}

}  // namespace detail

/// Asks for the tile of matrix number `batch` that starts at (row, column), and returns at once, as `copy_tile` without
/// a batch does. Called by one thread.
/// Source: PTX ISA, "cp.async.bulk.tensor".
template <typename T>
__device__ __forceinline__ void copy_tile(T& to, const BatchedTileMap<T>& map, int row, int column, int batch,
                                          MbarPtr barrier) {
  detail::for_each_batched_box<T>(row, column, batch, [&](uint32_t offset, const int32_t(&at)[3]) {
    cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global, to.storage + offset, &map.map,
                                    at, barrier);
  });
}

// ---- Stores ---------------------------------------------------------------------------------------------------------

/// Whether a store ends where rows of `columns` elements end. It is cut off at a multiple of 16 bytes: of shorter rows,
/// it overwrites up to 15 bytes of what follows each (measured on an H200): a gap, or the rest of a wider matrix.
template <typename Element>
constexpr bool stores_end_with_rows(uint64_t columns) {
  return columns * element_bits<Element> % 128 == 0;
}

/// Asks TMA to write a tile to matrix `batch`, from (row, column) on, and returns at once. What hangs over
/// an edge of the matrix is not written, but see `stores_end_with_rows()`.
///
/// Called by one thread, after `fence.proxy.async` in each thread that has written to the tile, and a barrier between
/// them and this one. The copy belongs to the thread's next `commit_stores()`.
/// Source: PTX ISA, "cp.async.bulk.tensor" (.bulk_group).
template <typename T>
__device__ __forceinline__ void store_tile(const BatchedTileMap<T>& map, int row, int column, int batch,
                                           const T& tile) {
  detail::for_each_batched_box<T>(row, column, batch, [&](uint32_t offset, const int32_t(&at)[3]) {
    cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_global, cuda::ptx::space_shared, &map.map, at,
                                    tile.storage + offset);
  });
}

/// Makes a group of the calling thread's stores since its last group. Source: PTX ISA, "cp.async.bulk.commit_group".
__device__ __forceinline__ void commit_stores() { cuda::ptx::cp_async_bulk_commit_group(); }

/// Waits until TMA has read the tiles of all but the last `Pending` groups of the calling thread: their
/// shared memory may be written again. Whether they have reached global memory is not known.
/// Source: PTX ISA, "cp.async.bulk.wait_group" (.read).
template <int Pending = 0>
__device__ __forceinline__ void wait_until_stores_are_read() {
  cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<Pending>{});
}

/// Waits until all but the last `Pending` groups of the calling thread are in global memory, where this thread sees
/// them. Source: PTX ISA, "cp.async.bulk.wait_group".
template <int Pending = 0>
__device__ __forceinline__ void wait_until_stores_are_done() {
  cuda::ptx::cp_async_bulk_wait_group(cuda::ptx::n32_t<Pending>{});
}

}  // namespace stagecraft
