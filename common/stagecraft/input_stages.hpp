// A group of tiles that is being filled, and one that is being multiplied, as handles that cannot be forgotten.
// InputTilePipeline::acquire_producer() and acquire_consumer() return them. Chapter 09 builds them.
#pragma once

#include <cstdint>
#include <type_traits>

#include "stagecraft/cluster.hpp"
#include "stagecraft/cluster_copy.hpp"
#include "stagecraft/cluster_shape.hpp"
#include "stagecraft/commit.hpp"
#include "stagecraft/linear_handle.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/tile_payload.hpp"

/// Defined nowhere: a program that could call one of these does not build, and its name says why.
extern "C" __device__ void InputProducerStage_is_dropped_without_release(int acquired_at_line);
/// Defined nowhere either.
extern "C" __device__ void InputProducerStage_is_used_after_release(int acquired_at_line);
/// Defined nowhere either.
extern "C" __device__ void InputConsumerStage_is_dropped_without_release(int acquired_at_line);
/// Defined nowhere either.
extern "C" __device__ void InputConsumerStage_is_used_after_release(int acquired_at_line);

namespace stagecraft {

namespace detail {

/// A tensor map, or one matrix of a batch, by which tiles of type `T` are copied in so many slices.
template <typename Map, typename T, int Slices>
concept maps_slices = std::is_same_v<typename Map::tile_type, T> && Map::slices == Slices;

}  // namespace detail

/// The group stage that the calling thread fills now: free since the handle was acquired, and the thread's until
/// `release()`.
///
/// Linear, as ProducerStage is: it moves but does not copy, and a path on which it is not released does not build.
/// @tparam Pipeline  an InputTilePipeline.
/// Source: chapters/09_input_tile_pipeline.
template <typename Pipeline>
class InputProducerStage {
 public:
  using Payload = typename Pipeline::Payload;  ///< what the stages hold
  using Cluster = typename Pipeline::Cluster;  ///< who shares the tiles

  /// Made by `acquire_producer()`, after its wait.
  /// @param acquired_at  the line to name in messages.
  __device__ __forceinline__ InputProducerStage(Pipeline& pipeline, SourceLine acquired_at)
      : held_(pipeline, pipeline.producer_stage(), acquired_at) {}

  /// The tiles of all stages. Called by any holder.
  __device__ __forceinline__ const Payload& payload() const { return held_.pipeline().payload(); }

  /// The group stage, 0 to one less than there are. Called by any holder.
  __device__ __forceinline__ uint32_t stage() const { return held_.index(); }

  /// The tiles of k-tile `k` of the group, 0 to k_group_size - 1: where the copies go. Called by any holder.
  __device__ __forceinline__ typename Payload::Tiles tile(int k = 0) const {
    return held_.pipeline().tile(held_.index(), k);
  }

  /// This block's full barrier of the group stage, for the copies to signal. Called by any holder.
  __device__ __forceinline__ MbarPtr mbar() const { return held_.pipeline().producer_mbar(held_.index()); }

  /// The same, by its name in Mojo.
  __device__ __forceinline__ MbarPtr barrier() const { return mbar(); }

  /// Announces `bytes` that the copies will bring to this block, and counts one arrival on the full barrier.
  ///
  /// Called by one thread of each block, before or after the copies; with a producer arrive count of 1, it is the
  /// arrival. The copies into both blocks of a pair signal the barrier of the leader: there it announces twice as many,
  /// and in the other block it does nothing.
  /// @param bytes  what all copies of the group, by whichever blocks, bring to this block together; by default the
  ///               bytes of all its tiles. Elements beyond an edge of the tensor count as well.
  __device__ __forceinline__ void expect_bytes(uint32_t bytes = Pipeline::bytes_per_stage) const {
    if constexpr (Cluster::cta_group == 1) {
      stagecraft::expect_bytes(mbar(), bytes);
    } else {
      if (Cluster::is_leader(block_rank())) stagecraft::expect_bytes(mbar(), Cluster::cta_group * bytes);
    }
  }

  /// Asks for the tile of A of a k-tile of the group: for this block's slice of it, if a row of blocks shares it.
  ///
  /// Called by one thread of each block.
  /// @tparam Hint        what the L2 cache is to do with it.
  /// @param map          made by `make_tile_map<Payload::ATile, Cluster::blocks_sharing_a>()`.
  /// @param row, column  of A, where this block's tile starts.
  /// @param k            the k-tile of the group, 0 to k_group_size - 1.
  template <L2Hint Hint = L2Hint::none, typename Map>
  __device__ __forceinline__ void load_a(const Map& map, int row, int column, int k = 0) const {
    static_assert(
        detail::maps_slices<Map, typename Payload::ATile, Cluster::blocks_sharing_a>,
        "load_a: the tensor map must be one of make_tile_map<Payload::ATile, Cluster::blocks_sharing_a>(): of "
        "this tile's type, in one slice for each block that shares it");
    const uint32_t rank = rank_in_cluster();
    copy_shared_tile<Hint>(tile(k).a, map, row, column, mbar(),
                           TileSharing<Cluster::cta_group, Cluster::blocks_sharing_a>{Cluster::slice_of_a(rank),
                                                                                      Cluster::sharing_a(rank)});
  }

