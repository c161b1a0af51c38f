// Attention of one query of each sequence to a long cache of keys and values, on Hopper: bound by the bytes of the
// cache. One warp brings tiles of keys and values, four multiply them. Blocks get equal shares of all tiles; where
// several have parts of an item, the last to deliver its part puts them together.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cuda/ptx>

#include "stagecraft/dependent_launch.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/mma_sync.hpp"
#include "stagecraft/packed_elements.hpp"
#include "stagecraft/partial_sums.hpp"
#include "stagecraft/pipeline_state.hpp"
#include "stagecraft/ptx.hpp"
#include "stagecraft/tile.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft {

/// What decoding works on. An *item* is a key head of a sequence, with the query heads that share it.
template <FragmentElement Element>
struct DecodingProblem {
  CUtensorMap keys, values;  ///< [pages, key heads, tokens of a page, HeadDim], innermost last
  const Element* queries;    ///< [sequences, heads, HeadDim]
  Element* out;              ///< [sequences, heads, HeadDim]
  float* logsumexp;          ///< [sequences, heads], natural; or null
  const int* lengths;        ///< keys of each sequence; or null, where all have `longest`
  const int* page_table;     ///< [sequences, pages_per_sequence]; or null, where page i is sequence i
  void* parts;               ///< two Decoding::Part for each block
  uint32_t* delivered;       ///< parts of each item; all 0 before a launch, and after it
  int sequences, heads, key_heads;
  int longest;      ///< no sequence has more keys
  int page_tokens;  ///< a multiple of `box_tokens`, if there is a page table
  int pages_per_sequence;
  int box_tokens;    ///< that a copy brings: a whole tile's, or what divides a page
  float scale_log2;  ///< of the scores, times log2(e)

  /// Query heads that share a key head.
  __host__ __device__ int group() const { return heads / key_heads; }
  __device__ int length(int sequence) const { return lengths == nullptr ? longest : lengths[sequence]; }
};

/// The types and sizes that follow from an element and the size of a head.
template <FragmentElement Element, int HeadDim>
struct Decoding {
  static_assert(HeadDim == 64 || HeadDim == 128, "Decoding: HeadDim must be 64 or 128");
  static constexpr int kKeys = 32 * 128 / HeadDim;  // of a tile: 16 KiB with their values
  static constexpr int kRows = 16;                  // of a product: the query heads of a group, at most
  static constexpr int kReaders = 4;                // warps that multiply, each with a ring of its own
  static constexpr int kStages = 3;                 // of each ring
  static constexpr int kThreads = (kReaders + 1) * kWarpSize;
  static constexpr int kReadingThreads = kReaders * kWarpSize;

  using CacheTile = Tile<Element, kKeys, HeadDim>;
  struct Stage {
    CacheTile keys, values;
  };
  struct Shared {
    Stage stages[kReaders][kStages];
    float sums[kReaders][kRows][HeadDim + 8];  // so far apart that rows start in different banks
    float maxima[kReaders][kRows], totals[kReaders][kRows];
    uint64_t full[kReaders][kStages], empty[kReaders][kStages];
    bool is_last;  // of the blocks that have a piece of an item, to deliver its part
  };
  static_assert(sizeof(Shared) <= kSharedBytesPerBlock, "Decoding: the stages do not fit in shared memory");

  /// What a block has of an item that others have parts of, too: sums of values, relative to 2^maximum.
  struct alignas(16) Part {
    float sums[kRows][HeadDim];
    float maxima[kRows], totals[kRows];
  };
};

// ---- Shares ---------------------------------------------------------------------------------------------------------

/// Tiles of an item of the sequence. Any thread.
template <int Keys, typename Problem>
__device__ __forceinline__ int tiles_of(const Problem& problem, int sequence) {
  return (problem.length(sequence) + Keys - 1) / Keys;
}

/// Tiles of all items: fewer than 2^31, which the host checks, since 64-bit divisions would delay the first copy.
/// Called by a whole warp.
template <int Keys, typename Problem>
__device__ __forceinline__ int tiles_of_all(const Problem& problem) {
  int tiles = 0;
  for (int sequence = static_cast<int>(lane_index()); sequence < problem.sequences; sequence += kWarpSize) {
    tiles += tiles_of<Keys>(problem, sequence);
  }
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
    tiles += __shfl_xor_sync(0xffffffff, tiles, distance);
  }
  return tiles * problem.key_heads;
}

