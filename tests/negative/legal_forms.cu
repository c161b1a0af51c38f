// Every way to treat a handle that is right, and that a compiler might fail to prove: no call to a message may remain.
#include <utility>

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

/// Through functions, by value and back.
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

/// Scopes, left by every way.
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
