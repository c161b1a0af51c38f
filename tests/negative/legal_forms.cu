// Every way to treat a handle that is right, and that a compiler might fail to prove: no call to a message may remain.
#include <cuda/std/optional>
#include <utility>

#include "stagecraft/input_tile_pipeline.hpp"
#include "stagecraft/output_tile_pipeline.hpp"
#include "stagecraft/producer_consumer_pipeline.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

/// Released on every path of a loop that also breaks, continues and returns.
__global__ void every_way_out(const int* in, int* out, uint64_t* barriers, int rows) {
  ProducerConsumerPipeline<3> ring{barriers};
  int sum = 0;
  for (int row = 0; row < rows; ++row) {
    auto stage = ring.acquire_consumer();
    const int value = in[stage.index()];
    if (value == 0) {
      std::move(stage).release();
      continue;
    }
    if (value == 1) {
      std::move(stage).release();
      break;
    }
    if (value == 2) {
      std::move(stage).release_without_signal();
      return;
    }
    switch (value) {
      case 3: std::move(stage).release(); break;
      case 4:
        if (lane_index() == 0) stage.arrive();
        std::move(stage).release_without_signal();
        break;
      default: sum += value; std::move(stage).release();
    }
  }
  *out = sum;
}

/// A handle of one ring inside the life of another's.
__global__ void nested(const int* in, int* out, uint64_t* barriers, int rows) {
  ProducerConsumerPipeline<2> from{barriers};
  ProducerConsumerPipeline<4> to{barriers + 4};
  for (int row = 0; row < rows; ++row) {
    auto source = from.acquire_consumer();
    auto target = to.acquire_producer();
    out[target.index()] = in[source.index()];
    std::move(source).release();
    arrive(target.mbar());
    std::move(target).release();
  }
}

__device__ ProducerStage<2> fill(ProducerStage<2> stage, int* out) {
  out[stage.index()] = 1;
  return stage;
}

__device__ void finish(ProducerStage<2> stage) {
  arrive(stage.mbar());
  std::move(stage).release();
}

/// Through functions, passed by value and returned.
__global__ void through_functions(int* out, uint64_t* barriers, int rows) {
  ProducerConsumerPipeline<2> ring{barriers};
  for (int row = 0; row < rows; ++row) finish(fill(ring.acquire_producer(), out));
}

/// Into a lambda that runs later.
__global__ void through_lambdas(const int* in, int* out, uint64_t* barriers, int rows) {
  ProducerConsumerPipeline<2> ring{barriers};
  for (int row = 0; row < rows; ++row) {
    auto stage = ring.acquire_consumer();
    auto later = [stage = std::move(stage), in, out]() mutable {
      *out += in[stage.index()];
      std::move(stage).release();
    };
    later();
  }
}

/// One stage ahead: the next handle takes the place of the one that was released.
__global__ void one_ahead(const int* in, int* out, uint64_t* barriers, int rows) {
  ProducerConsumerPipeline<2> ring{barriers};
  auto stage = ring.acquire_consumer();
  for (int row = 1; row < rows; ++row) {
    *out += in[stage.index()];
    std::move(stage).release();
    stage = ring.acquire_consumer();
  }
  std::move(stage).release();
}

/// In an optional, which holds a handle from the start. Whether it holds one must not depend on data.
__global__ void in_an_optional(const int* in, int* out, uint64_t* barriers, int rows) {
  ProducerConsumerPipeline<2> ring{barriers};
  for (int row = 0; row < rows; ++row) {
    cuda::std::optional<ConsumerStage<2>> stage{ring.acquire_consumer()};
    *out += in[stage->index()];
    std::move(*stage).release();
  }
}

/// Leaves scopes on every path.
__global__ void scopes(const int* in, int* out, uint64_t* barriers, int rows) {
  ProducerConsumerPipeline<2> ring{barriers};
  for (int row = 0; row < rows; ++row) {
    auto stage = ring.consume();
    if (in[stage.index()] == 0) continue;
    if (in[stage.index()] == 1) break;
    auto explicit_stage = ring.consume_explicit();
    explicit_stage.arrive();
    if (in[explicit_stage.index()] == 2) return;
    *out += ring.consume([&](auto& inner) { return in[inner.index()]; });
  }
  ring.produce([&](auto& stage) {
    out[stage.index()] = 1;
    arrive(stage.mbar());
  });
}

using TileType = Tile<__nv_bfloat16, 64, 64>;
using Payload = StandardTilePayload<TileType, TileType, 4>;
using Input = InputTilePipeline<Payload, 2, 2>;

/// Group stages, through views, one ahead and left by several ways.
__global__ void tiles(const int* in, int* out, Payload::Storage* storage, Input::BarrierArray* barriers, int groups) {
  Input input{*barriers, Payload{*storage}};
  auto producer = input.producer();
  auto filled = producer.acquire_stage();
  for (int group = 1; group < groups; ++group) {
    filled.expect_bytes();
    std::move(filled).release();
    filled = producer.acquire_stage();
  }
  std::move(filled).release();
  producer.drain();

  auto consumer = input.consumer();
  for (int group = 0; group < groups; ++group) {
    auto scope = consumer.acquire_if_needed(consumer.try_acquire());
    arrive(scope.mbar());
    if (in[scope.stage()] == 0) continue;
    auto stage = consumer.acquire_stage();
    if (in[stage.stage()] == 1) {
      std::move(stage).release();
      return;
    }
    auto later = [stage = std::move(stage), out]() mutable {
      *out += static_cast<int>(stage.tile(1).a.shared_address());
      arrive(stage.mbar());
      std::move(stage).release();
    };
    later();
  }
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 1000
using Output = OutputTilePipeline<TmemTensor<64, 64>, 2>;

/// Accumulators, with a group stage inside the life of each, and both at once.
__global__ void accumulators(const int* in, Payload::Storage* storage, Input::BarrierArray* input_barriers,
                             Output::BarrierArray* output_barriers, int tiles) {
  Input input{*input_barriers, Payload{*storage}};
  Output output{*output_barriers, 0};
  for (int tile = 0; tile < tiles; ++tile) {
    auto stage = output.acquire_mma();
    auto group = input.acquire_consumer();
    multiply_tiles(stage.accumulator(), group.tile().a, group.tile().b, false);
    commit_mma(group.mbar());
    std::move(group).release();
    if (in[tile] == 0) {
      commit_mma(stage.mbar());
      std::move(stage).release_without_signal();
      break;
    }
    std::move(stage).release();
  }
  for (int tile = 0; tile < tiles; ++tile) {
    auto stage = output.acquire_epilogue();
    if (in[tile] == 0) {
      stage.arrive();
      std::move(stage).release_without_signal();
      continue;
    }
    std::move(stage).release();
  }
  auto per_k = output.per_k(input);
  for (int step = 0; step < tiles; ++step) {
    auto stage = per_k.mma();
    if (in[step] == 0) break;
    multiply_tiles(stage.accumulator(), stage.tile().a, stage.tile().b, false);
  }
  for (int step = 0; step < tiles; ++step) {
    auto stage = per_k.epilogue();
    if (in[step] == 0) return;
  }
}
#endif
