// Tensor cores work together by two.
// expect: RolePipeline: CtaGroup must be 1 or 2
#include "stagecraft/role_pipeline.hpp"

using namespace stagecraft;

#ifdef FIXED
constexpr int kCtaGroup = 2;
#else
constexpr int kCtaGroup = 3;
#endif

__global__ void kernel(uint64_t* full, uint64_t* empty) {
  RolePipeline<2, true, 1, 1, kCtaGroup> producer{full, empty};  // here
  producer.commit();
}