/// What a block computes of an item.
struct DecodingPiece {
  int sequence, key_head;
  int first, end;           ///< tiles of the item
  int first_block, blocks;  ///< that have pieces of the item

  __device__ bool is_whole() const { return blocks == 1; }
};

/// The pieces of the calling block's share. Items follow each other by sequence, then by key head, but parts of items
/// come first: what their delivery takes then passes while whole items are still being brought.
template <int Keys, typename Problem>
class DecodingShare {
 public:
  /// Called by a whole warp.
  __device__ __forceinline__ explicit DecodingShare(const Problem& problem)
      : problem_(problem), tiles_(tiles_of_all<Keys>(problem)) {
    sharing_ = min(tiles_, static_cast<int>(gridDim.x));
    const auto block = static_cast<int>(blockIdx.x);
    if (block >= sharing_) return;
    // tiles_ * block / sharing_, without a product of more than 32 bits.
    const int each = tiles_ / sharing_, left_over = tiles_ % sharing_;
    const int begin = each * block + left_over * block / sharing_;
    const int end = each * (block + 1) + left_over * (block + 1) / sharing_;
    const Place first = find(begin), last = find(end - 1);
    const int first_item = item_begin(first, begin),
              first_item_end = first_item + tiles_of<Keys>(problem, first.sequence);
    const int last_item = item_begin(last, end - 1), last_item_end = last_item + tiles_of<Keys>(problem, last.sequence);
    const int whole = first_item == begin && first_item_end <= end ? begin : min(first_item_end, end);
    const int whole_end = last_item_end == end ? end : max(last_item, whole);
    ranges_[0] = {first, begin, whole};
    ranges_[1] = {last, whole_end, end};
    ranges_[2] = {first, whole, whole_end};
  }

  /// Gets the next piece, unless there is none left. Any thread.
  __device__ __forceinline__ bool next(DecodingPiece& piece) {
    while (ranges_[0].at == ranges_[0].end) {
      if (left_ == 0) return false;
      --left_;
      ranges_[0] = ranges_[1];  // constant indices keep the array in registers
      ranges_[1] = ranges_[2];
    }
    Range& range = ranges_[0];
    auto& [sequence, begin] = range.place;
    int tiles = tiles_of<Keys>(problem_, sequence);
    while (range.at - begin >= tiles * problem_.key_heads) {
      begin += tiles * problem_.key_heads;
      tiles = tiles_of<Keys>(problem_, ++sequence);
    }
    const int in_sequence = range.at - begin;
    piece.sequence = sequence;
    piece.key_head = in_sequence / tiles;
    piece.first = in_sequence % tiles;
    piece.end = min(tiles, piece.first + range.end - range.at);
    const int item = range.at - piece.first;
    piece.first_block = block_of(item);
    piece.blocks = block_of(item + tiles - 1) - piece.first_block + 1;
    range.at += piece.end - piece.first;
    return true;
  }

 private:
  struct Place {
    int sequence = 0;
    int begin = 0;  // its first tile
  };
  struct Range {
    Place place{};  // of `at`, or before it
    int at = 0, end = 0;
  };

  __device__ __forceinline__ int block_of(int tile) const {
    return static_cast<int>(((int64_t{tile} + 1) * sharing_ - 1) / tiles_);
  }

  /// The sequence that has a tile. Called by a whole warp.
  __device__ __forceinline__ Place find(int tile) const {
    const auto lane = static_cast<int>(lane_index());
    for (Place place;;) {  // 32 sequences at a time
      const int own = place.sequence + lane;
      int end = own < problem_.sequences ? tiles_of<Keys>(problem_, own) * problem_.key_heads : 0;
      for (int distance = 1; distance < kWarpSize; distance *= 2) {
        const int lower = __shfl_up_sync(0xffffffff, end, distance);
        if (lane >= distance) end += lower;
      }
      const uint32_t beyond = __ballot_sync(0xffffffff, place.begin + end > tile);
      const int skipped = beyond == 0 ? kWarpSize : __ffs(static_cast<int>(beyond)) - 1;
      const int before = __shfl_sync(0xffffffff, end, max(skipped - 1, 0));
      place = {.sequence = place.sequence + skipped, .begin = place.begin + (skipped == 0 ? 0 : before)};
      if (beyond != 0) return place;
    }
  }

