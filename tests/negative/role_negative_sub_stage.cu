// A negative sub-stage would be a barrier of the stage before.
// expect: RolePipeline: sub-stage out of range: it must be 0 to ProducerSubStages - 1
#include "stagecraft/role_pipeline.hpp"

using namespace stagecraft;

__global__ void fill_halves(uint64_t* full, uint64_t* empty) {
  RolePipeline<2, /*IsProducer=*/true, /*ProducerSubStages=*/2> producer{full, empty};
  producer.acquire();
#ifdef FIXED
  arrive(producer.producer_mbar<1>());
#else
  arrive(producer.producer_mbar<-1>());  // here
#endif
  producer.commit();
}
