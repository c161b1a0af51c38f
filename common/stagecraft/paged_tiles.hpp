// A cache of keys or values in pages, and copies of pages into tiles by TMA: a page table says where the tokens of a
// sequence are, a page at a time.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cuda/ptx>

#include "stagecraft/mbarrier.hpp"
#include "stagecraft/tensor_map.hpp"
#include "stagecraft/tile.hpp"

namespace stagecraft {

/// Where the tokens of a cache are: `[page][token][head][element]` and `[page][head][token][element]` differ only in
/// their strides.
struct PagedCacheLayout {
  uint64_t pages;         ///< of the whole cache
  uint64_t heads;         ///< that each token has
  uint64_t page_stride;   ///< bytes from one page to the next; all strides are multiples of 16
  uint64_t token_stride;  ///< bytes from one token of a page to the next
  uint64_t head_stride;   ///< bytes from one head of a token to the next
};

/// The tensor map by which pages are copied into tiles of type `T`, whose lines are the tokens.
/// @tparam PageTokens  tokens of a page: a multiple of the 8 lines after which a swizzle's pattern repeats, and a
///                     divisor of the tile's lines.
template <typename T, int PageTokens>
struct PagedTileMap {
  static_assert(PageTokens % 8 == 0 && T::lines % PageTokens == 0,
                "PagedTileMap: a tile must consist of whole pages, of a multiple of 8 tokens");
  using tile_type = T;                                      ///< what it was made for
  static constexpr int page_tokens = PageTokens;            ///< lines that one page fills
  static constexpr int tile_pages = T::lines / PageTokens;  ///< pages that fill a tile
  CUtensorMap map;                                          ///< what TMA takes
};

/// The tensor map of a cache for tiles of type `T`.
/// @param address  device address of the first element, 16-byte aligned.
/// @throws as `make_tensor_map`.
/// Source: CUDA driver API, "cuTensorMapEncodeTiled".
template <typename T, int PageTokens>
PagedTileMap<T, PageTokens> make_paged_tile_map(const typename T::element_type* address,
                                                const PagedCacheLayout& layout) {
  return {make_tensor_map(address,
                          {{.extent = T::contiguous, .box = T::box_elements},
                           {.extent = PageTokens, .stride = layout.token_stride, .box = PageTokens},
                           {.extent = layout.heads, .stride = layout.head_stride, .box = 1},
                           {.extent = layout.pages, .stride = layout.page_stride, .box = 1}},
                          T::swizzle)};
}

/// Asks for one page of one head, which fills the lines from `part * PageTokens` on of a tile, and returns at once.
///
/// Called by one thread. The bytes count at `barrier` as those of `copy_tile` do: `T::bytes / tile_pages` for each
/// page.
/// @param page  of the cache. One that the cache does not have, such as its number of pages, brings zeros.
/// @param part  of the tile: 0 to `tile_pages` - 1.
/// Source: PTX ISA, "cp.async.bulk.tensor".
template <typename T, int PageTokens>
__device__ __forceinline__ void copy_page(T& to, const PagedTileMap<T, PageTokens>& map, int page, int head, int part,
                                          MbarPtr barrier) {
#pragma unroll
  for (int box = 0; box < T::num_boxes; ++box) {
    const int32_t at[4] = {box * T::box_elements, 0, head, page};
    cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global,
                                    to.storage + box * T::bytes_per_box + part * (T::bytes_per_box / map.tile_pages),
                                    &map.map, at, barrier);
  }
}

}  // namespace stagecraft
