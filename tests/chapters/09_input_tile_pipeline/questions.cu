// Given: asks the learner's pipeline after each move of one thread, which plays both roles.
#include <input_tile_pipeline.hpp>

#include "launches.hpp"
#include "stagecraft/tile_payload.hpp"

using namespace stagecraft;

/// filled[i], free[i]: what the consumer and the producer are answered before the first move, and after each.
__global__ void ask_after_each_move(int* filled, int* free) {
  using SmallTile = Tile<float, 8, 8, Swizzle::bytes_32>;
  using Payload = StandardTilePayload<SmallTile, SmallTile, 2>;
  using Pipeline = InputTilePipeline<Payload, 2>;
  __shared__ typename Payload::Storage tiles;
  __shared__ typename Pipeline::BarrierArray barriers;
  Pipeline::init_barriers(barriers, /*producer_arrive_count=*/1, /*consumer_arrive_count=*/1);
  fence_barrier_init();
  Pipeline pipeline{barriers, Payload{tiles}};

  for (int question = 0;; ++question) {
    filled[question] = pipeline.consumer().try_acquire();
    free[question] = pipeline.producer().try_acquire();
    if (question == kQuestions - 1) break;
    if (question < 2) {
      arrive(pipeline.producer_mbar(pipeline.producer_stage()));
      pipeline.producer_step();
    } else {
      arrive(pipeline.consumer_mbar(pipeline.consumer_stage()));
      pipeline.consumer_step();
    }
  }
}

void launch_ask_after_each_move(int* filled, int* free) { ask_after_each_move<<<1, 1>>>(filled, free); }
