// Right uses of a ring by its two roles, one in each kernel.
#include "stagecraft/role_pipeline.hpp"

using namespace stagecraft;

constexpr int kStages = 1;
constexpr int kCtaGroup = 2;

__global__ void step_in_a_ring(uint64_t* full, uint64_t* empty) {
  RolePipeline<kStages> producer{full, empty};
  producer.step();
}

__global__ void commit_in_a_pair(uint64_t* full, uint64_t* empty) {
  RolePipeline<2, true, 1, 1, kCtaGroup> producer{full, empty};
  producer.commit();
}

__global__ void commit(uint64_t* full, uint64_t* empty) {
  RolePipeline<2> producer{full, empty};
  producer.commit();
}

__global__ void commit_as_producer(uint64_t* full, uint64_t* empty) {
  RolePipeline<2, /*IsProducer=*/true> producer{full, empty};
  producer.commit();
}

__global__ void acquire_and_commit(uint64_t* full, uint64_t* empty) {
  RolePipeline<2, /*IsProducer=*/true> producer{full, empty};
  producer.acquire();
  producer.commit();
}

__global__ void release(uint64_t* full, uint64_t* empty) {
  RolePipeline<2, /*IsProducer=*/false> consumer{full, empty};
  consumer.release();
}

__global__ void wait_and_release(uint64_t* full, uint64_t* empty) {
  RolePipeline<2, /*IsProducer=*/false> consumer{full, empty};
  consumer.wait();
  consumer.release();
}

__global__ void fill_halves(uint64_t* full, uint64_t* empty) {
  RolePipeline<2, /*IsProducer=*/true, /*ProducerSubStages=*/2> producer{full, empty};
  producer.acquire();
  arrive(producer.producer_mbar<1>());
  producer.commit();
}

__global__ void free_halves(uint64_t* full, uint64_t* empty) {
  RolePipeline<2, /*IsProducer=*/false, /*ProducerSubStages=*/1, /*ConsumerSubStages=*/2> consumer{full, empty};
  consumer.wait();
  consumer.release_no_step<0>();
  consumer.release<1>();
}
