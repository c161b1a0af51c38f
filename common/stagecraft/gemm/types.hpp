// The types and sizes of a GEMM kernel, from its configuration. An illegal configuration does not compile, and says
// what is legal.
#pragma once

#include <cstdint>
#include <type_traits>

#include "stagecraft/block_scaled_output.hpp"
#include "stagecraft/block_scaled_types.hpp"
#include "stagecraft/cluster_shape.hpp"
#include "stagecraft/gemm/c_input.hpp"
#include "stagecraft/gemm/column_writer.hpp"
#include "stagecraft/gemm/config.hpp"
#include "stagecraft/gemm/direct_access.hpp"
#include "stagecraft/gemm/divided_tiles.hpp"
#include "stagecraft/gemm/grouped_tiles.hpp"
#include "stagecraft/gemm/legal.hpp"
#include "stagecraft/gemm/row_scales.hpp"
#include "stagecraft/input_tile_pipeline.hpp"
#include "stagecraft/launch_control.hpp"
#include "stagecraft/output_tile_pipeline.hpp"
#include "stagecraft/row_writer.hpp"
#include "stagecraft/scale_factors.hpp"
#include "stagecraft/tile_payload.hpp"
#include "stagecraft/tile_scheduler.hpp"
#include "stagecraft/tile_writer.hpp"

namespace stagecraft {

namespace detail {

template <DataType Type>
consteval auto element_of() {
  if constexpr (Type == DataType::bf16) return std::type_identity<__nv_bfloat16>{};
  if constexpr (Type == DataType::f16) return std::type_identity<__half>{};
  if constexpr (Type == DataType::tf32) return std::type_identity<tf32>{};
  if constexpr (Type == DataType::e4m3) return std::type_identity<__nv_fp8_e4m3>{};
  if constexpr (Type == DataType::e5m2) return std::type_identity<__nv_fp8_e5m2>{};
  if constexpr (Type == DataType::f32) return std::type_identity<float>{};
  if constexpr (Type == DataType::mxfp8) return std::type_identity<Mxfp8::Element>{};
  if constexpr (Type == DataType::mxfp4) return std::type_identity<Mxfp4::Element>{};
  if constexpr (Type == DataType::nvfp4) return std::type_identity<Nvfp4::Element>{};
  if constexpr (Type == DataType::fp8_blockwise) return std::type_identity<__nv_fp8_e4m3>{};
}

/// The type of a block-scaled type's scale factors.
template <DataType Type>
using scale_of = std::conditional_t<Type == DataType::nvfp4, Nvfp4::Scale, Mxfp8::Scale>;

/// The block-scaled type that a DataType names.
template <DataType Type>
using block_scaled_type =
    std::conditional_t<Type == DataType::nvfp4, Nvfp4, std::conditional_t<Type == DataType::mxfp4, Mxfp4, Mxfp8>>;

/// What a kernel has in place of something that it does not need.
struct Absent {};

/// The payload with scale factors or without.
template <bool IsScaled, typename ATile, typename BTile, typename SfaTile, typename SfbTile, int KTiles>
struct PayloadOf {
  using type = StandardTilePayload<ATile, BTile, KTiles>;
};
template <typename ATile, typename BTile, typename SfaTile, typename SfbTile, int KTiles>
struct PayloadOf<true, ATile, BTile, SfaTile, SfbTile, KTiles> {
  using type = BlockScaledTilePayload<ATile, BTile, SfaTile, SfbTile, KTiles>;
};

/// Tensor memory with scale factors or without.
template <bool IsScaled, typename Output, typename Payload>
struct TmemOf {
  using type = Output;
};
template <typename Output, typename Payload>
struct TmemOf<true, Output, Payload> {
  using type = BlockScaledTmem<Output, Payload>;
};

}  // namespace detail

/// The element type that a DataType names.
template <DataType Type>
using element_of = typename decltype(detail::element_of<Type>())::type;

/// The types and sizes of a kernel. An illegal configuration does not compile.
template <GemmConfig Config>
struct GemmTypes {
  static constexpr GemmConfig config = Config;  ///< what the kernel is compiled for

