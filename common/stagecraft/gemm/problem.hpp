// What one launch computes, as the kernel gets it.
#pragma once

#include <cstdint>
#include <type_traits>

#include "stagecraft/gemm/epilogue_choice.hpp"
#include "stagecraft/gemm/operand_batch.hpp"
#include "stagecraft/gemm/types.hpp"

namespace stagecraft {

/// The hardware's barrier by which the epilogue's warps meet; the whole block has number 0.
inline constexpr int kEpilogueBarrier = 1;

/// Device memory through which blocks add up the pieces of a tile.
struct GemmWorkspace {
  float* sums = nullptr;         ///< a place for each piece
  uint32_t* counters = nullptr;  ///< one for each divided tile, zero before the launch
};

namespace detail {

template <typename T>
struct MapOf {
  using type = typename T::Map;
};
template <>
struct MapOf<Absent> {
  using type = Absent;
};

}  // namespace detail

/// Scales of blockwise FP8.
template <typename Types>
struct BlockwiseScales {
  typename Types::AScales::Map a;  ///< of A's rows: a row for each k-tile, those of a batch one after the other
  const float* b;   ///< for each 128 rows of B: one for each k-tile, those of a batch one after the other
  int k_tiles;      ///< along all of K
  int blocks_of_b;  ///< of 128 rows, of one matrix of B
};

/// Scale factors of block-scaled operands: those of a batch one after the other, with so many padded rows each. Those
/// of contiguous groups of A have each as many padded rows as they need.
template <typename Types>
struct ScaleFactorMaps {
  TileMap<typename Types::SfaTile> a;  ///< scale factors of A
  TileMap<typename Types::SfbTile> b;  ///< scale factors of B
  int rows_of_a;                       ///< padded rows of one matrix of A
  int rows_of_b;                       ///< padded rows of one matrix of B
};

/// A and B, for copies by the blocks of a cluster of this shape.
template <typename Types, typename Cluster>
struct GemmOperandMaps {
  OperandBatch<typename Types::ATile, Cluster::blocks_sharing_a> a;  ///< A
  OperandBatch<typename Types::BTile, Cluster::blocks_sharing_b> b;  ///< B
};

/// The parameter of a GEMM kernel.
/// @tparam Types  GemmTypes of a configuration.
template <typename Types>
struct GemmParameters {
  using Cluster = typename Types::Cluster;  ///< the blocks that take a turn together

  /// The tensor map of D.
  using DMap = typename Types::Writer::Map;
  /// The second output, if the kernel has one: its tensor map, or where it is.
  using SecondMap = typename detail::MapOf<
      std::conditional_t<Types::has_second_output, typename Types::SecondOutput, detail::Absent>>::type;
  /// C, if the kernel adds it: its tensor map, or where it is.
  using CMap = std::conditional_t<
      Types::config.adds_c && !Types::loads_c, DirectMatrix<const typename Types::CElement>,
      typename detail::MapOf<std::conditional_t<Types::loads_c, typename Types::CInput, detail::Absent>>::type>;

  GemmOperandMaps<Types, Cluster> operands;  ///< A and B
  /// The same for smaller clusters, if there may be some.
  std::conditional_t<Types::has_fallback, GemmOperandMaps<Types, typename Types::Fallback>, detail::Absent> fallback;
  /// The scales of A and B.
  std::conditional_t<Types::is_scaled, ScaleFactorMaps<Types>,
                     std::conditional_t<Types::is_promoted, BlockwiseScales<Types>, detail::Absent>>
      scale_factors;
  DMap d_map;                          ///< D, where TMA can store it
  SecondMap second_map;                ///< what goes into the activation
  CMap c_map;                          ///< C
  typename Types::DElement* d;         ///< element (0, 0) of D's first matrix
  int64_t d_pitch = 0;                 ///< elements from one row of D to the next
  int64_t d_batch_stride = 0;          ///< elements from one matrix of D to the next
  bool has_d_map = false;              ///< D's rows begin on 16-byte boundaries
  int m = 1;                           ///< rows of the sums
  int n = 1;                           ///< columns of the sums
  typename Types::Tiles tiles;         ///< what there is to do
  GemmWorkspace workspace;             ///< where pieces are added up
  EpilogueArguments epilogue;          ///< what happens to the sums
  typename Types::DScaling d_scaling;  ///< where D's scale factors go
  /// Where factors are that are in device memory.
  std::conditional_t<Types::config.device_factors, DeviceFactors, detail::Absent> device_factors;

  /// Whether a turn has something to compute.
  __device__ __forceinline__ static constexpr bool has_work(const Work& work) {
    return !Types::has_empty_turns || work.k_tiles > 0;
  }

  /// A and B, as the blocks of this cluster copy them.
  template <typename Launched>
  __device__ __forceinline__ const GemmOperandMaps<Types, Launched>& operands_in() const {
    if constexpr (std::is_same_v<Launched, Cluster>) {
      return operands;
    } else {
      return fallback;
    }
  }

  /// Where the tile of a turn is.
  __device__ __forceinline__ TilePlace place_of(const Work& work) const {
    if constexpr (Types::config.groups) {
      TilePlace place = tiles.place_of(work);
      place.column = work.column * Types::config.tile_n;
      place.column_end = n;
      return place;
    }
    return {.row = work.row * Types::block_m,
            .column = work.column * Types::config.tile_n,
            .batch = work.batch,
            .row_end = m,
            .column_end = n};
  }

  /// Whether TMA stores a tile of D. It writes whole tiles, and would overwrite the next group's rows.
  __device__ __forceinline__ bool copies_d(const Work& work) const {
    if constexpr (Types::config.groups) {
      const TilePlace place = tiles.place_of(work);
      return has_d_map && place.row + Types::block_m <= place.row_end;
    }
    return has_d_map;
  }

  /// The first padded row of a tile's scale factors of A.
  __device__ __forceinline__ int scale_row_of_a(const Work& work) const {
    if constexpr (Types::config.groups) return tiles.scale_row_of(work, scale_factors.rows_of_a);
    return work.batch * scale_factors.rows_of_a + work.row * Types::block_m;
  }
};

}  // namespace stagecraft
