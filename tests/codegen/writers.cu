// Epilogues that only write accumulators to D, for check_writer.py to analyse.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <utility>

#include "stagecraft/epilogue.hpp"
#include "stagecraft/output_tile_pipeline.hpp"
#include "stagecraft/tile_writer.hpp"

using namespace stagecraft;

namespace {

using Output = OutputTilePipeline<TmemTensor<128, 128>, 2>;
template <typename Element>
using Writer = TileWriter<Output::Accumulator, Element>;

/// Writes one tile after the other. Called by the four warps of an epilogue.
template <typename Element>
__device__ __forceinline__ void write_tiles(const typename Writer<Element>::Map& map, int tiles) {
  __shared__ __align__(1024) typename Writer<Element>::Storage slices;
  __shared__ Output::BarrierArray barriers;
  Output output{barriers, /*address=*/0};
  Writer<Element> writer{slices, map};
  Epilogue epilogue{};
#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    writer.write(output.acquire_epilogue(),
                 {.row = tile * 128, .column = 0, .batch = 0, .row_end = tiles * 128, .column_end = 128}, epilogue);
  }
  writer.drain();
}

}  // namespace

#define WRITER(NAME, ELEMENT)                                             \
  extern "C" __global__ void __launch_bounds__(128, 1)                    \
      NAME(const __grid_constant__ Writer<ELEMENT>::Map map, int tiles) { \
    write_tiles<ELEMENT>(map, tiles);                                     \
  }
WRITER(f32, float)
WRITER(bf16, __nv_bfloat16)
WRITER(f16, __half)
WRITER(e4m3, __nv_fp8_e4m3)
