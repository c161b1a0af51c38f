// A consumer signals that there is data.
// expect: only_producers_may_call_this
#include "stagecraft/role_pipeline.hpp"

using namespace stagecraft;

__global__ void kernel(uint64_t* full, uint64_t* empty) {
  RolePipeline<2, /*IsProducer=*/false> consumer{full, empty};
#ifdef FIXED
  consumer.release();
#else
  consumer.commit();  // here
#endif
}
