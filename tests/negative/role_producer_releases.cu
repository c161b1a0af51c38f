// A producer frees what it should fill.
// expect: only_consumers_may_call_this
#include "stagecraft/role_pipeline.hpp"

using namespace stagecraft;

__global__ void kernel(uint64_t* full, uint64_t* empty) {
  RolePipeline<2, /*IsProducer=*/true> producer{full, empty};
#ifdef FIXED
  producer.commit();
#else
  producer.release();  // here
#endif
}
