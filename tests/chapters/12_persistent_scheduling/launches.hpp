// What chapter 12's test starts. launches.cu is compiled against every answer.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "stagecraft/tile_raster.hpp"

/// The answer's place of a tile.
stagecraft::TilePosition answer_in_panels(uint32_t number, uint32_t rows, uint32_t columns, uint32_t width);

/// How the blocks of a grid are grouped.
enum class Grouping { blocks, pairs_of_blocks };

/// Three roles take turns by the answer's launch control: a lane that permits requests, a lane, and a warp. Each thread
/// adds 1 to the element of its role and tile: `taken[role * rows * columns + row * columns + column]`. Each cluster
/// that starts adds 1 to `*started`.
void launch_take_turns(Grouping grouping, uint32_t rows, uint32_t columns, uint32_t* taken, uint32_t* started);

enum class Schedule { fixed, launch_control };

/// C (m x n) = A (m x k) * B (n x k) transposed by the answer's kernel; k is a multiple of 8.
/// @param clusters  of a fixed schedule, at most.
void launch_answer(Schedule schedule, Grouping grouping, const __nv_bfloat16* a, const __nv_bfloat16* b, float* c,
                   int m, int n, int k, uint32_t clusters);
