// A producer waits for itself.
// expect: only_consumers_may_call_this
#include "stagecraft/role_pipeline.hpp"

using namespace stagecraft;

__global__ void kernel(uint64_t* full, uint64_t* empty) {
  RolePipeline<2, /*IsProducer=*/true> producer{full, empty};
#ifdef FIXED
  producer.acquire();
  producer.commit();
#else
  producer.wait();  // here
#endif
}
