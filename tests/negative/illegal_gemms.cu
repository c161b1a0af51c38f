// What a GEMM kernel refuses to be compiled for, one mistake in each marked line; the others are legal.
#include "stagecraft/gemm/types.hpp"

using namespace stagecraft;
constexpr DataType bf16 = DataType::bf16, f16 = DataType::f16, f32 = DataType::f32, tf32_ = DataType::tf32;
constexpr DataType e4m3 = DataType::e4m3, e5m2 = DataType::e5m2;
constexpr DataType kBlockwise = DataType::fp8_blockwise;
constexpr Major kMn = Major::mn;

// clang-format off
template struct stagecraft::GemmTypes<GemmConfig{}>;
template struct stagecraft::GemmTypes<GemmConfig{.tile_m = 64, .tile_n = 16, .accumulators = 4}>;
template struct stagecraft::GemmTypes<GemmConfig{.a = e4m3, .b = e5m2, .d = e4m3}>;
template struct stagecraft::GemmTypes<GemmConfig{.a = bf16, .b = f16}>;                                         // refused: the tensor core multiplies equal types
template struct stagecraft::GemmTypes<GemmConfig{.a = e4m3, .b = bf16}>;                                        // refused: and e4m3 with e5m2
template struct stagecraft::GemmTypes<GemmConfig{.a = f32, .b = f32}>;                                          // refused: a matrix of float is multiplied as tf32
template struct stagecraft::GemmTypes<GemmConfig{.d = tf32_}>;                                                  // refused: the result must be f32, bf16, f16, e4m3, mxfp8, mxfp4 or nvfp4
template struct stagecraft::GemmTypes<GemmConfig{.tile_m = 96}>;                                                // refused: tile_m must be 64 or 128
template struct stagecraft::GemmTypes<GemmConfig{.tile_n = 8}>;                                                 // refused: tile_n must be 16, 32, ..., 256
template struct stagecraft::GemmTypes<GemmConfig{.tile_n = 264}>;                                               // refused: tile_n must be 16, 32, ..., 256
template struct stagecraft::GemmTypes<GemmConfig{.a = tf32_, .b = tf32_, .d = f32, .b_major = kMn, .tile_n = 48}>;  // refused: its swizzle has lines of 32 elements
template struct stagecraft::GemmTypes<GemmConfig{.k_group = 0}>;                                                // refused: k_group must be 1 to 8
template struct stagecraft::GemmTypes<GemmConfig{.tile_n = 64, .accumulators = 5}>;                             // refused: accumulators must be 1 to 4
template struct stagecraft::GemmTypes<GemmConfig{.tile_n = 256, .accumulators = 3}>;                            // refused: accumulators * tile_n must be at most 512
template struct stagecraft::GemmTypes<GemmConfig{.tile_m = 256, .cta_group = 2, .cluster_m = 2}>;
template struct stagecraft::GemmTypes<GemmConfig{.tile_m = 256, .tile_n = 256, .cta_group = 2, .cluster_m = 4, .cluster_n = 4, .launch_control = true, .divides_k = true}>;
template struct stagecraft::GemmTypes<GemmConfig{.tile_m = 256}>;                                               // refused: tile_m must be 64 or 128 for one block
template struct stagecraft::GemmTypes<GemmConfig{.tile_m = 64, .cta_group = 2, .cluster_m = 2}>;                // refused: tile_m must be 128 or 256 for a pair
template struct stagecraft::GemmTypes<GemmConfig{.cta_group = 3}>;                                              // refused: cta_group must be 1 or 2
template struct stagecraft::GemmTypes<GemmConfig{.cta_group = 2}>;                                              // refused: cluster_m must be even with cta_group 2
template struct stagecraft::GemmTypes<GemmConfig{.tile_n = 48, .cta_group = 2, .cluster_m = 2}>;                // refused: tile_n must be 32, 64, ..., 256 for a pair
template struct stagecraft::GemmTypes<GemmConfig{.cluster_m = 8, .cluster_n = 4}>;                              // refused: a cluster has 1 to 16 blocks
template struct stagecraft::GemmTypes<GemmConfig{.cluster_m = 3}>;                                              // refused: tile_n must be a multiple of 8 * cluster_m. Choose a smaller cluster_m, or another tile_n
template struct stagecraft::GemmTypes<GemmConfig{.b_major = kMn, .cluster_m = 3}>;                              // refused: as many as elements in 128 bytes: they must be a multiple of 8 * cluster_m / cta_group. Choose a smaller cluster_m
template struct stagecraft::GemmTypes<GemmConfig{.tile_m = 64, .cluster_n = 16}>;                               // refused: must be a multiple of 8 * cluster_n. Choose a smaller cluster_n, or a larger tile_m
template struct stagecraft::GemmTypes<GemmConfig{.a_major = kMn, .cluster_n = 3}>;                              // refused: they must be a multiple of 8 * cluster_n. Choose a smaller cluster_n
template struct stagecraft::GemmTypes<GemmConfig{.d = DataType::mxfp4, .tile_n = 16}>;                          // refused: the columns of D that a warp stores must be a multiple of 16 bytes
template struct stagecraft::GemmTypes<GemmConfig{.d = DataType::mxfp8, .tile_n = 48}>;                          // refused: in whole blocks with a scale factor
template struct stagecraft::GemmTypes<GemmConfig{.a = DataType::nvfp4, .b = DataType::nvfp4, .tile_n = 256}>;   // refused: Choose fewer accumulators, or a smaller tile_n
template struct stagecraft::GemmTypes<GemmConfig{.cluster_m = 4, .cluster_n = 4, .fallback_m = 2, .fallback_n = 1, .launch_control = true}>;
template struct stagecraft::GemmTypes<GemmConfig{.cluster_m = 4, .fallback_m = 3, .fallback_n = 1}>;             // refused: a fallback cluster is smaller than the cluster
template struct stagecraft::GemmTypes<GemmConfig{.cluster_m = 4, .fallback_m = 4, .fallback_n = 1}>;             // refused: a fallback cluster is smaller than the cluster
template struct stagecraft::GemmTypes<GemmConfig{.cluster_m = 4, .fallback_m = 2}>;                              // refused: and fallback_m divides cluster_m
template struct stagecraft::GemmTypes<GemmConfig{.tile_m = 256, .cta_group = 2, .cluster_m = 4, .fallback_m = 1, .fallback_n = 1}>;  // refused: fallback_m must be even with cta_group 2
template struct stagecraft::GemmTypes<GemmConfig{.adds_c = true}>;                                              // refused: adds_c needs epilogue full or gated
template struct stagecraft::GemmTypes<GemmConfig{.epilogue = GemmEpilogue::full, .adds_c = true, .c = e4m3}>;    // refused: C and the bias must be f32, bf16 or f16
template struct stagecraft::GemmTypes<GemmConfig{.epilogue = GemmEpilogue::full, .adds_c = true, .c = f32, .bias = f16, .device_factors = true}>;
template struct stagecraft::GemmTypes<GemmConfig{.device_factors = true}>;                                      // refused: device_factors needs epilogue full or gated
template struct stagecraft::GemmTypes<GemmConfig{.epilogue = GemmEpilogue::full, .gathers_c = true}>;           // refused: gathers_c needs adds_c
template struct stagecraft::GemmTypes<GemmConfig{.d = e4m3, .tile_n = 16, .epilogue = GemmEpilogue::gated}>;    // refused: half of tile_n columns of D must be a multiple of 16 bytes
template struct stagecraft::GemmTypes<GemmConfig{.a = DataType::nvfp4, .b = DataType::nvfp4, .tile_n = 256, .accumulators = 1}>;
template struct stagecraft::GemmTypes<GemmConfig{.a = DataType::nvfp4, .b = DataType::mxfp4}>;                  // refused: the tensor core multiplies equal types
template struct stagecraft::GemmTypes<GemmConfig{.a = DataType::mxfp8, .b = DataType::mxfp8, .a_major = kMn}>;  // refused: operands with scales for blocks along K must be contiguous along K
template struct stagecraft::GemmTypes<GemmConfig{.a = DataType::mxfp8, .b = DataType::mxfp8, .tile_n = 64}>;
template struct stagecraft::GemmTypes<GemmConfig{.a = DataType::mxfp8, .b = DataType::mxfp8, .tile_n = 96}>;    // refused: scale factors come in atoms of 128 rows
template struct stagecraft::GemmTypes<GemmConfig{.a = DataType::mxfp8, .b = DataType::mxfp8, .tile_m = 64}>;    // refused: with block-scaled operands tile_m must be 128
template struct stagecraft::GemmTypes<GemmConfig{.a = DataType::mxfp8, .b = DataType::mxfp8, .cta_group = 2, .cluster_m = 2}>;  // refused: with block-scaled operands tile_m must be 128, of a pair 256
template struct stagecraft::GemmTypes<GemmConfig{.a = kBlockwise, .b = kBlockwise, .accumulators = 4}>;
template struct stagecraft::GemmTypes<GemmConfig{.a = kBlockwise, .b = kBlockwise, .tile_n = 256, .cta_group = 2, .cluster_m = 2}>;
template struct stagecraft::GemmTypes<GemmConfig{.a = kBlockwise, .b = e4m3}>;                                  // refused: the tensor core multiplies equal types
template struct stagecraft::GemmTypes<GemmConfig{.a = kBlockwise, .b = kBlockwise, .tile_n = 256}>;             // refused: with fp8_blockwise tile_n must be 16, 32, 64 or 128
template struct stagecraft::GemmTypes<GemmConfig{.a = kBlockwise, .b = kBlockwise, .tile_n = 96}>;              // refused: with fp8_blockwise tile_n must be 16, 32, 64 or 128
template struct stagecraft::GemmTypes<GemmConfig{.a = kBlockwise, .b = kBlockwise, .transposes_d = true}>;      // refused: where D is transposed
template struct stagecraft::GemmTypes<GemmConfig{.d = kBlockwise}>;                                             // refused: the result must be f32, bf16, f16, e4m3, mxfp8, mxfp4 or nvfp4
template struct stagecraft::GemmTypes<GemmConfig{.d = DataType::nvfp4}>;
template struct stagecraft::GemmTypes<GemmConfig{.d = DataType::mxfp8, .transposes_d = true}>;                  // refused: where D is transposed
template struct stagecraft::GemmTypes<GemmConfig{.a = DataType::nvfp4, .b = DataType::nvfp4, .launch_control = true, .divides_k = true, .epilogue = GemmEpilogue::gated, .groups = true, .adds_c = true}>;
template struct stagecraft::GemmTypes<GemmConfig{.epilogue = GemmEpilogue::full, .transposes_d = true, .adds_c = true}>;
template struct stagecraft::GemmTypes<GemmConfig{.groups = true, .transposes_d = true}>;                        // refused: transposes_d needs a D without groups
template struct stagecraft::GemmTypes<GemmConfig{.epilogue = GemmEpilogue::gated, .transposes_d = true}>;       // refused: transposes_d needs epilogue plain or full
template struct stagecraft::GemmTypes<GemmConfig{.stages = 8}>;                                                 // refused: the stages do not fit in shared memory
template struct stagecraft::GemmTypes<GemmConfig{.tile_n = 256, .k_group = 5}>;                                 // refused: the stages do not fit in shared memory
