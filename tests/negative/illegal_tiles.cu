// What the types of tiles, descriptors and pipelines refuse, one mistake in each marked line; the others are legal.
#include "stagecraft/input_tile_pipeline.hpp"
#include "stagecraft/mma.hpp"
#include "stagecraft/output_tile_pipeline.hpp"
#include "stagecraft/scale_factors.hpp"
#include "stagecraft/tensor_map.hpp"
#include "stagecraft/tile_copy.hpp"
#include "stagecraft/tmem_operand.hpp"

using namespace stagecraft;
constexpr ElementFormat f32_as_tf32 = ElementFormat::tf32;
constexpr ElementFormat e4m3 = ElementFormat::e4m3, e2m1 = ElementFormat::e2m1, e3m2 = ElementFormat::e3m2;

using Bf16 = __nv_bfloat16;
using E4m3 = __nv_fp8_e4m3;
using Fp4 = __nv_fp4_e2m1;
using Scale = __nv_fp8_e8m0;
constexpr Swizzle kNone = Swizzle::none, k32 = Swizzle::bytes_32, k64 = Swizzle::bytes_64, k128 = Swizzle::bytes_128;
constexpr Swizzle kAtom32 = Swizzle::bytes_128_atom_32;
constexpr Major kMn = Major::mn;

// clang-format off
// ---- Tiles ----------------------------------------------------------------------------------------------------------
template struct stagecraft::Tile<Bf16, 128, 64>;
template struct stagecraft::Tile<Bf16, 128, 0>;                  // refused: Rows and Columns must be at least 1
template struct stagecraft::Tile<Bf16, 128, 48>;                 // refused: must fill whole lines of the swizzle
template struct stagecraft::Tile<Bf16, 128, 24, k32>;            // refused: must fill whole lines of the swizzle
template struct stagecraft::Tile<Bf16, 96, 64, k128, kMn>;       // refused: must fill whole lines of the swizzle
template struct stagecraft::Tile<Bf16, 12, 64>;                  // refused: must be a multiple of 8
template struct stagecraft::Tile<Bf16, 64, 20, k128, kMn>;       // refused: must be a multiple of 8
template struct stagecraft::Tile<Bf16, 264, 64>;                 // refused: a box has at most 256 lines
template struct stagecraft::PlainTile<float, 4, 256>;
template struct stagecraft::PlainTile<float, 257, 4>;            // refused: Rows and Columns must be 1 to 256
template struct stagecraft::PlainTile<float, 1, 5>;              // refused: a row must be a multiple of 16 bytes
template struct stagecraft::ScaleFactorTile<Scale, 256, 8>;
template struct stagecraft::ScaleFactorTile<Scale, 64, 8>;       // refused: Rows must be a multiple of 128
template struct stagecraft::ScaleFactorTile<Scale, 128, 6>;      // refused: Blocks must be a multiple of 4
template struct stagecraft::ScaleFactorTile<__half, 128, 4>;     // refused: scale factors are one byte