  /// The first tile of the item that has a tile.
  __device__ __forceinline__ int item_begin(const Place& place, int tile) const {
    const int tiles = tiles_of<Keys>(problem_, place.sequence);
    return tile - (tile - place.begin) % tiles;
  }

  const Problem& problem_;
  const int tiles_;  // of all items
  int sharing_;      // blocks that have a share, the first ones: none has an empty one between two others
  Range ranges_[3];
  int left_ = 2;  // ranges after the first
};

/// Which of the readers' rings has the next tile, and its stage there.
template <int Readers, int Stages>
struct DecodingTurn {
  int reader = 0;
  PipelineState<Stages> state;

  __device__ __forceinline__ void step() {
    if (++reader == Readers) {
      reader = 0;
      state.step();
    }
  }
};

// ---- The roles ------------------------------------------------------------------------------------------------------

/// Brings the tiles of a share. Called by one thread, with the share that its warp found.
template <FragmentElement Element, int HeadDim, typename Share>
__device__ __forceinline__ void load_cache(const DecodingProblem<Element>& problem, Share share,
                                           typename Decoding<Element, HeadDim>::Shared& shared) {
  using D = Decoding<Element, HeadDim>;
  using CacheTile = typename D::CacheTile;
  constexpr int kBoxes = CacheTile::num_boxes;
  DecodingTurn<D::kReaders, D::kStages> turn;
  for (DecodingPiece piece; share.next(piece);) {
    const int length = problem.length(piece.sequence);
    const int* const pages = problem.page_table == nullptr
                                 ? nullptr
                                 : problem.page_table + int64_t{piece.sequence} * problem.pages_per_sequence;
    for (int tile = piece.first; tile < piece.end; ++tile, turn.step()) {
      const uint32_t stage = turn.state.index();
      wait(&shared.empty[turn.reader][stage], turn.state.phase() ^ 1);
      uint64_t* const full = &shared.full[turn.reader][stage];
      const int token = tile * D::kKeys;
      const int copies = (min(D::kKeys, length - token) + problem.box_tokens - 1) / problem.box_tokens;
      expect_bytes(full, 2 * copies * problem.box_tokens * HeadDim * sizeof(Element));
      auto& [keys, values] = shared.stages[turn.reader][stage];
      for (int copy = 0; copy < copies; ++copy) {
        const int first = token + copy * problem.box_tokens;
        const int page = pages == nullptr ? piece.sequence : pages[first / problem.page_tokens];
        const int in_page = pages == nullptr ? first : first % problem.page_tokens;
        const uint32_t lines = copy * problem.box_tokens * swizzle_span(CacheTile::swizzle);
        for (int box = 0; box < kBoxes; ++box) {
          const int32_t place[4] = {box * CacheTile::box_elements, in_page, piece.key_head, page};
          const uint32_t to = box * CacheTile::bytes_per_box + lines;
          using namespace cuda::ptx;
          cp_async_bulk_tensor(space_cluster, space_global, keys.storage + to, &problem.keys, place, full);
          cp_async_bulk_tensor(space_cluster, space_global, values.storage + to, &problem.values, place, full);
        }
      }
    }
  }
}

/// What a warp has of the rows of an item: a lane has rows lane / 4 and lane / 4 + 8.
template <FragmentElement Element, int HeadDim>
struct DecodingRows {
  using D = Decoding<Element, HeadDim>;
  uint32_t queries[HeadDim / 16][4];
  float sums[HeadDim / 8][4];
  float maxima[2], totals[2];  // scores in units of log2; totals of the lane's own columns