  /// Asks for the tile of B of a k-tile of the group: for this block's slice of it, if a column of blocks shares it.
  ///
  /// Called by one thread of each block. Parameters as for `load_a`, with `Payload::BTile`,
  /// `Cluster::blocks_sharing_b`, and where this block's tile of B starts: in a pair, the half of the block.
  template <L2Hint Hint = L2Hint::none, typename Map>
  __device__ __forceinline__ void load_b(const Map& map, int row, int column, int k = 0) const {
    static_assert(
        detail::maps_slices<Map, typename Payload::BTile, Cluster::blocks_sharing_b>,
        "load_b: the tensor map must be one of make_tile_map<Payload::BTile, Cluster::blocks_sharing_b>(): of "
        "this tile's type, in one slice for each block that shares it");
    const uint32_t rank = rank_in_cluster();
    copy_shared_tile<Hint>(tile(k).b, map, row, column, mbar(),
                           TileSharing<Cluster::cta_group, Cluster::blocks_sharing_b>{Cluster::slice_of_b(rank),
                                                                                      Cluster::sharing_b(rank)});
  }

  /// Asks for a tile that this block shares with no other, such as scale factors.
  ///
  /// Called by one thread.
  /// @param to           one of `tile(k)`.
  /// @param map          of that tile's type.
  /// @param row, column  as for `copy_tile`.
  template <L2Hint Hint = L2Hint::none, typename T>
  __device__ __forceinline__ void load_own(T& to, const TileMap<T>& map, int row, int column) const {
    copy_shared_tile<Hint>(to, map, row, column, mbar(), TileSharing<Cluster::cta_group, 1>{});
  }

  /// Ends the handle: the producer goes on to its next group stage. It does not signal: the copies in flight do.
  ///
  /// Called by every producing thread. Waits for nothing and orders nothing.
  __device__ __forceinline__ void release() && { held_.let_go().producer_step(); }

  /// Not for a named handle: its release must be seen to end it.
  template <typename Never = void>
  __device__ void release() const& {
    static_assert(never_allowed<Never>,
                  "release() ends an InputProducerStage, so it consumes the handle: write "
                  "std::move(tiles).release()");
  }

 private:
  /// 0 where there is no cluster, so that nothing is read.
  __device__ __forceinline__ static uint32_t rank_in_cluster() {
    if constexpr (Cluster::blocks == 1) return 0;
    return block_rank();
  }

  struct Messages {
    static __device__ constexpr const char* name() { return "InputProducerStage"; }
    static __device__ __forceinline__ void is_dropped(int line) { InputProducerStage_is_dropped_without_release(line); }
    static __device__ __forceinline__ void is_used_after_exit(int line) {
      InputProducerStage_is_used_after_release(line);
    }
  };

  StageInHand<Pipeline, Messages> held_;
};

/// The group stage whose tiles the calling thread multiplies now: filled since the handle was acquired.
///
/// Linear, as InputProducerStage is. Its `release()` only steps: the tensor core frees the tiles when it has read them,
/// through the commit that the thread makes before. A consumer that reads the tiles itself arrives on `mbar()` instead.
/// @tparam Pipeline  an InputTilePipeline.
/// Source: chapters/09_input_tile_pipeline.
template <typename Pipeline>
class InputConsumerStage {
 public:
  using Payload = typename Pipeline::Payload;  ///< what the stages hold
  using Cluster = typename Pipeline::Cluster;  ///< who shares the tiles

  /// Made by `acquire_consumer()`, after its wait.
  /// @param acquired_at  the line to name in messages.
  __device__ __forceinline__ InputConsumerStage(Pipeline& pipeline, SourceLine acquired_at)
      : held_(pipeline, pipeline.consumer_stage(), acquired_at) {}

  /// The tiles of all stages. Called by any holder.
  __device__ __forceinline__ const Payload& payload() const { return held_.pipeline().payload(); }

  /// The group stage, 0 to one less than there are. Called by any holder.
  __device__ __forceinline__ uint32_t stage() const { return held_.index(); }

  /// The tiles of k-tile `k` of the group, 0 to k_group_size - 1. Called by any holder.
  __device__ __forceinline__ typename Payload::Tiles tile(int k = 0) const {
    return held_.pipeline().tile(held_.index(), k);
  }

  /// This block's empty barrier of the group stage: the MMAs that read its tiles must be committed to it, by
  /// `commit_mma()` or, without a cluster, by hand. Called by any holder.
  __device__ __forceinline__ MbarPtr mbar() const { return held_.pipeline().consumer_mbar(held_.index()); }

  /// Makes the tensor core free the group stage when the MMAs that the thread has issued are done, in all blocks that
  /// have brought some of it: they wait for that on their own empty barriers.
  ///
  /// Called by the one thread that issued the MMAs, after the last of them. Source: PTX ISA, "tcgen05.commit".
  __device__ __forceinline__ void commit_mma() const {
    if constexpr (Cluster::blocks == 1) {
      stagecraft::commit_mma(mbar());
    } else {
      commit_mma_to_blocks<Cluster::cta_group>(mbar(), Cluster::feeding(block_rank()));
    }
  }

  /// Ends the handle: the consumer goes on to its next group stage, and signals nothing.
  ///
  /// Called by every consuming thread, after the commit. Waits for nothing.
  //! [release]
  __device__ __forceinline__ void release() && { held_.let_go().consumer_step(); }
  //! [release]

  /// Not for a named handle: its release must be seen to end it.
  template <typename Never = void>
  __device__ void release() const& {
    static_assert(never_allowed<Never>,
                  "release() ends an InputConsumerStage, so it consumes the handle: write "
                  "std::move(tiles).release()");
  }

 private:
  struct Messages {
    static __device__ constexpr const char* name() { return "InputConsumerStage"; }
    static __device__ __forceinline__ void is_dropped(int line) { InputConsumerStage_is_dropped_without_release(line); }
    static __device__ __forceinline__ void is_used_after_exit(int line) {
      InputConsumerStage_is_used_after_release(line);
    }
  };

  StageInHand<Pipeline, Messages> held_;
};

}  // namespace stagecraft
