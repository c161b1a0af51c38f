// A ring of no stages, by role.
// expect: RolePipeline: NumberOfStages must be at least 1
#include "stagecraft/role_pipeline.hpp"

using namespace stagecraft;

#ifdef FIXED
constexpr int kStages = 1;
#else
constexpr int kStages = 0;
#endif

__global__ void fill_one(uint64_t* full, uint64_t* empty) {
  RolePipeline<kStages> producer{full, empty};  // here
  producer.step();
}