  /// Loads the queries of an item. Called by a whole warp.
  __device__ __forceinline__ void begin(const DecodingProblem<Element>& problem, const DecodingPiece& piece) {
    const int lane = static_cast<int>(lane_index()), group = problem.group();
    const Element* const rows =
        problem.queries + (int64_t{piece.sequence} * problem.heads + piece.key_head * group) * HeadDim;
#pragma unroll
    for (int step = 0; step < HeadDim / 16; ++step) {
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        const int row = lane / 4 + part % 2 * 8, column = step * 16 + lane % 4 * 2 + part / 2 * 8;
        queries[step][part] =
            row < group ? *reinterpret_cast<const uint32_t*>(rows + int64_t{row} * HeadDim + column) : 0;
      }
    }
#pragma unroll
    for (auto& part : sums) part[0] = part[1] = part[2] = part[3] = 0;
    maxima[0] = maxima[1] = -INFINITY;
    totals[0] = totals[1] = 0;
  }

  /// Adds a tile of keys and values. Called by a whole warp.
  /// @param valid  keys of the tile; where it has fewer than kKeys, the others are not used.
  template <bool IsPartial>
  __device__ __forceinline__ void add(const typename D::Stage& stage, float scale_log2, int valid) {
    constexpr int kKeys = D::kKeys;
    using CacheTile = typename D::CacheTile;
    const int lane = static_cast<int>(lane_index());
    float scores[kKeys / 8][4] = {};
    const uint32_t keys = stage.keys.shared_address(), values = stage.values.shared_address();
#pragma unroll
    for (int step = 0; step < HeadDim / 16; ++step) {
#pragma unroll
      for (int sixteen = 0; sixteen < kKeys / 16; ++sixteen) {
        if (IsPartial && sixteen * 16 >= valid) continue;  // perhaps no copy has ever brought these
        uint32_t b[4];
        load_matrices(
            keys + CacheTile::offset_of(sixteen * 16 + lane / 16 * 8 + lane % 8, step * 16 + lane / 8 % 2 * 8), b);
        multiply_fragments<Element>(scores[2 * sixteen], queries[step], b[0], b[1]);
        multiply_fragments<Element>(scores[2 * sixteen + 1], queries[step], b[2], b[3]);
      }
    }
    const int column = lane % 4 * 2;
    if constexpr (IsPartial) {
#pragma unroll
      for (int eight = 0; eight < kKeys / 8; ++eight) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (eight * 8 + column + i % 2 >= valid) scores[eight][i] = -INFINITY;
        }
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float maximum = -INFINITY;
#pragma unroll
      for (auto& part : scores) maximum = fmaxf(maximum, fmaxf(part[2 * half], part[2 * half + 1]));
      maximum = fmaxf(maximum, __shfl_xor_sync(0xffffffff, maximum, 1));
      maximum = fmaxf(maximum, __shfl_xor_sync(0xffffffff, maximum, 2));
      maximum = fmaxf(maximum * scale_log2, maxima[half]);
      const float subtracted = maximum == -INFINITY ? 0 : maximum;  // not -inf - -inf
      const float factor = exp2f(maxima[half] - subtracted);
      maxima[half] = maximum;
      totals[half] *= factor;
#pragma unroll
      for (auto& part : scores) {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          part[i] = exp2f(fmaf(part[i], scale_log2, -subtracted));
          totals[half] += part[i];
        }
      }
#pragma unroll
      for (auto& part : sums) {
        part[2 * half] *= factor;
        part[2 * half + 1] *= factor;
      }
    }
#pragma unroll
    for (int sixteen = 0; sixteen < kKeys / 16; ++sixteen) {
      if (IsPartial && sixteen * 16 >= valid) continue;
      const auto& left = scores[2 * sixteen];
      const auto& right = scores[2 * sixteen + 1];
      const uint32_t weights[4] = {pack_pair<Element>(left[0], left[1]), pack_pair<Element>(left[2], left[3]),
                                   pack_pair<Element>(right[0], right[1]), pack_pair<Element>(right[2], right[3])};
      // Beyond the last key is what an earlier copy left, perhaps NaN, which a weight of 0 would not hide.
      const int key = sixteen * 16 + column;
      const auto kept = [&](uint32_t pair, int first) {
        if (first >= valid) return uint32_t{0};
        return first + 1 < valid ? pair : pair & 0xffff;
      };
#pragma unroll
      for (int columns = 0; columns < HeadDim; columns += 16) {
        uint32_t b[4];
        load_matrices_transposed(values + CacheTile::offset_of(sixteen * 16 + lane % 16, columns + lane / 16 * 8), b);
        if constexpr (IsPartial) {
#pragma unroll
          for (int i = 0; i < 4; ++i) b[i] = kept(b[i], key + i % 2 * 8);
        }
        multiply_fragments<Element>(sums[columns / 8], weights, b[0], b[1]);
        multiply_fragments<Element>(sums[columns / 8 + 1], weights, b[2], b[3]);
      }
    }
  }
};

