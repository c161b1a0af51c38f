// Hopper has no tcgen05, so that commit_mma() needs sm_100.
// architecture: 90a
// expect: tcgen05_commit does not exist for this architecture
#include "stagecraft/role_pipeline.hpp"

using namespace stagecraft;

__global__ void kernel(uint64_t* full, uint64_t* empty) {
  RolePipeline<2> producer{full, empty};
#ifdef FIXED
  producer.commit();
#else
  producer.commit_mma();  // here
#endif
}
