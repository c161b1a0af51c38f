// Work for the emulated GPU whose rate is compared with that of the host's processor.
#pragma once

#include "side_by_side.hpp"

// Each needs the chip that it names, or any. They end the process with a message when a result is wrong.
Work multiply_by_tcgen05();  ///< B200. Operations of bf16 MMAs of 128 x 256 x 16
Work multiply_by_wgmma();    ///< H200. Operations of bf16 MMAs of 64 x 256 x 16
Work copy_tiles();           ///< Bytes of bf16 tiles of 128 x 64, swizzled, from a matrix of kMatrixBytes

inline constexpr int kMatrixRows = 2048, kMatrixColumns = 1024;
inline constexpr int kMatrixBytes = kMatrixRows * kMatrixColumns * 2;
inline constexpr int kPasses = 8;  ///< over the matrix
inline constexpr int kTileBytes = 128 * 64 * 2, kRingBytes = 4 * kTileBytes;