/// Four neighbours of a row of sums of values relative to 2^maximum, and the sum of the row's weights.
struct RowSums {
  float4 sums{};
  float maximum = -INFINITY, total = 0;

  __device__ __forceinline__ void add(const RowSums& other) {
    const float both = fmaxf(maximum, other.maximum), from = both == -INFINITY ? 0 : both;  // not -inf - -inf
    const float factor = exp2f(maximum - from), other_factor = exp2f(other.maximum - from);
    const auto sum = [=](float own, float others) { return own * factor + others * other_factor; };
    sums = {sum(sums.x, other.sums.x), sum(sums.y, other.sums.y), sum(sums.z, other.sums.z), sum(sums.w, other.sums.w)};
    total = sum(total, other.total);
    maximum = both;
  }
};

/// Stores four elements of the result, and the logarithm with the first of a row. Any thread.
template <FragmentElement Element, int HeadDim>
__device__ __forceinline__ void store_result(const DecodingProblem<Element>& problem, int sequence, int head,
                                             int column, const RowSums& row) {
  const int64_t at = int64_t{sequence} * problem.heads + head;
  const float inverse = row.total == 0 ? 0 : 1 / row.total;
  *reinterpret_cast<uint2*>(problem.out + at * HeadDim + column) = {
      pack_pair<Element>(row.sums.x * inverse, row.sums.y * inverse),
      pack_pair<Element>(row.sums.z * inverse, row.sums.w * inverse)};
  if (column == 0 && problem.logsumexp != nullptr) {
    constexpr float kLn2 = 0.693147180559945309F;
    problem.logsumexp[at] = row.total == 0 ? -INFINITY : (row.maximum + log2f(row.total)) * kLn2;
  }
}

/// Multiplies the tiles of a share that come by the calling warp's ring, and puts the readers' sums together after each
/// piece. Called by all readers.
template <FragmentElement Element, int HeadDim, typename Share>
__device__ __forceinline__ void read_cache(const DecodingProblem<Element>& problem, Share share,
                                           typename Decoding<Element, HeadDim>::Shared& shared) {
  using D = Decoding<Element, HeadDim>;
  const auto reader = static_cast<int>(warp_index()), lane = static_cast<int>(lane_index());
  const auto meet = [] { __barrier_sync_count(1, D::kReadingThreads); };
  DecodingTurn<D::kReaders, D::kStages> turn;
  DecodingRows<Element, HeadDim> rows;
  for (DecodingPiece piece; share.next(piece);) {
    rows.begin(problem, piece);
    const int length = problem.length(piece.sequence);
    for (int tile = piece.first; tile < piece.end; ++tile, turn.step()) {
      if (turn.reader != reader) continue;
      const uint32_t stage = turn.state.index();
      wait(&shared.full[reader][stage], turn.state.phase());
      const int valid = length - tile * D::kKeys;
      if (valid >= D::kKeys) {
        rows.template add<false>(shared.stages[reader][stage], problem.scale_log2, valid);
      } else {
        rows.template add<true>(shared.stages[reader][stage], problem.scale_log2, valid);
      }
      cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);  // no copy overtakes an ldmatrix; chapter 19 has seen one
      __syncwarp();                                           // all lanes have read the stage
      if (lane == 0) arrive(&shared.empty[reader][stage]);
    }

    const int group = problem.group();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float& total = rows.totals[half];
      total += __shfl_xor_sync(0xffffffff, total, 1);
      total += __shfl_xor_sync(0xffffffff, total, 2);
      const int row = lane / 4 + half * 8;
      if (row >= group) continue;
      if (lane % 4 == 0) {
        shared.maxima[reader][row] = rows.maxima[half];
        shared.totals[reader][row] = total;
      }
#pragma unroll
      for (int part = 0; part < HeadDim / 8; ++part) {
        float2& to = *reinterpret_cast<float2*>(&shared.sums[reader][row][part * 8 + lane % 4 * 2]);
        to = {rows.sums[part][2 * half], rows.sums[part][2 * half + 1]};
      }
    }
    meet();
    using Part = typename D::Part;
    Part* const parts = static_cast<Part*>(problem.parts);
    // A share has at most two pieces that are not whole: its last one, which begins an item, and its first.
    const auto part_of = [&](int block) -> Part& { return parts[2 * block + (block == piece.first_block ? 1 : 0)]; };
    const int first_head = piece.key_head * group;
    const auto for_each_quad = [group](auto work) {
      for (int index = static_cast<int>(threadIdx.x) * 4; index < group * HeadDim; index += D::kReadingThreads * 4) {
        work(index / HeadDim, index % HeadDim);
      }
    };
    for_each_quad([&](int row, int column) {
      RowSums sums;
#pragma unroll
      for (int from = 0; from < D::kReaders; ++from) {
        sums.add({*reinterpret_cast<const float4*>(&shared.sums[from][row][column]), shared.maxima[from][row],
                  shared.totals[from][row]});
      }
      if (piece.is_whole()) {
        store_result<Element, HeadDim>(problem, piece.sequence, first_head + row, column, sums);
      } else {
        Part& part = part_of(static_cast<int>(blockIdx.x));
        *reinterpret_cast<float4*>(&part.sums[row][column]) = sums.sums;
        if (column == 0) {
          part.maxima[row] = sums.maximum;
          part.totals[row] = sums.total;
        }
      }
    });
    meet();  // the sums have been read, and the part is stored
    if (piece.is_whole()) continue;
    if (threadIdx.x == 0) {
      const auto item = static_cast<uint32_t>(piece.sequence * problem.key_heads + piece.key_head);
      shared.is_last =
          arrives_last(problem.delivered, {.pieces = static_cast<uint32_t>(piece.blocks), .counter = item});
    }
    meet();
    if (!shared.is_last) continue;
    for_each_quad([&](int row, int column) {
      RowSums sums;
#pragma unroll 4  // so that loads do not wait for each other
      for (int block = piece.first_block; block < piece.first_block + piece.blocks; ++block) {
        const Part& part = part_of(block);
        sums.add({*reinterpret_cast<const float4*>(&part.sums[row][column]), part.maxima[row], part.totals[row]});
      }
      store_result<Element, HeadDim>(problem, piece.sequence, first_head + row, column, sums);
    });
  }
}

