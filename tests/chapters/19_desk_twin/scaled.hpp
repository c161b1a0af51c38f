// What chapter 19's tests of block-scaled types start. scaled.cu is compiled against every answer.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

/// The types of the tests.
enum class ScaledKind { mxfp8, nvfp4 };

// ---- Scale factors in registers -------------------------------------------------------------------------------------

/// Rows of the operands of a warp, the rows of the tiles of scale factors at which they begin, and slices of a k-tile.
inline constexpr int kScaledRowsOfA = 32, kScaledRowsOfB = 64, kFirstScaledRowOfA = 96, kFirstScaledRowOfB = 64,
                     kScaledSlices = 4;
/// Rows of the tiles.
inline constexpr int kScaleTileRows = 128;

/// A lane's registers, as ScaleFragments has them.
struct KnownScales {
  uint32_t a[kScaledRowsOfA / 32], b[kScaledRowsOfB / 32];
};

/// One warp loads word number `word` of tiles of scale factors by the answer's ScaleFragments.
/// @param sfa, sfb  a tile of each operand, of 16 blocks (nvfp4) in atoms.
/// @param found     32 lanes.
void launch_load_scales(const uint8_t* sfa, const uint8_t* sfb, int word, KnownScales* found);

/// Fragments of each operand that selectors are asked for.
inline constexpr int kSelectedFragments = 8;

/// A fragment's scale factors in each slice, by the answer.
struct KnownSelectors {
  struct {
    int byte, thread;
  } a[kScaledSlices][kSelectedFragments], b[kScaledSlices][kSelectedFragments];
};
void launch_select_scales(ScaledKind kind, KnownSelectors* found);

/// One warp multiplies by the answer's multiply_scaled(), for each slice with sums that hold `first` before: elements
/// are 1, and the registers of scale factors are given.
/// @param scales  32 lanes, the same for all slices.
/// @param sums    kScaledSlices x 32 x 64, row-major.
void launch_multiply_ones(ScaledKind kind, const KnownScales* scales, float* sums, float first);

// ---- The kernel -----------------------------------------------------------------------------------------------------

/// D (m x n) = A (m x k) * B (n x k) transposed by the answer's kernel: of mxfp8 with tiles that are known before the
/// launch, of nvfp4 with tiles that the hardware hands out.
/// @param a, b      elements, row-major. @param sfa, sfb  scale factors in atoms, with padding that is 0.
/// @param n         a multiple of 8. @param k  of 16 bytes.
/// @param blocks    at most, of mxfp8.
void launch_scaled_gemm(ScaledKind kind, const uint8_t* a, const uint8_t* sfa, const uint8_t* b, const uint8_t* sfb,
                        __nv_bfloat16* d, int m, int n, int k, uint32_t blocks);
