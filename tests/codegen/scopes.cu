// Arrivals in another block and waits, of each scope, for check_scopes.py to weigh.
#include <cstdint>
#include <cuda/ptx>

#include "stagecraft/cluster.hpp"

using namespace stagecraft;

namespace {

template <typename Arrive>
__device__ void write_and_arrive(uint64_t* out, Arrive arrive) {
  __shared__ uint64_t barrier;
  out[0] = 1;  // what a release is to publish
  arrive(&barrier);
}

__device__ uint32_t there(MbarPtr barrier) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(barrier_in_block(barrier, 1)));
}

}  // namespace

extern "C" __global__ void arrive_release_cluster(uint64_t* out) {
  write_and_arrive(out, [](MbarPtr barrier) { arrive_at_block(barrier, 1); });
}
extern "C" __global__ void arrive_release_cta(uint64_t* out) {
  write_and_arrive(out, [](MbarPtr barrier) {
    asm volatile("mbarrier.arrive.release.cta.shared::cluster.b64 _, [%0];" : : "r"(there(barrier)) : "memory");
  });
}
extern "C" __global__ void arrive_without_scope(uint64_t* out) {
  write_and_arrive(out, [](MbarPtr barrier) {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" : : "r"(there(barrier)) : "memory");
  });
}
extern "C" __global__ void arrive_relaxed_cluster(uint64_t* out) {
  write_and_arrive(out, [](MbarPtr barrier) {
    asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" : : "r"(there(barrier)) : "memory");
  });
}

template <Scope WaitScope>
__device__ void ask_and_write(uint64_t* out) {
  __shared__ uint64_t barrier;
  out[0] = test_wait<WaitScope>(&barrier, 0);
}
extern "C" __global__ void wait_acquire_cta(uint64_t* out) { ask_and_write<Scope::block>(out); }
extern "C" __global__ void wait_acquire_cluster(uint64_t* out) { ask_and_write<Scope::cluster>(out); }
