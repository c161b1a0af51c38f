// A consumer makes the tensor core signal that there is data.
// expect: only_producers_may_call_this
#include "stagecraft/role_pipeline.hpp"

using namespace stagecraft;

__global__ void kernel(uint64_t* full, uint64_t* empty) {
  RolePipeline<2, /*IsProducer=*/false> consumer{full, empty};
#ifdef FIXED
  consumer.release();
#else
  consumer.commit_mma();  // here
#endif
}
