// Two halves are numbered 0 and 1.
// expect: RolePipeline: sub-stage out of range: it must be 0 to ConsumerSubStages - 1
#include "stagecraft/role_pipeline.hpp"

using namespace stagecraft;

__global__ void free_halves(uint64_t* full, uint64_t* empty) {
  RolePipeline<2, /*IsProducer=*/false, /*ProducerSubStages=*/1, /*ConsumerSubStages=*/2> consumer{full, empty};
  consumer.wait();
  consumer.release_no_step<0>();
#ifdef FIXED
  consumer.release<1>();
#else
  consumer.release<2>();  // here
#endif
}
