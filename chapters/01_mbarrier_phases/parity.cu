// One thread moves one barrier on, and asks it for both parities after each move. Do not change it; the exercise is
// phases.cu.
#include <cstdio>

#include "stagecraft/mbarrier.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

__device__ void show(const char* move, MbarPtr barrier) {
  printf("%-28s wait(parity 0) would %-8s wait(parity 1) would %s\n", move,
         try_wait(barrier, 0, 1) ? "pass," : "block,", try_wait(barrier, 1, 1) ? "pass" : "block");
}

__global__ void ask_for_parity() {
  //! [moves]
  __shared__ uint64_t barrier;
  init_barrier(&barrier, /*arrive_count=*/2);
  show("fresh, two arrivals a phase:", &barrier);
  arrive(&barrier);
  show("one has arrived:", &barrier);
  arrive(&barrier);
  show("both have: phase 0 is over:", &barrier);
  arrive(&barrier);
  show("one has arrived again:", &barrier);
  arrive(&barrier);
  show("both have: phase 1 is over:", &barrier);
  //! [moves]
}

int main() {
  ask_for_parity<<<1, 1>>>();
  const cudaError_t error = cudaDeviceSynchronize();
  if (error == cudaSuccess) return 0;
  std::fprintf(stderr, "parity: %s\n", cudaGetErrorString(error));
  return 1;
}