// ---- Shared memory descriptors --------------------------------------------------------------------------------------
constexpr uint64_t s0 = shared_memory_descriptor<16, 16, 16, 7, k128>();
constexpr uint64_t s1 = shared_memory_descriptor<8, 0, 0, 0, kNone>();            // refused: the start address must be a multiple of 16
constexpr uint64_t s2 = shared_memory_descriptor<16, 0, 0, 0, kAtom32>();         // refused: and of 32 where the swizzle moves chunks of 32
constexpr uint64_t s3 = shared_memory_descriptor<0, 8, 0, 0, kNone>();            // refused: byte offset must be multiples of 16
constexpr uint64_t s4 = shared_memory_descriptor<0, 0, 24, 0, kNone>();           // refused: byte offset must be multiples of 16
constexpr uint64_t s5 = shared_memory_descriptor<0, 1 << 18, 0, 0, kNone>();      // refused: must be less than 2^18
constexpr uint64_t s6 = shared_memory_descriptor<0, 0, 1 << 18, 0, k128>();       // refused: must be less than 2^18
constexpr uint64_t s7 = shared_memory_descriptor<0, 0, 0, 8, k128>();             // refused: the base offset must be 0 to 7
constexpr uint64_t s8 = shared_memory_descriptor<0, 0, 0, 1, kNone>();            // refused: and 0 without a swizzle
constexpr uint64_t t0 = tile_descriptor<Tile<tf32, 32, 8, kAtom32, kMn>>();
constexpr uint64_t t1 = tile_descriptor<Tile<Bf16, 128, 8, kNone>>();             // refused: must be a multiple of the 32 bytes that one MMA takes
constexpr uint64_t t2 = tile_descriptor<Tile<E4m3, 128, 40, k128, kMn>>();        // refused: must be a multiple of the 32 bytes that one MMA takes
constexpr uint64_t t3 = tile_descriptor<Tile<tf32, 32, 8, k128, kMn>>();          // refused: bytes_128_atom_32 is for tf32 tiles contiguous along M or N
constexpr uint64_t t4 = tile_descriptor<Tile<tf32, 32, 8, kNone, kMn>>();         // refused: bytes_128_atom_32 is for tf32 tiles contiguous along M or N
constexpr uint64_t t5 = tile_descriptor<Tile<tf32, 32, 32, kAtom32>>();           // refused: all other tiles take none, bytes_32, bytes_64 or bytes_128
constexpr uint64_t t6 = tile_descriptor<Tile<Bf16, 64, 16, kAtom32, kMn>>();      // refused: all other tiles take none, bytes_32, bytes_64 or bytes_128
constexpr uint64_t t7 = tile_descriptor<Tile<float, 128, 32>>();                  // refused: a matrix of float is multiplied as tf32
constexpr uint64_t t8 = tile_descriptor<Tile<Fp4, 256, 64, k128, kMn>>();         // refused: operands of 4- and 6-bit elements must be contiguous along K

