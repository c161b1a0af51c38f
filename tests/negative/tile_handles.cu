// Right uses of the handles of tiles and accumulators, one in each kernel.
#include "stagecraft/input_tile_pipeline.hpp"
#include "stagecraft/output_tile_pipeline.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;
using Payload = StandardTilePayload<Tile<__nv_bfloat16, 64, 64>, Tile<__nv_bfloat16, 64, 64>, 2>;
using Pipeline = InputTilePipeline<Payload, 2>;
using Output = OutputTilePipeline<TmemTensor<128, 64>, 2>;

__global__ void copy_in_a_scope() {
  __shared__ Payload::Storage storage;
  __shared__ Pipeline::BarrierArray barriers;
  Pipeline pipeline{barriers, Payload{storage}};
  auto producer = pipeline.producer();
  auto tiles = producer.acquire();
}

__global__ void copy_one() {
  __shared__ Payload::Storage storage;
  __shared__ Pipeline::BarrierArray barriers;
  Pipeline pipeline{barriers, Payload{storage}};
  auto tiles = pipeline.acquire_producer();
  tiles.expect_bytes();
  std::move(tiles).release();
}

__global__ void copy_some(const int* skip, int groups) {
  __shared__ Payload::Storage storage;
  __shared__ Pipeline::BarrierArray barriers;
  Pipeline pipeline{barriers, Payload{storage}};
  auto producer = pipeline.producer();
  for (int group = 0; group < groups; ++group) {
    auto tiles = producer.acquire_stage();
    if (skip[group] != 0) {
      std::move(tiles).release();
      continue;
    }
    tiles.expect_bytes();
    std::move(tiles).release();
  }
}

__global__ void read(int groups) {
  __shared__ Payload::Storage storage;
  __shared__ Pipeline::BarrierArray barriers;
  Pipeline pipeline{barriers, Payload{storage}};
  for (int group = 0; group < groups; ++group) {
    auto tiles = pipeline.acquire_consumer();
    arrive(tiles.mbar());
    std::move(tiles).release();
  }
}

__global__ void read_until_negative(int* out, int groups) {
  __shared__ Payload::Storage storage;
  __shared__ Pipeline::BarrierArray barriers;
  Pipeline pipeline{barriers, Payload{storage}};
  for (int group = 0; group < groups; ++group) {
    auto tiles = pipeline.acquire_consumer();
    if (out[group] < 0) {
      std::move(tiles).release();
      return;
    }
    arrive(tiles.mbar());
    std::move(tiles).release();
  }
}

__global__ void multiply(const int* empty, int tiles) {
  __shared__ Output::BarrierArray barriers;
  Output output{barriers, 0};
  for (int tile = 0; tile < tiles; ++tile) {
    auto stage = output.acquire_mma();
    if (empty[tile] != 0) {
      std::move(stage).release_without_signal();
      break;
    }
    std::move(stage).release();
  }
}

__global__ void store(float* out, int tiles) {
  __shared__ Output::BarrierArray barriers;
  Output output{barriers, 0};
  for (int tile = 0; tile < tiles; ++tile) {
    auto stage = output.acquire_epilogue();
    float values[32];
    stage.accumulator().load(values, warp_index(), 0);
    std::move(stage).release();
    for (int i = 0; i < 32; ++i) out[threadIdx.x * 32 + i] = values[i];
  }
}

__global__ void store_and_release_last(float* out, int tiles) {
  __shared__ Output::BarrierArray barriers;
  Output output{barriers, 0};
  for (int tile = 0; tile < tiles; ++tile) {
    auto stage = output.acquire_epilogue();
    float values[32];
    stage.accumulator().load(values, warp_index(), 0);
    for (int i = 0; i < 32; ++i) out[threadIdx.x * 32 + i] = values[i];
    std::move(stage).release();
  }  // the stage is released here
}
