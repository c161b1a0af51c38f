// A consumer waits until a stage is free, where it needs one that is filled.
// expect: only_producers_may_call_this
#include "stagecraft/role_pipeline.hpp"

using namespace stagecraft;

__global__ void kernel(uint64_t* full, uint64_t* empty) {
  RolePipeline<2, /*IsProducer=*/false> consumer{full, empty};
#ifdef FIXED
  consumer.wait();
  consumer.release();
#else
  consumer.acquire();  // here
#endif
}
