// What chapter 14's test starts. launches.cu is compiled against every answer.
#pragma once

#include <cstdint>

/// The tile of scale factors of TODO 1 and 2: rows of the operand, and blocks along K.
constexpr int kScaleRows = 256, kScaleBlocks = 8;
/// Columns of tensor memory from which the test reads them back.
constexpr int kReadColumns = 16;

/// A byte of tensor memory, relative to the first column of the tile's scale factors.
struct ScalePlace {
  uint32_t lane, column, byte;
};

/// TODO 1. How many columns the answer gives the tile, and where in the first quarter of the lanes it has the scale
/// factor of a row and a block.
int columns_of_scale_factors();
ScalePlace place_of_scale_factor(int row, int block);

/// TODO 2. One thread has the tile copied to tensor memory; `cells` receives, row-major, the 128 lanes of its first
/// kReadColumns columns.
void launch_copy_scale_factors(const uint8_t* tile, uint32_t* cells);

/// The products of the test. Nvfp4 has tiles of C of 256 columns and one accumulator; the others have 128, and two.
enum class Kind { mxfp8, mxfp4, nvfp4 };
inline constexpr int kStages = 4;  ///< of the ring of tiles

/// TODO 3. How the answer divides tensor memory.
struct Division {
  int tmem_columns;                     ///< that it allocates
  int scale_columns;                    ///< of one k-tile: A's and B's
  uint32_t sfa[kStages], sfb[kStages];  ///< first columns of the scale factors, by the k-tile in shared memory
};
Division division_of(Kind kind);

/// TODO 4 and 5. C (m x n) = A (m x k) * B (n x k) transposed by the answer's kernel, on so many blocks at most:
/// elements row-major, scale factors in atoms, with padding that is 0.
void launch_answer(Kind kind, const uint8_t* a, const uint8_t* sfa, const uint8_t* b, const uint8_t* sfb, float* c,
                   int64_t m, int64_t n, int64_t k, int blocks);

/// TODO 6 to 8. The same for e4m3 with f32 scales: a row of scales for each 128 columns; of A one for each row of A, of
/// B one for each 128 rows, padded to a multiple of 4.
void launch_blockwise_answer(const uint8_t* a, const float* a_scales, int64_t a_scales_in_row, const uint8_t* b,
                             const float* b_scales, int64_t b_scales_in_row, float* c, int64_t m, int64_t n, int64_t k,
                             int blocks);