// ---- Instruction descriptors ----------------------------------------------------------------------------------------
template <Mma Instruction>
constexpr uint32_t word = instruction_descriptor<Instruction>();
constexpr MmaKind kTf32 = MmaKind::tf32, kF8 = MmaKind::f8f6f4, kMx8 = MmaKind::mxf8f6f4, kMx4 = MmaKind::mxf4, kNv4 = MmaKind::mxf4nvf4;
constexpr uint32_t i00 = word<Mma{.m = 64, .n = 24}>;
constexpr uint32_t i01 = word<Mma{.m = 32, .n = 64}>;                                         // refused: M must be 64 or 128
constexpr uint32_t i02 = word<Mma{.m = 256, .n = 64}>;                                        // refused: M must be 64 or 128
constexpr uint32_t i03 = word<Mma{.m = 64, .n = 64, .cta_group = 2}>;                         // refused: M must be 128 or 256
constexpr uint32_t i04 = word<Mma{.m = 128, .n = 264}>;                                       // refused: N must be 16, 32, ..., 256 for M = 128 and 8, 16, ..., 256 for M = 64
constexpr uint32_t i05 = word<Mma{.m = 128, .n = 24}>;                                        // refused: N must be 16, 32, ..., 256 for M = 128
constexpr uint32_t i06 = word<Mma{.m = 64, .n = 12}>;                                         // refused: N must be 16, 32, ..., 256 for M = 128
constexpr uint32_t i07 = word<Mma{.m = 256, .n = 24, .cta_group = 2}>;                        // refused: of a pair of CTAs: N must be 16, 32, ..., 256
constexpr uint32_t i08 = word<Mma{.m = 128, .n = 64, .cta_group = 3}>;                        // refused: cta_group must be 1 or 2
constexpr uint32_t i09 = word<Mma{.m = 128, .n = 64, .accumulator = AccumulatorFormat::f16}>; // refused: bf16 sums in f32
constexpr uint32_t i10 = word<Mma{.kind = kTf32, .m = 128, .n = 64, .a = f32_as_tf32, .b = f32_as_tf32, .accumulator = AccumulatorFormat::f16}>;  // refused: an f16 accumulator needs f16 operands
constexpr uint32_t i11 = word<Mma{.m = 128, .n = 64, .a = e4m3, .b = e4m3}>;                  // refused: A and B must be of formats that the kind has
constexpr uint32_t i12 = word<Mma{.kind = kTf32, .m = 128, .n = 64, .a = f32_as_tf32}>;              // refused: A and B must be of formats that the kind has
constexpr uint32_t i13 = word<Mma{.kind = kMx4, .m = 128, .n = 64, .a = e4m3, .b = e2m1}>;    // refused: e2m1 for mxf4 and mxf4nvf4
constexpr uint32_t i14 = word<Mma{.kind = kF8, .m = 128, .n = 64, .a = e2m1, .b = e4m3, .a_major = kMn}>;  // refused: must be contiguous along K
constexpr uint32_t i15 = word<Mma{.kind = kF8, .m = 128, .n = 64, .a = e4m3, .b = e3m2, .b_major = kMn}>;  // refused: must be contiguous along K
constexpr uint32_t i16 = word<Mma{.kind = kF8, .m = 64, .n = 24, .a = e4m3, .b = e4m3, .b_major = kMn}>;   // refused: where B is of 8-bit elements contiguous along N
constexpr uint32_t i17 = word<Mma{.kind = kF8, .m = 256, .n = 48, .a = e4m3, .b = e4m3, .b_major = kMn, .cta_group = 2}>;  // refused: 32, 64, ..., 256 where B is of 8-bit elements
constexpr uint32_t i20 = word<Mma{.kind = kMx8, .m = 128, .n = 8, .a = e4m3, .b = e4m3, .sfa_id = 3}>;
constexpr uint32_t i21 = word<Mma{.kind = kMx8, .m = 64, .n = 64, .a = e4m3, .b = e4m3}>;     // refused: block-scaled tcgen05.mma of one CTA: M must be 128
constexpr uint32_t i22 = word<Mma{.kind = kMx8, .m = 128, .n = 64, .a = e4m3, .b = e4m3, .scale_block = 16}>;  // refused: with kind mxf4nvf4 also of 16
constexpr uint32_t i23 = word<Mma{.kind = kMx8, .m = 128, .n = 64, .a = e4m3, .b = e4m3, .scale_format = ScaleFormat::ue4m3}>;  // refused: with kind mxf4nvf4 and blocks of 16 also ue4m3
constexpr uint32_t i24 = word<Mma{.kind = kMx8, .m = 128, .n = 64, .a = e4m3, .b = e4m3, .sfa_id = 4}>;  // refused: must be 0 to 3 for kind mxf8f6f4
constexpr uint32_t i25 = word<Mma{.kind = kMx4, .m = 128, .n = 64, .a = e2m1, .b = e2m1, .sfb_id = 1}>;  // refused: 0 or 2 for blocks of 32
constexpr uint32_t i26 = word<Mma{.kind = kNv4, .m = 128, .n = 64, .a = e2m1, .b = e2m1, .scale_block = 16, .sfa_id = 2}>;  // refused: and 0 for blocks of 16
constexpr uint32_t i27 = word<Mma{.m = 128, .n = 64, .sfa_id = 1}>;                           // refused: only the kinds mxf8f6f4, mxf4 and mxf4nvf4 have scale factors
constexpr uint32_t i28 = word<Mma{.kind = kMx4, .m = 128, .n = 64, .a = e2m1, .b = e2m1, .a_major = kMn}>;  // refused: must be contiguous along K