/// Stores the results of sequences without keys: 0, and -inf as the logarithm. Called by all threads of the grid.
template <FragmentElement Element, int HeadDim>
__device__ __forceinline__ void store_empty(const DecodingProblem<Element>& problem) {
  if (problem.lengths == nullptr && problem.longest > 0) return;
  for (int sequence = static_cast<int>(blockIdx.x); sequence < problem.sequences;
       sequence += static_cast<int>(gridDim.x)) {
    if (problem.length(sequence) > 0) continue;
    for (int index = static_cast<int>(threadIdx.x) * 4; index < problem.heads * HeadDim;
         index += static_cast<int>(blockDim.x) * 4) {
      store_result<Element, HeadDim>(problem, sequence, index / HeadDim, index % HeadDim, {});
    }
  }
}

/// Any number of blocks, as many as are resident at best; each has two parts in `problem.parts`.
template <FragmentElement Element, int HeadDim>
__global__ void __launch_bounds__(Decoding<Element, HeadDim>::kThreads, 1)
    hopper_decode(const __grid_constant__ DecodingProblem<Element> problem) {
  using D = Decoding<Element, HeadDim>;
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  auto& shared = *reinterpret_cast<typename D::Shared*>(dynamic_shared_memory);
  if (threadIdx.x == 0) {
    ptx::prefetch_tensor_map(&problem.keys);
    ptx::prefetch_tensor_map(&problem.values);
    for (int reader = 0; reader < D::kReaders; ++reader) {
      for (int stage = 0; stage < D::kStages; ++stage) {
        init_barrier(&shared.full[reader][stage], /*arrive_count=*/1);   // the loading lane, which announces the bytes
        init_barrier(&shared.empty[reader][stage], /*arrive_count=*/1);  // a lane of the reader, for its warp
      }
    }
    fence_barrier_init();
  }
  wait_for_earlier_grids();
  const DecodingShare<D::kKeys, DecodingProblem<Element>> share{problem};  // found while the barriers are initialised
  __syncthreads();
  if (warp_index() < D::kReaders) {
    read_cache<Element, HeadDim>(problem, share, shared);
  } else if (elect_one()) {
    load_cache<Element, HeadDim>(problem, share, shared);
  }
  store_empty<Element, HeadDim>(problem);
}

}  // namespace stagecraft
