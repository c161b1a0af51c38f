// What chapter 18's test starts. launches.cu is compiled against every answer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "decoding.hpp"

/// TODO 1. The pages that the answer asks for, for each part of the first tiles of a sequence.
/// @param page_table  on the device.
std::vector<int> pages_of_tiles(const stagecraft::DecodingShape& shape, const int* page_table, int sequence, int length,
                                int tiles);

/// TODO 2. What the answer says that each row of a group's tile is.
struct RowOfGroup {
  int query, head, visible_keys;
};
std::vector<RowOfGroup> rows_of_group(const stagecraft::DecodingShape& shape, int key_head, int length);

/// TODO 3. What the answer's softmax makes of scores, to the base 2.
struct SoftmaxAnswer {
  std::vector<float> weights;  ///< [tile][key of it][row]
  std::vector<float> factors;  ///< [tile][row], of the first key
  std::vector<float> maximum;  ///< [row], after the last tile
  std::vector<float> sum;      ///< [row], of the first key of each tile
};
inline constexpr int kKeysOfTile = 128;
/// @param scores  [tile][key of it][row].
SoftmaxAnswer softmax_of(std::span<const float> scores);

/// TODO 8. Combines the splits of so many rows.
void launch_combine(const stagecraft::PartialResults& partial, const stagecraft::DecodingResults& results, int64_t rows,
                    int splits);

/// Writes `count` bytes late: a grid that lets the next one start, works for a while, and then copies.
void launch_late_copy(void* to, const void* from, size_t bytes);