using A = Tile<Bf16, 128, 64>;
using B = Tile<Bf16, 64, 64>;
using Fp8 = Tile<E4m3, 128, 128>;
using Packed = Tile<Fp4, 128, 256>;
constexpr Mma m0 = mma_of<A, B>();
constexpr Mma m1 = mma_of<A, Tile<Bf16, 64, 128>>();                              // refused: must have equally many columns, along K
constexpr Mma m2 = mma_of<A, Tile<E4m3, 64, 64, k64>>();                          // refused: A and B must be of one kind
constexpr Mma m3 = mma_of<Packed, Packed>();                                      // refused: packed __nv_fp4_e2m1 is for the block-scaled kinds
constexpr Mma m4 = mma_of<A, Tile<uint16_t, 64, 64>>();                           // refused: operands must be of __half, __nv_bfloat16, tf32
constexpr Mma m5 = scaled_mma_of<Fp8, Fp8, ScaleFactorTile<Scale, 128, 4>>();
constexpr Mma m6 = scaled_mma_of<Packed, Packed, ScaleFactorTile<Scale, 128, 4>>();  // refused: a scale factor is for 32 elements along K
constexpr Mma m7 = scaled_mma_of<Packed, Tile<E4m3, 128, 256>, ScaleFactorTile<Scale, 128, 8>>();  // refused: A and B must both be of 8 bits

// ---- Tensor memory --------------------------------------------------------------------------------------------------
template class stagecraft::TmemAllocation<64>;
template class stagecraft::TmemAllocation<16>;                                    // refused: tensor memory comes in 32, 64, 128, 256 or 512 columns
template class stagecraft::TmemAllocation<64, 4>;                                 // refused: CtaGroup must be 1 or 2
template class stagecraft::TmemTensor<64, 8>;
template class stagecraft::TmemTensor<32, 64>;                                    // refused: M must be 64 or 128 of one block
template class stagecraft::TmemTensor<64, 64, 2>;                                 // refused: 128 or 256 of a pair
template class stagecraft::TmemTensor<128, 264>;                                  // refused: N must be 8, 16, ..., 256
template class stagecraft::TmemTensor<128, 12>;                                   // refused: N must be 8, 16, ..., 256

__global__ void load(uint32_t address) {
  uint32_t three[3], two[2];
  load_tmem(two, address);
  load_tmem(three, address);                                                      // refused: a thread gets 1, 2, 4, ..., 128 registers
  load_tmem<FragmentShape::lanes_16x256b>(two, address);                          // refused: and 4 of 16x256b
  store_tmem(address, three);                                                     // refused: a thread has 1, 2, 4, ..., 128 registers
}

template class stagecraft::TmemOperand<Bf16, 128, 64>;
template class stagecraft::TmemOperand<E4m3, 64, 128, 2>;
template class stagecraft::TmemOperand<Fp4, 128, 64>;                             // refused: A in tensor memory must be of __half
template class stagecraft::TmemOperand<float, 128, 64>;                           // refused: convert others in registers
template class stagecraft::TmemOperand<Bf16, 256, 64, 2>;                         // refused: Rows must be 64 or 128
template class stagecraft::TmemOperand<Bf16, 128, 24>;                            // refused: a multiple of the 32 bytes along K
template class stagecraft::TmemOperand<tf32, 128, 1024>;                          // refused: tensor memory has 512 columns
__global__ void multiply_from_tmem(TmemTensor<128, 64> d, TmemTensor<256, 32, 2> of_pair, TmemTensor<256, 16, 2> narrow, TmemOperand<Bf16, 128, 64> a, TmemOperand<Bf16, 128, 64, 2> half, const B& b, const Tile<Bf16, 16, 64>& half_b, const Tile<Bf16, 8, 64>& narrow_b, const Tile<E4m3, 64, 64, k64>& bytes, const Tile<Bf16, 32, 64>& other) {
  multiply_tiles(d, a, b, false);
  multiply_tiles(of_pair, half, half_b, false);
  multiply_tiles(d, a, other, false);                                             // refused: the accumulator must have as many rows as the tile of A
  multiply_tiles(d, a, bytes, false);                                             // refused: A and B must be of one kind
  multiply_tiles(narrow, half, narrow_b, false);                                  // refused: N of a pair of CTAs must be 32, 64, ..., 256
  multiply_columns<16, 48>(d, a, b, false);
  multiply_columns<48, 32>(d, a, b, false);                                       // refused: First and Count must be multiples of what one MMA takes along K, and in the tile
}
__global__ void multiply(TmemTensor<128, 64> d, const A& a, const B& b) {
  multiply_tiles(d, a, b, false);
  multiply_tiles(d, a, a, false);                                                 // refused: the accumulator must have as many rows as the tile of A
  issue_mma<m5>(0, 0, 0, false);                                                  // refused: a block-scaled MMA needs scale factors
  issue_scaled_mma<m0>(0, 0, 0, 0, 0, 0, 0, false);                               // refused: only the kinds mxf8f6f4, mxf4 and mxf4nvf4 take scales
}

