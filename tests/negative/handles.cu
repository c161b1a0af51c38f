// Right uses of the handles of a ring's stages, one in each kernel.
#include "stagecraft/producer_consumer_pipeline.hpp"

using namespace stagecraft;

constexpr int kStages = 1;

__global__ void step_in_a_ring(uint64_t* barriers) {
  ProducerConsumerPipeline<kStages> ring{barriers};
  ring.producer_step();
}

__global__ void fill_nothing(uint64_t* barriers) {
  ProducerConsumerPipeline<2> ring{barriers};
  ring.acquire_producer().release();
}

__global__ void fill_one(float* tile, uint64_t* barriers) {
  ProducerConsumerPipeline<2> ring{barriers};
  auto stage = ring.acquire_producer();
  tile[stage.index()] = 1;
  arrive(stage.mbar());  // the last use of the stage
  std::move(stage).release();
}

__global__ void fill_through_another(float* tile, uint64_t* barriers) {
  ProducerConsumerPipeline<2> ring{barriers};
  auto stage = ring.acquire_producer();
  auto other = std::move(stage);
  tile[other.index()] = 1;
  arrive(other.mbar());
  std::move(other).release();
}

__device__ void finish(ProducerStage<2> stage) { std::move(stage).release(); }

__global__ void fill_and_let_finish(float* tile, uint64_t* barriers) {
  ProducerConsumerPipeline<2> ring{barriers};
  auto stage = ring.acquire_producer();
  tile[stage.index()] = 1;
  arrive(stage.mbar());
  finish(std::move(stage));
}

__device__ void fill(ProducerStage<2> stage, float* tile, float value) {
  tile[stage.index()] = value;
  arrive(stage.mbar());
  std::move(stage).release();
}

__global__ void fill_all(float* tile, uint64_t* barriers, int rows) {
  ProducerConsumerPipeline<2> ring{barriers};
  for (int row = 0; row < rows; ++row) {
    auto stage = ring.acquire_producer();
    fill(std::move(stage), tile, static_cast<float>(row));
  }
}

__global__ void skip_empty_rows(float* tile, uint64_t* barriers, const int* lengths, int rows) {
  ProducerConsumerPipeline<2> ring{barriers};
  for (int row = 0; row < rows; ++row) {
    auto stage = ring.acquire_producer();
    if (lengths[row] == 0) {
      arrive(stage.mbar());
      std::move(stage).release();
      continue;
    }
    tile[stage.index()] = static_cast<float>(row);
    arrive(stage.mbar());
    std::move(stage).release();
  }
}

__global__ void sum_one(const float* tile, float* out, uint64_t* barriers) {
  ProducerConsumerPipeline<2> ring{barriers};
  auto stage = ring.acquire_consumer();
  *out = tile[stage.index()];
  std::move(stage).release();
}

__global__ void sum_one_and_arrive(const float* tile, float* out, uint64_t* barriers) {
  ProducerConsumerPipeline<2> ring{barriers};
  auto stage = ring.acquire_consumer();
  *out = tile[stage.index()];
  stage.arrive();
  std::move(stage).release_without_signal();
}

__global__ void sum_one_or_be_silent(const float* tile, float* out, uint64_t* barriers) {
  ProducerConsumerPipeline<2> ring{barriers};
  auto stage = ring.acquire_consumer();
  *out = tile[stage.index()];
  if (*out >= 0) {
    std::move(stage).release();  // the only signal
  } else {
    std::move(stage).release_without_signal();
  }
}

__global__ void sum_in_a_scope(const float* tile, float* out, uint64_t* barriers) {
  ProducerConsumerPipeline<2> ring{barriers};
  auto stage = ring.consume();
  *out = tile[ring.consumer_stage()];
}

__global__ void sum_in_an_explicit_scope(const float* tile, float* out, uint64_t* barriers) {
  ProducerConsumerPipeline<2> ring{barriers};
  auto stage = ring.consume_explicit();
  *out = tile[stage.index()];
  stage.arrive();  // before the scope ends
}

__global__ void sum_two(const float* tile, float* out, uint64_t* barriers) {
  ProducerConsumerPipeline<2> ring{barriers};
  auto stage = ring.acquire_consumer();
  float sum = tile[stage.index()];
  std::move(stage).release();
  stage = ring.acquire_consumer();  // the next one
  sum += tile[stage.index()];
  std::move(stage).release();
  *out = sum;
}

__global__ void sum_until_negative(const float* tile, float* out, uint64_t* barriers, int rows) {
  ProducerConsumerPipeline<2> ring{barriers};
  float sum = 0;
  for (int row = 0; row < rows; ++row) {
    auto stage = ring.acquire_consumer();
    const float value = tile[stage.index()];
    if (value < 0) {
      std::move(stage).release_without_signal();
      return;
    }
    sum += value;
    std::move(stage).release();
  }
  *out = sum;
}

__global__ void sum_odd(const float* tile, float* out, uint64_t* barriers, int rows) {
  ProducerConsumerPipeline<2> ring{barriers};
  float sum = 0;
  for (int row = 0; row < rows; ++row) {
    auto stage = ring.acquire_consumer();
    const float value = tile[stage.index()];
    if (value > 0) {
      sum += value;
      std::move(stage).release();
    } else {
      std::move(stage).release();
      sum -= 1;
    }
  }  // both branches are here
  *out = sum;
}

__global__ void interpret(const int* commands, int* out, uint64_t* barriers, int count) {
  ProducerConsumerPipeline<2> ring{barriers};
  for (int i = 0; i < count; ++i) {
    auto stage = ring.acquire_consumer();
    switch (commands[stage.index()]) {
      case 0: std::move(stage).release(); break;
      case 1:
        out[0] += 1;
        std::move(stage).release();
        break;
      default: std::move(stage).release(); out[0] = 0;
    }
  }  // all cases are here
}