  // ---- What is legal ------------------------------------------------------------------------------------------------

#define STAGECRAFT_GEMM_RULE(condition, text) static_assert(condition, "GEMM: " text);
#include "stagecraft/gemm/rules.inc"
#undef STAGECRAFT_GEMM_RULE

  static constexpr bool is_scaled = is_block_scaled(Config.a);  ///< A and B have scale factors, for the tensor core
  static constexpr bool is_promoted = is_blockwise(Config.a);   ///< the epilogue scales and adds up sums of k-tiles
  static constexpr bool has_fallback = detail::has_fallback(Config);  ///< clusters have two sizes

  // ---- Tiles --------------------------------------------------------------------------------------------------------

  using Cluster = ClusterShape<Config.cluster_m, Config.cluster_n, Config.cta_group>;  ///< who shares tiles
  /// And where such a cluster does not fit.
  using Fallback = ClusterShape<has_fallback ? Config.fallback_m : Config.cluster_m,
                                has_fallback ? Config.fallback_n : Config.cluster_n, Config.cta_group>;

  static constexpr int block_m = Config.tile_m / Config.cta_group;  ///< rows of A, and of D, that a block has
  static constexpr int block_n = Config.tile_n / Config.cta_group;  ///< rows of B that a block brings
  static constexpr int tile_k = tile_k_of(Config.a);                ///< elements along K of a k-tile

  using AElement = element_of<Config.a>;                     ///< of A's tiles
  using BElement = element_of<Config.b>;                     ///< of B's tiles
  using DElement = element_of<Config.d>;                     ///< of the result
  using CElement = element_of<Config.c>;                     ///< of C
  using SecondElement = element_of<companion_of(Config.d)>;  ///< of the second output
  using BiasElement = element_of<Config.bias>;               ///< of the bias
  /// What a block holds of A.
  using ATile = Tile<AElement, block_m, tile_k, operand_swizzle(Config.a, Config.a_major, block_m), Config.a_major>;
  /// What a block holds of B.
  using BTile = Tile<BElement, block_n, tile_k, operand_swizzle(Config.b, Config.b_major, block_n), Config.b_major>;

  // ---- The epilogue -------------------------------------------------------------------------------------------------

  using Accumulator = TmemTensor<Config.tile_m, Config.tile_n, Config.cta_group>;  ///< a tile of D while it is summed
  static constexpr int columns_per_result = Config.epilogue == GemmEpilogue::gated ? 2 : 1;  ///< of D's columns
  using Writer = TileWriter<Accumulator, DElement, columns_per_result>;                      ///< stores D by TMA
  /// Or row by row, where TMA cannot.
  using RowWriter = std::conditional_t<Config.transposes_d, ColumnWriter<Accumulator, DElement>,
                                       stagecraft::RowWriter<Accumulator, DElement, columns_per_result>>;
  static constexpr bool scales_d = is_block_scaled(Config.d);  ///< D is the next product's operand, with scale factors
  /// Chooses D's scale factors.
  using DScaling = std::conditional_t<scales_d, ScaleBlocks<detail::block_scaled_type<Config.d>>, detail::Absent>;
  static constexpr bool has_second_output = Config.epilogue != GemmEpilogue::plain;  ///< a launch may ask for one
  /// Stores the values before the activation: by TMA, or each thread its own, where TMA cannot,
  /// or where the slices of all columns would take shared memory from the operands.
  using SecondOutput = std::conditional_t<copies_second_output(Config), stagecraft::SecondOutput<Writer, SecondElement>,
                                          DirectSecondOutput<SecondElement, Config.transposes_d>>;
  /// C is brought by TMA; if not, and the kernel adds it, each thread reads its own elements.
  static constexpr bool loads_c = copies_c(Config);
  using CInput = CInputPipeline<Writer, CElement>;  ///< brings C
  /// Brings A's scales, if they are floats. A group may begin at any row.
  using AScales = RowScalesPipeline<block_m, /*NumStages=*/8, /*AnyRow=*/Config.groups>;
  /// Whether a warp loads for the epilogue.
  static constexpr bool epilogue_has_input = loads_c || is_promoted;