using Sfs = ScaleFactorTile<Scale, 128, 4>;
using Sf256 = ScaleFactorTile<Scale, 256, 4>;
__global__ void multiply_scaled(TmemTensor<128, 128> d, TmemTensor<256, 256, 2> of_pair, TmemTensor<128, 128, 2> half_pair, const Fp8& a, const Tile<E4m3, 64, 128>& half) {
  multiply_scaled_tiles(d, a, a, TmemScaleFactors<Sfs, Sfs>(0), false);
  multiply_scaled_tiles(d, a, half, TmemScaleFactors<Sfs, Sfs>(0), false);        // refused: the accumulator must have as many rows as the tile of A
  multiply_scaled_tiles(of_pair, a, a, TmemScaleFactors<Sfs, Sf256>(0), false);
  multiply_scaled_tiles(of_pair, a, a, TmemScaleFactors<Sfs, Sfs>(0), false);     // refused: each block of a pair needs all of B's
  multiply_scaled_tiles(half_pair, half, half, TmemScaleFactors<Sfs, Sfs>(0), false);  // refused: for a pair of blocks M must be 256
  multiply_scaled_tiles(d, a, a, TmemScaleFactors<Sfs, ScaleFactorTile<Scale, 128, 8>>(0), false);  // refused: of one type, and equally many along K
}
constexpr int r0 = scale_factor_rows<96>();
constexpr int r1 = scale_factor_rows<48>();                                         // refused: must begin at multiples of 32 rows

// ---- Copies ---------------------------------------------------------------------------------------------------------
__global__ void copy(const __grid_constant__ TileMap<A> a_map, const __grid_constant__ TileMap<Tile<Bf16, 128, 64, k128, kMn>> column_map, uint64_t* barrier) {
  __shared__ A a;
  __shared__ B b;
  copy_tile(a, a_map, 0, 0, barrier);
  copy_tile(b, a_map, 0, 0, barrier);                                             // refused: the tensor map was made for tiles of another type
  copy_tile(a, column_map, 0, 0, barrier);                                        // refused: the tensor map was made for tiles of another type
  copy_tile_to_blocks(b, a_map, 0, 0, barrier, 3);                                // refused: the tensor map was made for tiles of another type
}

