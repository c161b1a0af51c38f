// Starts the answer's kernels, and the parts of them on their own.
#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "launch.cuh"
#include "launches.hpp"

using namespace stagecraft;
using namespace stagecraft::harness;

namespace stagecraft {

template void launch_decoding(const DecodingShape&, const DecodingOperands<__nv_bfloat16>&, const DecodingOptions&);
template void launch_decoding(const DecodingShape&, const DecodingOperands<__nv_fp8_e4m3>&, const DecodingOptions&);

}  // namespace stagecraft

namespace {

__global__ void ask_for_pages(const __grid_constant__ DecodingProblem<__nv_bfloat16> problem, Work work, int* pages) {
  const int part = static_cast<int>(threadIdx.x);
  pages[part] = page_of(problem, work, part / kTilePages, part % kTilePages);
}

__global__ void ask_for_rows(const __grid_constant__ DecodingShape shape, int key_head, int length, RowOfGroup* rows) {
  const int row = static_cast<int>(threadIdx.x);
  const PackedQuery packed = packed_query(shape, key_head, row);
  rows[row] = {packed.query, packed.head, visible_keys(shape, key_head, row, length)};
}

__global__ void __launch_bounds__(kSoftmaxThreads)
    weigh_scores(const float* scores, int tiles, float* weights, float* factors, float* maximum, float* sum) {
  __shared__ ExchangedRows exchanged[2];
  OnlineSoftmax<__nv_bfloat16> softmax;
  const int key = static_cast<int>(threadIdx.x);
  for (int tile = 0; tile < tiles; ++tile) {
    const int64_t first = (int64_t{tile} * kTileKeys + key) * kPackedRows;
    float of_key[kPackedRows], factors_of_tile[kPackedRows];
#pragma unroll
    for (int row = 0; row < kPackedRows; ++row) of_key[row] = scores[first + row];
    softmax.add(of_key, factors_of_tile, exchanged[tile % 2]);
#pragma unroll
    for (int row = 0; row < kPackedRows; ++row) {
      weights[first + row] = of_key[row];
      if (key == 0) factors[tile * kPackedRows + row] = factors_of_tile[row];
    }
  }
#pragma unroll
  for (int row = 0; row < kPackedRows; ++row) {
    if (key != 0) continue;
    maximum[row] = softmax.maximum[row];
    sum[row] = softmax.sum[row];
  }
}

/// The next grid may start at once, and must wait for what this one writes at its end.
__global__ void copy_late(uint4* to, const uint4* from, int chunks) {
  let_next_grid_start();
  for (int i = 0; i < 16; ++i) __nanosleep(1000);
  for (int i = static_cast<int>(threadIdx.x); i < chunks; i += static_cast<int>(blockDim.x)) to[i] = from[i];
}

}  // namespace

std::vector<int> pages_of_tiles(const DecodingShape& shape, const int* page_table, int sequence, int length,
                                int tiles) {
  DecodingProblem<__nv_bfloat16> problem{};
  problem.shape = shape;
  problem.page_table = page_table;
  DeviceBuffer<int> pages(static_cast<size_t>(tiles) * kTilePages, "the pages");
  pages.poison();
  ask_for_pages<<<1, tiles * kTilePages>>>(
      problem, Work{.sequence = sequence, .key_head = 0, .split = 0, .length = length, .first_tile = 0, .tiles = tiles},
      pages.data());
  finish_kernel("ask_for_pages");
  return pages.to_host();
}

std::vector<RowOfGroup> rows_of_group(const DecodingShape& shape, int key_head, int length) {
  DeviceBuffer<RowOfGroup> rows(kPackedRows, "the rows");
  rows.poison();
  ask_for_rows<<<1, kPackedRows>>>(shape, key_head, length, rows.data());
  finish_kernel("ask_for_rows");
  return rows.to_host();
}

SoftmaxAnswer softmax_of(std::span<const float> scores) {
  const int tiles = static_cast<int>(scores.size() / (kTileKeys * kPackedRows));
  const DeviceBuffer<float> there(scores, "the scores");
  DeviceBuffer<float> weights(scores.size(), "the weights"), factors(size_t{kPackedRows} * tiles, "the factors"),
      maximum(kPackedRows, "the maximum"), sum(kPackedRows, "the sum");
  for (DeviceBuffer<float>* buffer : {&weights, &factors, &maximum, &sum}) buffer->poison();
  weigh_scores<<<1, kSoftmaxThreads>>>(there.data(), tiles, weights.data(), factors.data(), maximum.data(), sum.data());
  finish_kernel("weigh_scores");
  return {weights.to_host(), factors.to_host(), maximum.to_host(), sum.to_host()};
}

void launch_combine(const PartialResults& partial, const DecodingResults& results, int64_t rows, int splits) {
  combine<<<static_cast<uint32_t>((rows + kCombineWarps - 1) / kCombineWarps), kCombineWarps * kWarpSize>>>(
      CombineProblem{partial, results, rows, splits});
  finish_kernel("combine");
}

void launch_late_copy(void* to, const void* from, size_t bytes) {
  copy_late<<<1, 128>>>(static_cast<uint4*>(to), static_cast<const uint4*>(from),
                        static_cast<int>(bytes / sizeof(uint4)));
  check(cudaGetLastError(), "launch copy_late");
}