  // ---- Shared memory ------------------------------------------------------------------------------------------------

  /// Shared memory of the epilogue.
  struct EpilogueStorage {
    typename Writer::Storage d;  ///< slices on their way to D
    /// Slices on their way to the second output.
    [[no_unique_address]] std::conditional_t<has_second_output, typename SecondOutput::Storage, detail::Absent> second;
    /// The ring of C.
    [[no_unique_address]] std::conditional_t<loads_c, typename CInput::Storage, detail::Absent> c;
    /// The ring of A's scales.
    [[no_unique_address]] std::conditional_t<is_promoted, typename AScales::Storage, detail::Absent> a_scales;
  };

  static constexpr int scale_block = scale_block_of(Config.a);  ///< elements along K that share a scale factor
  /// A block's scale factors of A.
  using SfaTile = ScaleFactorTile<detail::scale_of<Config.a>, 128, tile_k / scale_block>;
  /// Those of B, which each block of a pair needs for both: whole atoms, also where a tile begins inside of one.
  using SfbTile = ScaleFactorTile<detail::scale_of<Config.a>, scale_factor_rows<is_scaled ? Config.tile_n : 128>(),
                                  tile_k / scale_block>;
  /// So many k-tiles of operands.
  template <int KTiles>
  using PayloadOf = typename detail::PayloadOf<is_scaled, ATile, BTile, SfaTile, SfbTile, KTiles>::type;

  static constexpr int stages = detail::stages_of(Config);  ///< of the ring of operands
  static_assert(int{sizeof(EpilogueStorage)} == detail::epilogue_bytes(Config) &&
                    int{sizeof(typename PayloadOf<Config.k_group>::Storage)} == detail::stage_bytes(Config),
                "legal.hpp counts other bytes than there are");

  using Payload = PayloadOf<stages * Config.k_group>;  ///< the operands in shared memory
  /// The ring of operands, in the blocks of a cluster of this shape.
  template <typename Launched>
  using Input = InputTilePipeline<Payload, stages, Config.k_group, Launched>;
  using Output = OutputTilePipeline<Accumulator, Config.accumulators>;  ///< the ring of accumulators
  /// What is in tensor memory: accumulators, and scale factors.
  using Tmem = typename detail::TmemOf<is_scaled, Output, Payload>::type;

  /// Dynamic shared memory.
  struct Shared {
    typename Payload::Storage operands;  ///< the ring of tiles of A and B
    EpilogueStorage epilogue;            ///< what the epilogue has
  };
  static constexpr uint32_t shared_bytes = sizeof(Shared) + kGemmBarrierBytes;  ///< of a block, at most

  // ---- The schedule -------------------------------------------------------------------------------------------------

  /// What a turn is.
  using Tiles = std::conditional_t<Config.groups, GroupedTiles<Cluster, block_m, Config.divides_k>,
                                   std::conditional_t<Config.divides_k, DividedTiles<Cluster>, WholeTiles<Cluster>>>;
  /// Which turns a block takes; `Scheduler::In<Fallback>` in a smaller cluster.
  using Scheduler = std::conditional_t<Config.launch_control, LaunchControlScheduler<Tiles>, StaticScheduler<Tiles>>;
  /// A turn may have nothing to do: launch control deals out as many units as groups may have.
  static constexpr bool has_empty_turns = Config.groups && Config.launch_control;
  /// Floats of a place for partial sums: what a block has of an accumulator, a column for each of 128 threads.
  static constexpr int slot_floats = kTmemLanes * Accumulator::tmem_columns;
};

}  // namespace stagecraft