// ---- Payloads and pipelines -----------------------------------------------------------------------------------------
using Sf = ScaleFactorTile<Scale, 128, 4>;
using Floats = PlainTile<float, 1, 128>;
template class stagecraft::StandardTilePayload<A, B, 4>;
template class stagecraft::StandardTilePayload<A, B, 0>;                          // refused: NumTiles must be at least 1
template class stagecraft::StandardTilePayload<A, B, 10>;                         // refused: the tiles do not fit in the 227 KiB of shared memory
template class stagecraft::BlockScaledTilePayload<Fp8, Fp8, Sf, Sf, 4>;
template class stagecraft::BlockScaledTilePayload<Fp8, Fp8, Sf, Sf, 7>;           // refused: the tiles do not fit in the 227 KiB of shared memory
template class stagecraft::BlockScaledTilePayload<Fp8, Packed, Sf, Sf, 1>;        // refused: must have equally many columns, along K
template class stagecraft::BlockScaledTilePayload<Tile<E4m3, 256, 128>, Fp8, Sf, Sf, 1>;  // refused: must have no fewer rows than their operand
template class stagecraft::BlockScaledTilePayload<Fp8, Fp8, Sf, ScaleFactorTile<Scale, 128, 8>, 1>;  // refused: must have equally many scale factors along K
template class stagecraft::BlockwiseFp8TilePayload<Fp8, Fp8, Floats, 2>;
template class stagecraft::BlockwiseFp8TilePayload<A, A, Floats, 2>;              // refused: must be of __nv_fp8_e4m3 or __nv_fp8_e5m2
template class stagecraft::BlockwiseFp8TilePayload<Fp8, Fp8, PlainTile<float, 1, 64>, 2>;  // refused: one for each row of A
template class stagecraft::BlockwiseFp8TilePayload<Fp8, Fp8, Floats, 8>;          // refused: the tiles do not fit in the 227 KiB of shared memory
using Payload = StandardTilePayload<A, B, 4>;
template class stagecraft::InputTilePipeline<Payload, 2, 2>;
template class stagecraft::InputTilePipeline<Payload, 0, 2>;                      // refused: NumGroupStages must be at least 1
template class stagecraft::InputTilePipeline<Payload, 4, 0>;                      // refused: KGroupSize must be at least 1
template class stagecraft::InputTilePipeline<Payload, 3, 2>;                      // refused: the payload must hold NumGroupStages * KGroupSize tiles
using Wide = TmemTensor<128, 256>;
constexpr int o0 = OutputTilePipeline<Wide, 2>::tmem_columns;
constexpr int o1 = OutputTilePipeline<Wide, 3>::tmem_columns;                     // refused: the accumulators do not fit in the 512 columns
template <int Accumulators, int Stages, int Places>
constexpr int scaled_columns = BlockScaledTmem<OutputTilePipeline<Wide, Accumulators>, BlockScaledTilePayload<Fp8, Fp8, Sf, Sf, Stages>, Places>::tmem_columns;
constexpr int p0 = scaled_columns<1, 4, 4>;
constexpr int p1 = scaled_columns<2, 4, 1>;                                       // refused: accumulators and scale factors do not fit in the 512 columns
constexpr int p2 = scaled_columns<1, 4, 5>;                                       // refused: NumPlaces must be 1 to the number of k-tiles
constexpr int o2 = OutputTilePipeline<Wide, 0>::tmem_columns;                     // refused: NumStages must be at least 1

// ---- Clusters -------------------------------------------------------------------------------------------------------
constexpr int c0 = ClusterShape<4, 4, 2>::readers;
constexpr int c1 = ClusterShape<0, 1>::readers;                                   // refused: Rows and Columns must be at least 1
constexpr int c2 = ClusterShape<8, 4>::readers;                                   // refused: a cluster has at most 16 blocks
constexpr int c3 = ClusterShape<4, 1, 3>::readers;                                // refused: CtaGroup must be 1 or 2
constexpr int c4 = ClusterShape<1, 2, 2>::readers;                                // refused: with CtaGroup 2 Rows must be even
const auto slices = make_tile_map<A, 2>(nullptr, 128, 64);
const auto narrow = make_tile_map<Tile<Bf16, 16, 64>, 4>(nullptr, 16, 64);        // refused: slices of a multiple of 8 lines
using Shared = InputTilePipeline<Payload, 4, 1, ClusterShape<2, 2>>;
__global__ void load_slices(Shared& pipeline, const __grid_constant__ TileMap<A, 2> in_two, const __grid_constant__ TileMap<B> in_one) {
  auto tiles = pipeline.producer().acquire();
  tiles.load_a(in_two, 0, 0);
  tiles.load_b(in_one, 0, 0);                                                     // refused: load_b: the tensor map must be one of make_tile_map<Payload::BTile, Cluster::blocks_sharing_b>
}
